package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/banyan-hpc/banyan/internal/launch"
	"golang.org/x/sys/unix"
)

// eventLog is the file of --json: a line for each event of the job. Its own goroutine writes, so that
// a slow reader does not hold up the launcher.
type eventLog struct {
	begin time.Time
	host  string // this one
	to    io.WriteCloser
	mu    sync.Mutex
	lines [][]byte      // that wait
	more  chan struct{} // there are lines; closed after the last
	done  chan error    // the first error of writing
}

// runEvent is a line.
type runEvent struct {
	Event   string    `json:"event"`
	Time    time.Time `json:"time"`
	Seconds float64   `json:"seconds"` // since the launcher began
	Rank    *int      `json:"rank,omitempty"`
	Host    string    `json:"host,omitempty"`
	PID     int       `json:"pid,omitempty"`
	runExit
	Error string `json:"error,omitempty"`
}

// runExit is how a rank, or the job, has ended.
type runExit struct {
	Code      *int    `json:"code,omitempty"`   // none for a rank that a signal killed, or that is lost
	Signal    string  `json:"signal,omitempty"` // SIGKILL …
	Duration  float64 `json:"duration_seconds,omitempty"`
	Finalized bool    `json:"finalized,omitempty"` // it has ended its part in the job in order
	Stopped   bool    `json:"stopped,omitempty"`   // killed because the launcher ended the job
	Lost      bool    `json:"lost,omitempty"`      // with its host
}

// openEvents opens the file, to which the job's events are written. With - they are the standard
// output, and the standard output of ranks goes to the standard error. "": there is no log.
func openEvents(path string, spec *launch.Spec) (*eventLog, error) {
	if path == "" {
		return nil, nil
	}
	l := &eventLog{begin: time.Now(), more: make(chan struct{}, 1), done: make(chan error, 1)}
	l.host, _ = os.Hostname() // "": a machine without a name
	if path == dash {
		l.to, spec.Stdout = unclosed{spec.Stdout}, spec.Stderr
	} else {
		if err := checkFiles(path); err != nil {
			return nil, fmt.Errorf("--json: %w", err)
		}
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
		if err != nil {
			return nil, fmt.Errorf("--json: %w", err)
		}
		l.to = f
	}
	spec.Events = l.event
	go l.write()
	return l, nil
}

// event logs an event of the launcher.
func (l *eventLog) event(e launch.Event) {
	line := runEvent{Event: string(e.Kind), Host: e.Host, PID: e.PID, Error: e.Text}
	if e.Rank >= 0 {
		line.Rank = &e.Rank
	}
	if line.Host == "" && e.Rank >= 0 {
		line.Host = l.host
	}
	if e.Kind == launch.Exited {
		line.runExit = runExit{
			Signal: unix.SignalName(e.End.Signal), Duration: e.End.After.Seconds(),
			Finalized: e.End.Finalized, Stopped: e.End.Stopped, Lost: e.End.Lost,
		}
		if e.End.Signal == 0 && !e.End.Lost {
			line.Code = &e.End.Code
		}
	}
	l.add(line)
}

// add queues a line. It never waits.
func (l *eventLog) add(e runEvent) {
	e.Time = time.Now()
	e.Seconds = e.Time.Sub(l.begin).Seconds()
	b, err := json.Marshal(e)
	if err != nil {
		panic(err) // words and numbers
	}
	l.mu.Lock()
	l.lines = append(l.lines, append(b, '\n'))
	l.mu.Unlock()
	select {
	case l.more <- struct{}{}:
	default: // awake already
	}
}

// write writes the lines until there are no more. After an error it drops them.
func (l *eventLog) write() {
	var failed error
	for open := true; open; {
		_, open = <-l.more
		l.mu.Lock()
		lines := l.lines
		l.lines = nil
		l.mu.Unlock()
		for _, b := range lines {
			if failed == nil {
				_, failed = l.to.Write(b)
			}
		}
	}
	if err := l.to.Close(); failed == nil {
		failed = err
	}
	l.done <- failed
}

// end logs the end of the job, of which err is the command's, and closes the file. A log that is not
// whole is an error where there is no other.
func (l *eventLog) end(err error) error {
	if l == nil {
		return err
	}
	code := codeOf(err)
	last := runEvent{Event: "ended", runExit: runExit{Code: &code, Duration: time.Since(l.begin).Seconds()}}
	if _, isCode := err.(exitCode); err != nil && !isCode {
		last.Error = err.Error()
	}
	l.add(last)
	close(l.more)
	if failed := <-l.done; failed != nil && err == nil {
		return fmt.Errorf("--json: events are missing: %w", failed)
	}
	return err
}
