package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/banyan-hpc/banyan/internal/launch/hosts"
	"github.com/banyan-hpc/banyan/internal/launch/join"
	"github.com/banyan-hpc/banyan/internal/launch/pmi"
	"github.com/banyan-hpc/banyan/internal/launch/spawn"
	"golang.org/x/sys/unix"
)

// job is one running job. The goroutine in loop owns the fields that have no mutex.
type job struct {
	plan     plan
	srv      *pmi.Server
	out, err *sink
	gone     chan struct{} // closed when the output is given up
	targets  []target
	hosts    []*hosts.Remote
	work     sync.WaitGroup // everything that must be over before the sinks are closed
	finished chan struct{}  // closed when all ranks have ended
	ended    chan spawn.End
	aborts   chan abortion
	broken   chan outputEnd
	lost     chan hosts.Loss

	ends       []spawn.End
	left       int
	code       int   // Result.Code
	failedOnce bool  // code is settled
	output     error // Result.Output
	aborted    bool  // a rank has asked for the end of the job
	ending     bool  // the launcher is ending the job
	cancelled  bool  // because Run's context ended
	interrupts int   // SIGINT, SIGTERM and SIGQUIT so far
	forwarded  signalSet
	pending    []unix.Signal // that came before all ranks ran
	kill       <-chan time.Time
	lastGrace  <-chan time.Time // set when all ranks left count as failed at others
	hurry      int              // the exit status if output has to be given up; 0: loop waits for it

	failures    int // ranks that have failed by themselves
	firstStatus int // of the first of them
}

// target gets the signals of a job: a rank of this machine, or a host.
type target interface {
	// Signal sends a signal. stop: the launcher ends the job.
	Signal(sig unix.Signal, stop bool)
}

// abortion is a rank's request to end the job.
type abortion struct {
	rank, code int
	msg        string
}

// Run starts the job that spec describes and returns when all its ranks have ended and their output
// is written. It prints a line to spec.Stderr for every rank that failed by itself.
//
// The error is not nil when the job could not be started, in which case no rank runs and there is
// no Result (an [*InterruptedError] when a signal has kept ranks on hosts from being started), or
// when ctx has ended: then the ranks get SIGTERM and, five seconds later, SIGKILL. Failed ranks and
// output that could not be written are in the Result, not in the error.
//
// After the end of ctx, and after a signal that ends the job at once (see [Spec.Signals]), output
// that is not taken within a second of the last rank's end is given up. Then the write in which
// Spec.Stdout or Stderr hangs is still pending when Run returns.
//
// When a start-up has failed (see [pmi.MissingError]), its time is over and the ranks that had
// joined have ended, Run ends those that never joined.
//
// Run may be called concurrently. While it runs, the process does not die of writing to a broken
// standard output.
func Run(ctx context.Context, spec Spec) (*Result, error) {
	p, err := spec.check()
	if err != nil {
		return nil, err
	}
	broken := make(chan os.Signal, 1) // never read: a broken pipe is an error of a sink's Write
	signal.Notify(broken, syscall.SIGPIPE)
	defer signal.Stop(broken)

	j := &job{
		plan: p, srv: pmi.NewServer(pmi.NewID(), p.N, p.InitTimeout),
		gone: make(chan struct{}), finished: make(chan struct{}),
		ended: make(chan spawn.End, p.N), aborts: make(chan abortion, 1), broken: make(chan outputEnd, 2),
		lost: make(chan hosts.Loss, len(p.shares)),
		ends: make([]spawn.End, p.N),
	}
	j.out, j.err = newSinks(p.Stdout, p.Stderr, j.gone, j.onWriteError)
	if p.shares != nil {
		err = j.startHosts(ctx)
	} else {
		err = j.startHere()
	}
	j.tellStarted()
	j.loop(ctx)
	if err != nil {
		return nil, err
	}
	result := &Result{Job: j.srv.ID, Ends: j.ends, Code: j.code, Output: j.output}
	if j.cancelled {
		err = fmt.Errorf("launch: the job was ended: %w", context.Cause(ctx))
	}
	return result, err
}

