package hosts

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/banyan-hpc/banyan/internal/launch/pmi"
	"github.com/banyan-hpc/banyan/internal/launch/spawn"
	"golang.org/x/sys/unix"
)

// startedText and endedText are what a proxy tells of its ranks.
type startedText struct{ PIDs []int }

type endedText struct {
	PID, Code int
	Signal    unix.Signal
	After     time.Duration
	Stopped   bool
}

// Remote is one host of a job as the launcher holds it: the remote shell, and
// the link to the proxy at its other end.
type Remote struct {
	Share
	fleet *Config
	said  hearing
	proc  *os.Process // the remote shell; nil: it has not been started
	in    *os.File    // its standard input
	out   *spawn.Output
	link  *link
	Ranks []*Rank // by rank-first

	done    bool          // the proxy has said so; run's
	exited  chan struct{} // closed when the remote shell has ended
	status  string        // how; written before
	heard   chan struct{} // closed when what it printed on its standard error is in said
	command string        // for people

	mu        sync.Mutex
	reaped    bool        // proc's id may belong to another process
	given     string      // why the launcher has killed the remote shell; "" while it has not
	dismissed bool        // its end is no news
	late      *time.Timer // kills a remote shell whose proxy does not answer
	running   bool        // all hosts have started their ranks
	stopping  bool        // the launcher is ending the job
	failure   error       // why it is lost
	lastly    *time.Timer // kills a remote shell that ought to have ended
	settled   bool        // over: lastly is not set any more
}

// Rank is one rank as the launcher holds it from afar.
type Rank struct {
	Rank              int
	PMI, Out, Err, In *Stream
	pid               int
	Since             time.Time
	End               spawn.End
	Exited, Drained   chan struct{}
}

// Answer is a host's reply: that it is ready, that its ranks have started, or
// why not.
type Answer struct {
	Host *Remote
	Err  error
}

// NewRemote makes the Remote of one host. Its Run starts the remote shell.
func (p *Config) NewRemote(s Share) *Remote {
	h := &Remote{
		Share: s, fleet: p, link: newLink(nil, nil), said: hearing{},
		exited: make(chan struct{}), heard: make(chan struct{}),
	}
	for i := range s.Count {
		rank := s.first + i
		r := &Rank{
			Rank: rank, Exited: make(chan struct{}), Drained: make(chan struct{}),
			PMI: h.link.stream(streamPMI, rank), Out: h.link.stream(streamOut, rank), Err: h.link.stream(streamErr, rank),
		}
		if rank == 0 && p.Stdin {
			r.In = h.link.stream(streamIn, rank)
		}
		h.Ranks = append(h.Ranks, r)
	}
	return h
}

// Begin has the ranks of a host started.
func (h *Remote) Begin() {
	h.limit("its ranks were not started")
	h.link.send(frame{kind: frameStart})
}

// Flush returns when all that was sent to the host has been written, or cannot be.
func (h *Remote) Flush() { h.link.flush() }

// exitGrace is how long a remote shell may live on after its proxy has done its work.
const exitGrace = 2 * time.Second

// Run looks after a host from the start of its remote shell to its end.
func (h *Remote) Run() {
	turn, answer := h.fleet.Turn, func(err error) { h.fleet.Answers <- Answer{h, err} }
	turn <- struct{}{}
	err := h.start()
	if err != nil {
		<-turn
		answer(fmt.Errorf("launch: host %s: %w", h.Name, err))
		h.link.close()
		return
	}
	h.limit("nothing has answered")
	err = h.greet()
	h.inTime()
	<-turn
	if err == nil {
		label := "banyan: " + h.Name + ": "
		h.fleet.Note(spawn.Label(h.said.pass(func(p []byte) bool { return h.fleet.Print(spawn.Label(p, label)) }), label))
		answer(nil)
		err = h.attend(answer)
	}
	h.over(err, answer)
}

// greet waits for the proxy's greeting and sends it the job.
func (h *Remote) greet() error {
	noise, version, err := skipNoise(h.link.r)
	h.said.hear(noise)
	if err != nil {
		return err
	}
	if version != strconv.Itoa(protocolVersion) {
		return fmt.Errorf("%s speaks version %s of the proxies' protocol, this launcher version %d: use the same build on all hosts, or name it with --remote-ftbench",
			h.fleet.Proxy[0], pmi.Excerpt(version), protocolVersion)
	}
	text, err := h.fleet.describe(h.Share)
	if err != nil {
		return err
	}
	h.link.send(frame{kind: frameJob, payload: text})
	f, err := h.link.read()
	switch {
	case err != nil:
		return noEOF(err)
	case f.kind == frameRefused:
		return refusal(f)
	case f.kind != frameReady:
		return fmt.Errorf("%w: one of kind %d in answer to the job", errFrame, f.kind)
	}
	return nil
}

