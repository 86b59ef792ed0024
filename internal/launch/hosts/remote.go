package hosts

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/internal/launch/pmi"
	"github.com/banyan-hpc/banyan/internal/launch/spawn"
)

// exitGrace is how long a remote shell may live on after its proxy has done its work.
const exitGrace = 2 * time.Second

// Remote is one host of a job as the launcher holds it: the remote shell, and the link to the proxy
// at its other end.
type Remote struct {
	Share
	Ranks []*Rank // by rank-first

	job   *Config
	shell *shellProcess
	link  *link
	done  bool // the proxy has sent frameDone; Run's

	mu        sync.Mutex
	running   bool  // all hosts have started their ranks
	left      int   // ranks whose end the proxy has not reported
	stopping  bool  // the launcher is ending the job
	killing   bool  // its ranks are to be dead soon
	dismissed bool  // its end is not reported
	failure   error // why it is lost
}

// Rank is one rank of a host.
type Rank struct {
	spawn.Rank
	pid   int
	since time.Time
	end   spawn.End // set before Exited is closed
}

// PID is the rank's process id on its host, once the host has answered that its ranks are started.
func (r *Rank) PID() int { return r.pid }

// wait is spawn.Rank's Wait.
func (r *Rank) wait() spawn.End {
	<-r.Exited
	if r.Input != nil {
		r.Input.End()
	}
	return r.end
}

// output is the output of a rank, cut into lines by its proxy.
type output struct {
	from    *stream
	written chan struct{}
}

// Copy is spawn.Stream's.
func (o output) Copy(write func([]byte) bool, _ bool) {
	defer close(o.written)
	for {
		chunk, ok := o.from.next()
		if !ok || !write(chunk) {
			return
		}
		o.from.taken(len(chunk))
	}
}

// Written is spawn.Stream's.
func (o output) Written() <-chan struct{} { return o.written }

// Answer is a host's reply: that it is ready, that its ranks have started, or why not.
type Answer struct {
	Host *Remote
	Err  error
}

// Loss is a host that is lost while the job runs, and the printed message about that.
type Loss struct{ Host, Text string }

// NewRemote makes the Remote of one host. Its Run starts the remote shell.
func (c *Config) NewRemote(s Share) *Remote {
	h := &Remote{Share: s, job: c, link: newLink(nil, nil), shell: newShellProcess(), left: s.Count}
	for number := s.first; number < s.first+s.Count; number++ {
		r := &Rank{}
		r.Rank = spawn.Rank{
			Number: number, PMI: h.link.stream(streamPMI, number),
			Out:    output{h.link.stream(streamOut, number), make(chan struct{})},
			Err:    output{h.link.stream(streamErr, number), make(chan struct{})},
			Exited: make(chan struct{}), Drained: make(chan struct{}), Wait: r.wait,
		}
		h.Ranks = append(h.Ranks, r)
	}
	return h
}

// OpenInput sets the Input of rank 0, if it is on this host and has one.
func (h *Remote) OpenInput() (err error) {
	if h.job.Stdin && h.first == 0 {
		h.Ranks[0].Input, err = spawn.NewInput(h.link.stream(streamIn, 0))
	}
	return err
}

// Begin has the ranks of the host started.
func (h *Remote) Begin() {
	for _, r := range h.Ranks {
		r.since = time.Now()
	}
	h.limit("its ranks were not started")
	h.link.send(frame{kind: frameStart})
}

// limit bounds the time in which the proxy has to answer.
func (h *Remote) limit(fault string) {
	d := h.job.Timeout
	h.shell.killAfter(d, fmt.Sprintf("%s within %v (--init-timeout, %s)", fault, d, pmi.InitTimeoutEnv), false)
}

// Flush returns when all that was sent to the host has been written, or cannot be.
func (h *Remote) Flush() { h.link.flush() }

// Run serves a host from the start of its remote shell to its end.
func (h *Remote) Run() {
	h.job.Turn <- struct{}{}
	if err := h.start(); err != nil {
		<-h.job.Turn
		h.answer(fmt.Errorf("launch: host %s: %w", h.Name, err))
		h.link.close()
		return
	}
	h.limit("nothing has answered")
	err := h.greet()
	h.shell.inTime()
	<-h.job.Turn
	if err == nil {
		label := "banyan: " + h.Name + ": "
		show := func(p []byte) bool { return h.job.Print(spawn.Label(p, label)) }
		h.job.Note(spawn.Label(h.shell.words.passOn(show), label))
		h.answer(nil)
		err = h.serve()
	}
	h.finish(err)
}