// label is the start of each line of a rank's output.
func (j *job) label(rank int) string {
	if j.plan.TagOutput {
		return fmt.Sprintf("[%d] ", rank)
	}
	return ""
}

// name names a rank, with its host if it has one.
func (j *job) name(rank int) string {
	if h := hosts.NameOf(j.plan.shares, rank); h != "" {
		return fmt.Sprintf("rank %d on %s", rank, h)
	}
	return fmt.Sprintf("rank %d", rank)
}

// loop runs until all ranks have ended and their output is written. It never waits for a reader of
// the output, so that signals are always handled.
func (j *job) loop(ctx context.Context) {
	done, overdue := ctx.Done(), j.srv.Overdue()
	var over <-chan struct{}    // set when all ranks have ended
	var giveUp <-chan time.Time // set when output is waited for no longer than that
	for _, sig := range j.pending {
		j.onSignal(sig)
	}
	progress := time.NewTicker(progressPause)
	defer progress.Stop()
	for {
		if j.left == 0 && over == nil {
			over = j.finish()
		}
		select {
		case end := <-j.ended:
			j.onEnd(end)
		case a := <-j.aborts:
			j.onAbort(a)
		case o := <-j.broken:
			j.onBroken(o)
		case l := <-j.lost:
			j.hostLost(l)
		case sig, open := <-j.plan.Signals:
			if !open {
				j.plan.Signals = nil
			}
			j.onSignal(sig)
		case <-progress.C:
			if !j.noteJoining() {
				progress.Stop()
			}
		case <-overdue:
			overdue = nil
			j.endStranded()
		case <-done:
			done, j.cancelled, j.hurry = nil, true, 1
			j.end(unix.SIGTERM)
		case <-j.kill:
			j.end(unix.SIGKILL)
		case <-j.lastGrace:
			j.killGivenUp()
		case <-giveUp:
			close(j.gone)
			j.settle(j.hurry)
			j.dismissHosts() // their proxies wait until the output is taken
		case <-over:
			for len(j.broken) > 0 {
				j.onBroken(<-j.broken)
			}
			for len(j.lost) > 0 {
				j.hostLost(<-j.lost)
			}
			return
		}
		if j.left == 0 && j.hurry != 0 && giveUp == nil {
			giveUp = time.After(spawn.DrainGrace) // fires once
		}
	}
}

// finish is called when all ranks have ended. The result is closed when their output is written, or
// given up.
func (j *job) finish() <-chan struct{} {
	j.srv.Stop()
	close(j.finished)
	over := make(chan struct{})
	go func() {
		defer close(over)
		j.work.Wait()
		j.out.close()
		if j.err != j.out {
			j.err.close()
		}
	}()
	return over
}

func (j *job) onEnd(end spawn.End) {
	j.left--
	j.ends[end.Rank] = end
	j.tell(Event{Kind: Exited, Rank: end.Rank, Host: end.Host, PID: end.PID, End: end})
	if j.isVerdict(end) {
		if j.counts(end) {
			j.settle(end.Code)
		}
	} else if end.Failed() && !end.Stopped {
		if !end.Lost && (end.Signal == 0 || !j.forwarded.has(end.Signal)) { // a forwarded signal is no news
			j.report(end.Rank, fmt.Sprintf("%s %v after %v", j.name(end.Rank), end, end.After.Round(time.Millisecond)))
		}
		if j.failed(end) && !j.ending && j.left > 0 {
			j.note("ending the other ranks")
			j.end(unix.SIGTERM)
		}
	}
	if j.left == 0 {
		j.allEnded()
	}
	j.endStranded()
	j.endGivenUp()
}

// endGivenUp gives the remaining ranks some time to end if all of them count as failed at others, which have ended: they
// do it by themselves unless they are stopped.
func (j *job) endGivenUp() {
	if j.ending || j.left == 0 || j.lastGrace != nil {
		return
	}
	for rank, end := range j.ends {
		if running := end.PID == 0; running && !j.srv.GivenUp(rank) {
			return
		}
	}
	j.lastGrace = time.After(spawn.KillGrace)
}