// refusalError is why a proxy does not run its ranks.
type refusalError struct{ why string }

// Error is the proxy's own words.
func (e refusalError) Error() string { return e.why }

func refusal(f frame) error { return refusalError{string(f.payload)} }

// attend handles what the proxy says until it is done. A nil error is a proxy
// that has said so.
func (h *Remote) attend(answer func(error)) error {
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
			h.inTime()
			answer(nil)
		case frameRefused:
			return refusal(f)
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
	if i < 0 || i >= len(h.Ranks) || h.Ranks[i].End.PID != 0 {
		return fmt.Errorf("%w: the end of rank %d, which is not running there", errFrame, f.rank)
	}
	var text endedText
	if err := json.Unmarshal(f.payload, &text); err != nil || text.PID <= 0 {
		return fmt.Errorf("%w: %s as the end of a rank (%v)", errFrame, pmi.Excerpt(string(f.payload)), err)
	}
	r := h.Ranks[i]
	r.End = spawn.End{
		Rank: r.Rank, PID: text.PID, Host: h.Name, Code: text.Code, Signal: text.Signal,
		After: text.After, Stopped: text.Stopped,
	}
	close(r.Exited)
	return nil
}

// over is called when nothing more comes from the proxy.
func (h *Remote) over(err error, answer func(error)) {
	if h.done {
		h.link.finish()
		h.killAfter(exitGrace, "it did not end with its proxy")
	} else {
		err = h.explain(err)
		h.dropRanks(err, answer)
		h.Kill("its proxy is gone")
	}
	<-h.exited
	h.mu.Lock()
	h.settled = true
	for _, t := range []*time.Timer{h.lastly, h.late} {
		if t != nil {
			t.Stop()
		}
	}
	h.mu.Unlock()
	h.link.close()
	h.out.Close()
}

// dropRanks gives up the ranks whose ends the proxy has not told.
func (h *Remote) dropRanks(err error, answer func(error)) {
	h.mu.Lock()
	h.failure = fmt.Errorf("launch: host %s: %w", h.Name, err)
	running, news := h.running, !h.dismissed
	h.mu.Unlock()
	switch {
	case !running:
		answer(h.failure)
	case news:
		h.fleet.Note(fmt.Appendf(nil, "banyan: host %s is lost: %v; %s\n", h.Name, err, h.fate()))
		h.fleet.Lost <- h
	}
	h.link.close()
	for _, r := range h.Ranks {
		if r.End.PID != 0 {
			continue
		}
		r.End = spawn.End{Rank: r.Rank, PID: r.pid, Host: h.Name, Lost: true, After: time.Since(r.Since)}
		close(r.Exited)
	}
}

// fate says what becomes of the ranks of a host that is lost.
func (h *Remote) fate() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	ends := h.stopping || h.fleet.OnFailure == spawn.Abort
	switch {
	case h.Count == 1 && ends:
		return fmt.Sprintf("rank %d, if still running, ends with it", h.first)
	case h.Count == 1:
		return fmt.Sprintf("rank %d, if still running, goes on there, alone", h.first)
	case ends:
		return fmt.Sprintf("ranks %d to %d, if still running, end with it", h.first, h.first+h.Count-1)
	}
	return fmt.Sprintf("ranks %d to %d, if still running, go on there, alone", h.first, h.first+h.Count-1)
}

// Running says that the job has come about, unless the host is lost already.
func (h *Remote) Running() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.running = true
	return h.failure
}

// Signal has a signal sent to all ranks of the host and to what they have
// started.
func (h *Remote) Signal(sig unix.Signal, stop bool) {
	payload := []byte{byte(sig), 0}
	if stop {
		payload[1] = 1
		h.mu.Lock()
		h.stopping = true
		h.mu.Unlock()
	}
	h.link.send(frame{kind: frameSignal, payload: payload})
	if sig == unix.SIGKILL {
		h.killAfter(spawn.KillGrace, fmt.Sprintf("it has not said within %v that its ranks are dead", spawn.KillGrace))
	}
}

// Dismiss ends a host whatever it does: its ranks, its proxy, its remote shell.
func (h *Remote) Dismiss() {
	h.mu.Lock()
	h.dismissed = true
	h.mu.Unlock()
	h.link.send(frame{kind: frameSignal, payload: []byte{byte(unix.SIGKILL), 1}})
	h.link.finish()
	h.killAfter(exitGrace, "it was dismissed")
}