func (h *Remote) answer(err error) { h.job.Answers <- Answer{h, err} }

// start starts the remote shell and the writing to it.
func (h *Remote) start() error {
	if err := h.shell.start(h.job, h.Name); err != nil {
		return err
	}
	h.link.open(h.shell.out, h.shell.in)
	h.job.Work.Go(func() { h.link.write(); h.shell.in.Close() })
	return nil
}

// greet waits for the proxy's greeting and sends it the job.
func (h *Remote) greet() error {
	noise, version, err := skipNoise(h.link.r)
	h.shell.words.add(noise)
	if err != nil {
		return err
	}
	if version != strconv.Itoa(protocolVersion) {
		return fmt.Errorf("%s speaks version %s of the proxies' protocol, this launcher version %d: "+
			"use the same build on all hosts, or name it with --remote-ftbench",
			h.job.Proxy[0], pmi.Excerpt(version), protocolVersion)
	}
	text, err := h.job.describe(h.Share)
	if err != nil {
		return err
	}
	h.link.send(frame{kind: frameJob, payload: text})
	f, err := h.link.read()
	switch {
	case err != nil:
		return noEOF(err)
	case f.kind == frameRefused:
		return refusalError{string(f.payload)}
	case f.kind != frameReady:
		return fmt.Errorf("%w: one of kind %d in answer to the job", errFrame, f.kind)
	}
	return nil
}

// refusalError is why a proxy does not run its ranks, in its own words.
type refusalError struct{ why string }

// Error is the proxy's text.
func (e refusalError) Error() string { return e.why }

// serve handles the proxy's frames. It returns nil when the proxy is done.
func (h *Remote) serve() error {
	for {
		f, err := h.link.read()
		if err != nil {
			return noEOF(err)
		}
		switch f.kind {
		case frameStarted:
			if err := h.onStarted(f); err != nil {
				return err
			}
			h.shell.inTime()
			h.answer(nil)
		case frameRefused:
			return refusalError{string(f.payload)}
		case frameEnded:
			if err := h.onEnded(f); err != nil {
				return err
			}
		case frameDone:
			h.done = true
			return nil
		default:
			return fmt.Errorf("%w: one of kind %d from a proxy", errFrame, f.kind)
		}
	}
}

func (h *Remote) onStarted(f frame) error {
	var text startedText
	if err := json.Unmarshal(f.payload, &text); err != nil || len(text.PIDs) != h.Count {
		return fmt.Errorf("%w: %d process ids of %d ranks (%v)", errFrame, len(text.PIDs), h.Count, err)
	}
	for i, r := range h.Ranks {
		if r.pid != 0 || text.PIDs[i] <= 0 {
			return fmt.Errorf("%w: process id %d of a rank that has %d", errFrame, text.PIDs[i], r.pid)
		}
		r.pid = text.PIDs[i]
	}
	return nil
}

func (h *Remote) onEnded(f frame) error {
	i := f.rank - h.first
	if i < 0 || i >= len(h.Ranks) || h.Ranks[i].end.PID != 0 {
		return fmt.Errorf("%w: the end of rank %d, which is not running there", errFrame, f.rank)
	}
	var text endedText
	if err := json.Unmarshal(f.payload, &text); err != nil || text.PID <= 0 {
		return fmt.Errorf("%w: %s as the end of a rank (%v)", errFrame, pmi.Excerpt(string(f.payload)), err)
	}
	r := h.Ranks[i]
	r.end = spawn.End{
		Rank: r.Number, PID: text.PID, Host: h.Name, Code: text.Code, Signal: text.Signal,
		After: text.After, Stopped: text.Stopped,
	}
	close(r.Exited)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.left--; h.left == 0 && h.killing {
		h.shell.inTime() // their output may be read slowly
	}
	return nil
}

// finish is called when no more frames come from the proxy.
func (h *Remote) finish(err error) {
	if h.done {
		h.link.finish()
		h.shell.killAfter(exitGrace, "it did not end with its proxy", true)
	} else {
		h.lose(h.explain(err))
		h.shell.kill("its proxy is gone")
	}
	h.shell.await()
	h.link.close()
	h.shell.out.Close()
}

