package shm

import (
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// polled polls, without sleeping, until the observer has seen so many ends, and once more: see observer.end.
func polled(p *Provider, e *observer, ends int) {
	for len(e.ends) < ends {
		p.PollDeaths()
		p.Poll(&e.Sink)
	}
	p.Poll(&e.Sink)
}

// A process that polls reports an end before it asks the kernel how the peer has ended.
func TestExitCauseAfterReport(t *testing.T) {
	withWords(t)
	p := open(t, Config{Self: 0, MaxProcs: 2})
	v := spawn(t, role{Self: 1, MaxProcs: 2})
	p.stopWatcher(v.connect(p), byWord, byPidfd)
	p.SetPolling(true)
	v.write("exit")
	e := newObserver()
	for len(e.ends) == 0 {
		p.PollDeaths()
		p.Poll(&e.Sink)
	}
	require.Zero(t, e.ends[0])
	require.NoError(t, unix.Waitid(unix.P_PID, v.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil))
	require.Equal(t, proc.Cause{Kind: proc.Exited, Code: 3}, p.ExitCause(1))
}

// However a process ends, a polling process whose watcher gets no events finds it: after its
// frames, with the cause, and the process is gone. The same holds with a record of ends that lacks
// this one.
func TestPollReportsDeath(t *testing.T) {
	withWords(t)
	for _, record := range []bool{false, true} {
		for name, c := range map[string]struct {
			end  func(v *victim)
			want proc.Cause
		}{
			"killed": {(*victim).kill, killed},
			"exits":  {func(v *victim) { v.write("exit") }, proc.Cause{Kind: proc.Exited, Code: 3}},
			"execs":  {func(v *victim) { v.write("exec") }, killed},
			"stopped, then killed": {func(v *victim) {
				require.NoError(v.t, v.cmd.Process.Signal(unix.SIGSTOP))
				v.kill()
			}, killed},
		} {
			t.Run(name+recordName[record], func(t *testing.T) {
				p := open(t, Config{Self: 0, MaxProcs: 2})
				if record {
					p, _ = reportedExit(t)
				}
				v := spawn(t, role{Self: 1, MaxProcs: 2, Threads: 4})
				p.stopWatcher(v.connect(p), byWord, byPidfd)
				c.end(v)
				e := newObserver()
				polled(p, e, 1)
				allow(t, c.want, e.ends[0])
				require.Equal(t, []uint64{1}, e.got)
				require.EqualValues(t, 1, p.watch.by[byPoll].Load())
				if c.want == killed {
					require.Equal(t, unix.SIGKILL, v.signaled())
				}
			})
		}
	}
}

var recordName = map[bool]string{false: "", true: ", with a record"}

// The failure detector that asks about a process learns that it has called exec, also where the
// watcher uses a record that lacks it.
func TestExecedPeerDoesNotRun(t *testing.T) {
	withWords(t)
	p, _ := reportedExit(t)
	v := spawn(t, role{Self: 1, MaxProcs: 2})
	c := v.connect(p)
	p.stopWatcher(c, byPidfd, byPoll)
	v.write("exec")
	for !c.gone.Load() {
		p.Runs(1)
	}
	allow(t, killed, newObserver().end(p))
	require.Equal(t, unix.SIGKILL, v.signaled())
}

// A polling process reads the record itself.
func TestPollOfTheRecord(t *testing.T) {
	p, say := reportedExit(t)
	v := spawn(t, role{Self: 1, MaxProcs: 2})
	p.stopWatcher(v.connect(p), byWord, byPidfd, byExits, byPoll)
	want := proc.Cause{Kind: proc.Exited, Code: 77}
	say(v, want)
	e := newObserver()
	polled(p, e, 1)
	require.Equal(t, want, e.ends[0])
	require.EqualValues(t, 1, p.watch.by[byExits].Load())
	require.Equal(t, unix.SIGKILL, v.signaled())
}

// The words of many peers are read in turn, one at a time, whichever of them ends.
func TestPollInTurn(t *testing.T) {
	withWords(t)
	const n = 100
	cfg := Config{Self: 0, MaxProcs: n + 2, Lines: 64, BulkBytes: 16 << 10}
	p := open(t, cfg)
	many := spawn(t, role{Self: 2, MaxProcs: n + 2, Lines: 64, BulkBytes: 16 << 10, Ids: n})
	one := spawn(t, role{Self: 1, MaxProcs: n + 2, Lines: 64, BulkBytes: 16 << 10})
	e := newObserver()
	for _, v := range []*victim{many, one} {
		v.order("dial " + hex.EncodeToString(p.Address()))
	}
	for len(e.got) < n+1 {
		p.Poll(&e.Sink)
	}
	for _, c := range p.conns {
		p.stopWatcher(c, byWord, byPidfd)
	}
	one.kill()
	polled(p, e, 1)
	require.Len(t, p.deaths.words, n)
	many.kill()
	polled(p, e, n+1)
	require.EqualValues(t, n+1, p.watch.by[byPoll].Load())
	require.Empty(t, p.deaths.words)
}

// The first process that finds a death makes the others check, before it is the turn of that word.
func TestDeathIsSpread(t *testing.T) {
	withWords(t)
	first, second := open(t, Config{Self: 0, MaxProcs: 3}), open(t, Config{Self: 2, MaxProcs: 3})
	v := spawn(t, role{Self: 1, MaxProcs: 3})
	e, other := newObserver(), newObserver()
	_, err := second.Dial(fabric.ConnectSpec{Peer: 0, Address: first.Address()})
	require.NoError(t, err)
	first.Poll(&e.Sink) // connects back
	second.Poll(&other.Sink)
	for _, p := range []*Provider{second, first} {
		p.stopWatcher(v.connect(p), byWord, byPidfd)
	}
	v.kill()
	polled(first, e, 1)
	second.Poll(&other.Sink) // and does not look by itself
	require.Len(t, other.ends, 1)
	allow(t, killed, other.ends[0])
	require.EqualValues(t, 1, second.watch.by[byPoll].Load())
}

// A mark never makes a living process dead: one that another process has written, also while
// threads of the process end. It checks half as often as maxFalseMarks allows.
func TestMarkOfALivingPeer(t *testing.T) {
	withWords(t)
	p := open(t, Config{Self: 0, MaxProcs: 2})
	v := spawn(t, role{Self: 1, MaxProcs: 2, Threads: 1})
	c := v.connect(p)
	e := newObserver()
	for range scaledDown(100) {
		scribble(c.segment, 1<<30)
		v.write("churn")
		for range 500 {
			p.PollDeaths()
			p.Poll(&e.Sink)
		}
		require.Equal(t, "done", v.line())
	}
	require.Len(t, p.deaths.words, 1)
	require.Positive(t, p.deaths.words[0].falseMarks)
	require.Empty(t, e.ends)
	v.kill()
	polled(p, e, 1)
	allow(t, killed, e.ends[0])
}

// scaledDown is the number of repetitions, a tenth of it with -short.
func scaledDown(n int) int {
	if testing.Short() {
		return n / 10
	}
	return n
}