func (j *job) killGivenUp() {
	for rank, end := range j.ends {
		if end.PID == 0 {
			j.note("killing %s: it counts as failed at the others, which have ended", j.name(rank))
		}
	}
	for _, t := range j.targets {
		t.Signal(unix.SIGKILL, false)
	}
}

// isVerdict reports whether a rank has finalized and exited with a code of Spec.Verdicts.
func (j *job) isVerdict(end spawn.End) bool {
	return end.Finalized && end.Signal == 0 && slices.Contains(j.plan.Verdicts, end.Code)
}

// endStranded ends the job when its start-up has failed, its time is over, and the remaining ranks
// have never joined.
func (j *job) endStranded() {
	missing := j.srv.Failure()
	if missing == nil || !j.srv.IsOverdue() || j.ending || j.left == 0 {
		return
	}
	for rank, end := range j.ends {
		if running := end.PID == 0; running && j.srv.HasJoined(rank) {
			return
		}
	}
	j.report(-1, fmt.Sprintf("the start-up has failed, ending the ranks that never joined: %v", missing))
	j.settle(1)
	j.end(unix.SIGTERM)
}

func (j *job) onAbort(a abortion) {
	if j.aborted {
		return
	}
	j.aborted = true
	text := ""
	if a.msg != "" {
		text = ": " + a.msg
	}
	code := join.ExitStatus(a.code)
	j.report(a.rank, fmt.Sprintf("%s ends the job with code %d%s", j.name(a.rank), code, text))
	if code != 0 {
		j.settle(code)
	}
	j.end(unix.SIGTERM)
}

// settle records the exit status of the job; the first one counts.
func (j *job) settle(code int) {
	if !j.failedOnce {
		j.failedOnce, j.code = true, code
	}
}

// end ends the remaining ranks: with SIGTERM and SIGKILL after KillGrace, or with SIGKILL.
func (j *job) end(sig unix.Signal) {
	if sig == unix.SIGTERM && j.ending {
		return
	}
	if sig == unix.SIGTERM {
		j.kill = time.After(spawn.KillGrace)
	}
	j.ending = true
	for _, t := range j.targets {
		t.Signal(sig, true)
	}
}

// note prints a line of the launcher's own. It never waits. Any goroutine may call it.
func (j *job) note(format string, args ...any) {
	j.err.note(fmt.Appendf(nil, "banyan: "+format+"\n", args...))
}

// onTerminal reports whether the launcher's own lines go to a terminal.
func (j *job) onTerminal() bool {
	f, ok := j.plan.Stderr.(*os.File)
	return ok && spawn.IsTerminal(f)
}

// noteJoining notes on a terminal how many ranks have joined, until the start is over; then it returns false. Nothing
// is noted of a program whose ranks do not join.
func (j *job) noteJoining() bool {
	joined, over := j.srv.Joining()
	if over || j.left == 0 || !j.onTerminal() {
		return false
	}
	if joined > 0 {
		j.note("%d of %d ranks have joined", joined, j.plan.N)
	}
	return true
}

// onWriteError is called by the goroutine of a sink that has failed. A broken pipe is not reported,
// as by other programs.
func (j *job) onWriteError(o outputEnd) {
	if !errors.Is(o.err, syscall.EPIPE) {
		j.note("cannot write to the %s, further output is lost: %v", o.name, o.err)
	}
	j.broken <- o
}

// onBroken handles a failed output. Under Continue the ranks go on without it.
func (j *job) onBroken(o outputEnd) {
	if j.output == nil {
		j.output = fmt.Errorf("launch: %s: %w", o.name, o.err)
	}
	code := 1
	if errors.Is(o.err, syscall.EPIPE) {
		code = 128 + int(unix.SIGPIPE)
	}
	j.settle(code)
	if j.plan.OnFailure == spawn.Abort && !j.ending && j.left > 0 {
		if code == 1 {
			j.note("ending the ranks")
		}
		j.end(unix.SIGTERM)
	}
}
