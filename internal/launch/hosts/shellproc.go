package hosts

import (
	"cmp"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/internal/launch/spawn"
)

// wordsMax bounds the kept output of a remote shell before its proxy is ready.
const wordsMax = 4 << 10

// words is the output of a remote shell. It is kept while it may explain why the host does not
// answer, and shown when the host is ready.
type words struct {
	mu   sync.Mutex
	text []byte
	to   func([]byte) bool // nil: keep
}

// add keeps p or passes it on. It reports false when the output is given up.
func (w *words) add(p []byte) bool {
	w.mu.Lock()
	to := w.to
	if to == nil {
		w.text = append(w.text, p...)
		w.text = w.text[max(0, len(w.text)-wordsMax):]
	}
	w.mu.Unlock()
	return to == nil || to(p)
}

// passOn returns the text so far. Later text goes to the function.
func (w *words) passOn(to func([]byte) bool) []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := w.text
	w.text, w.to = nil, to
	return text
}

// line is the text so far as one line without control characters, which a terminal would obey.
func (w *words) line() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case r == '\n', r == '\r', unicode.IsPrint(r):
			return r
		}
		return '?'
	}, strings.ToValidUTF8(string(w.text), "?"))
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}

// shellProcess is the process of a remote shell.
type shellProcess struct {
	proc    *os.Process // nil: not started
	command string      // for people
	in      *os.File    // its standard input
	out     *spawn.Output
	words   words
	printed chan struct{} // closed when its standard error is in words
	exited  chan struct{}
	status  string // how it has ended; set before exited is closed

	mu     sync.Mutex
	reaped bool        // proc's id may belong to another process
	killed string      // why the launcher has killed it, or ""
	timer  *time.Timer // kills it
	final  bool        // inTime does not stop timer
	over   bool        // timer is not set any more
}

func newShellProcess() *shellProcess {
	return &shellProcess{printed: make(chan struct{}), exited: make(chan struct{})}
}

// start starts the remote shell.
func (s *shellProcess) start(c *Config, host string) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.killed != "" {
		return errors.New(s.killed)
	}
	cmd := &exec.Cmd{Path: c.Proxy[0], Args: slices.Clone(c.Proxy)}
	var files spawn.Files
	defer func() { files.Close(err) }()
	var ours, theirs [3]*os.File
	for i := range ours {
		if ours[i], theirs[i], err = files.Pipe(i == 0); err != nil {
			return spawn.Explain(err)
		}
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs[0], theirs[1], theirs[2]
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // the launcher forwards the signals of the terminal
	if err = c.Shell(host, cmd); err != nil {
		return spawn.Explain(err)
	}
	s.command = strings.Join(cmd.Args, " ")
	s.proc, s.in, s.out = cmd.Process, ours[0], spawn.NewOutput(ours[1])
	errs := spawn.NewOutput(ours[2])
	c.Work.Go(func() { s.wait(cmd, errs) })
	c.Work.Go(func() {
		errs.Copy(s.words.add, true)
		close(s.printed)
	})
	return nil
}

// wait reaps the remote shell. Processes that it has left behind, such as the master of shared
// connections that ssh starts, may hold its pipes.
func (s *shellProcess) wait(cmd *exec.Cmd, errs *spawn.Output) {
	spawn.AwaitExit(cmd.Process.Pid)
	s.mu.Lock()
	s.reaped = true
	s.mu.Unlock()
	err := cmd.Wait()
	s.status = "ended"
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		end := spawn.End{Code: exit.ExitCode()}
		if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			end.Signal = ws.Signal()
		}
		s.status = end.String()
	}
	s.out.Ended()
	errs.Ended()
	close(s.exited)
}

// reason returns how the remote shell has ended, or why the launcher has killed it. It waits for
// the end, and after DrainGrace kills for the fault.
func (s *shellProcess) reason(fault string) (text string, killed bool) {
	grace := time.NewTimer(spawn.DrainGrace)
	defer grace.Stop()
	select {
	case <-s.exited:
	case <-grace.C:
		s.kill(fault)
		<-s.exited
	}
	grace.Reset(2 * spawn.DrainGrace)
	select {
	case <-s.printed: // within DrainGrace: its words explain the end
	case <-grace.C: // they are passed on, and not read
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.killed != "" {
		return s.killed, true
	}
	return s.status, false
}

// killAfter kills the remote shell if it lives so long. Unless it is final, inTime cancels it; the
// first final one counts.
func (s *shellProcess) killAfter(d time.Duration, why string, final bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || s.final {
		return
	}
	if s.timer != nil {
		s.timer.Stop()
	}
	s.final = final
	s.timer = time.AfterFunc(d, func() { s.kill(why) })
}

// inTime cancels a killAfter that is not final.
func (s *shellProcess) inTime() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.final {
		s.timer.Stop()
	}
}

// kill ends the remote shell, or keeps it from starting.
func (s *shellProcess) kill(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.killed = cmp.Or(s.killed, why)
	if s.proc != nil && !s.reaped {
		_ = unix.Kill(-s.proc.Pid, unix.SIGKILL) // ESRCH: it has ended
	}
}

// await returns when the remote shell has ended.
func (s *shellProcess) await() {
	<-s.exited
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	if s.timer != nil {
		s.timer.Stop()
	}
}