// lose gives up the ranks whose ends the proxy has not reported.
func (h *Remote) lose(err error) {
	h.mu.Lock()
	h.failure = fmt.Errorf("launch: host %s: %w", h.Name, err)
	running, reported := h.running, !h.dismissed
	h.mu.Unlock()
	switch {
	case !running:
		h.answer(h.failure)
	case reported:
		text := fmt.Sprintf("host %s is lost: %v; %s", h.Name, err, h.consequence())
		h.job.Note(fmt.Appendf(nil, "banyan: %s\n", text))
		h.job.Lost <- Loss{h.Name, text}
	}
	h.link.close()
	for _, r := range h.Ranks {
		if r.end.PID == 0 {
			r.end = spawn.End{Rank: r.Number, PID: r.pid, Host: h.Name, Lost: true, After: time.Since(r.since)}
			close(r.Exited)
		}
	}
}

// consequence describes the consequence for the ranks of a lost host.
func (h *Remote) consequence() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	ranks, end, goOn := fmt.Sprintf("rank %d", h.first), "ends", "continues"
	if h.Count > 1 {
		ranks, end, goOn = fmt.Sprintf("ranks %d to %d", h.first, h.first+h.Count-1), "end", "continue"
	}
	if h.stopping || h.job.OnFailure == spawn.Abort {
		return fmt.Sprintf("%s, if still running, %s with it", ranks, end)
	}
	return fmt.Sprintf("%s, if still running, %s there, alone", ranks, goOn)
}

// explain returns the reason for the end of the link to a proxy. The remote shell often reports it,
// by its exit code and its output.
func (h *Remote) explain(err error) error {
	var refused refusalError
	if errors.As(err, &refused) {
		return err
	}
	ended := errors.Is(err, io.ErrUnexpectedEOF)
	fault := err.Error()
	if ended {
		fault = "the remote shell has closed its output and not ended"
	}
	status, killed := h.shell.reason(fault)
	var text strings.Builder
	switch {
	case killed:
		text.WriteString(status)
	case ended:
		fmt.Fprintf(&text, "the remote shell %s", status)
	default:
		fmt.Fprintf(&text, "%v; the remote shell %s", err, status)
	}
	if words := h.shell.words.line(); words != "" {
		fmt.Fprintf(&text, "; it printed: %s", words)
	}
	fmt.Fprintf(&text, " (%s)", h.shell.command)
	switch {
	case killed:
	case strings.HasSuffix(status, "code 127"), strings.HasSuffix(status, "code 126"):
		fmt.Fprintf(&text, ": is %s on that host, for this user to execute? "+
			"Copy ftbench there, or give its path with --remote-ftbench", h.job.Proxy[0])
	case status == "ended": // with code 0, as neither ssh nor ftbench would
		fmt.Fprintf(&text, ": has it run %s there, and is that ftbench? It waits for the launcher "+
			"and does not end by itself: give its path on that host with --remote-ftbench, "+
			"and with --rsh a command that runs others there", h.job.Proxy[0])
	}
	return errors.New(text.String())
}

// Running is called when all hosts have started their ranks. It returns why this one is lost
// already.
func (h *Remote) Running() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.running = true
	return h.failure
}

// Signal sends a signal to all ranks of the host and their children. stop: the launcher ends the
// job.
func (h *Remote) Signal(sig unix.Signal, stop bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	payload := []byte{byte(sig), 0}
	if stop {
		payload[1], h.stopping = 1, true
	}
	h.link.send(frame{kind: frameSignal, payload: payload})
	if sig == unix.SIGKILL && h.left > 0 && !h.killing {
		h.killing = true
		why := fmt.Sprintf("it has not reported within %v that its ranks are dead", spawn.KillGrace)
		h.shell.killAfter(spawn.KillGrace, why, false)
	}
}

// Dismiss ends a host in any state: its ranks, its proxy, its remote shell.
func (h *Remote) Dismiss() {
	h.mu.Lock()
	h.dismissed = true
	h.mu.Unlock()
	h.link.send(frame{kind: frameSignal, payload: []byte{byte(unix.SIGKILL), 1}})
	h.link.finish()
	h.shell.killAfter(exitGrace, "it was dismissed", true)
}

// Kill ends the remote shell, or keeps it from starting.
func (h *Remote) Kill(why string) { h.shell.kill(why) }
