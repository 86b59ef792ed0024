package shm

import (
	"bytes"
	"encoding/hex"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

var killed = proc.Cause{Kind: proc.Signaled, Code: int32(unix.SIGKILL)}

// withWords ends a test where the kernel does not support robust words.
func withWords(t *testing.T) {
	t.Helper()
	method, why := Detection()
	require.NotEqual(t, SlowDetection, method, why)
}

// allow expects a cause, or none: a report of a death does not wait for its cause.
func allow(t *testing.T, want, got proc.Cause) {
	t.Helper()
	if got.Kind != proc.Unknown {
		require.Equal(t, want, got)
	}
}

// However a process ends, with busy threads, its robust word alone reports it: after its frames,
// with the cause, and the process is gone.
func TestRobustWordReportsDeath(t *testing.T) {
	withWords(t)
	for name, c := range map[string]struct {
		end  func(v *victim)
		want proc.Cause
	}{
		"killed": {(*victim).kill, killed},
		"exits":  {func(v *victim) { v.write("exit") }, proc.Cause{Kind: proc.Exited, Code: 3}},
		"execs":  {func(v *victim) { v.write("exec") }, killed}, // the new program is killed
		"stopped, then killed": {func(v *victim) {
			require.NoError(v.t, v.cmd.Process.Signal(unix.SIGSTOP))
			v.kill()
		}, killed},
	} {
		t.Run(name, func(t *testing.T) {
			p := open(t, Config{Self: 0, MaxProcs: 2})
			v := spawn(t, role{Self: 1, MaxProcs: 2, Threads: 4})
			p.stopWatcher(v.connect(p), byPidfd, byPoll)
			c.end(v)
			e := newObserver()
			allow(t, c.want, e.end(p))
			require.Equal(t, []uint64{1}, e.got)
			require.EqualValues(t, 1, p.watch.by[byWord].Load())
			if c.want == killed {
				require.Equal(t, unix.SIGKILL, v.signaled())
			}
		})
	}
}

// The word of a process with much memory reports before the pidfd, which waits for the memory to be
// freed, unless the waiter at the word gets no core meanwhile; the pidfd reports any process,
// without a word.
func TestOrderOfEvidence(t *testing.T) {
	withWords(t)
	resident := 512
	if testing.Short() {
		resident = 128
	}
	words := uint64(0)
	for try := 0; words == 0 && try < 5; try++ {
		p := open(t, Config{Self: 0, MaxProcs: 2})
		v := spawn(t, role{Self: 1, MaxProcs: 2, Resident: resident})
		p.stopWatcher(v.connect(p), byPoll)
		v.kill()
		allow(t, killed, newObserver().end(p))
		words = uint64(p.watch.by[byWord].Load())
	}
	require.EqualValues(t, 1, words)

	p := open(t, Config{Self: 0, MaxProcs: 2})
	v := spawn(t, role{Self: 1, MaxProcs: 2})
	p.stopWatcher(v.connect(p), byWord, byPoll)
	v.kill()
	require.Equal(t, killed, newObserver().end(p))
	require.EqualValues(t, 1, p.watch.by[byPidfd].Load())
}

// After the parent has reaped it, the exit status of a process is read from its pidfd, on kernels
// that keep it there; on others the cause is unknown.
func TestExitCauseOfTheReaped(t *testing.T) {
	p := open(t, Config{Self: 0, MaxProcs: 2})
	v := spawn(t, role{Self: 1, MaxProcs: 2})
	c := v.connect(p)
	v.write("exit")
	_ = v.cmd.Wait()
	require.False(t, c.reader.unreaped())
	if got := c.queryExitCause(); got.Kind != proc.Unknown {
		require.Equal(t, proc.Cause{Kind: proc.Exited, Code: 3}, got)
	}
}

// Every observer gets a report, each by its word; and with more processes than words, also those
// that share one.
func TestManyObservers(t *testing.T) {
	withWords(t)
	for name, ids := range map[string][]proc.ID{
		"words of their own": {0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24,
			25, 26, 27, 28, 29, 30, 31},
		"one word": {5, 5 + maxWords, 5 + 2*maxWords, 5 + 3*maxWords},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := Config{Self: 1, MaxProcs: 4 * maxWords, Lines: 64, BulkBytes: 16 << 10}
			v := spawn(t, role{Self: 1, MaxProcs: cfg.MaxProcs, Lines: 64, BulkBytes: 16 << 10, Resident: 64})
			var told sync.WaitGroup
			causes := make([]proc.Cause, len(ids))
			for i, id := range ids {
				cfg.Self = id
				p := open(t, cfg)
				p.stopWatcher(v.connect(p), byPidfd)
				told.Go(func() { causes[i] = newObserver().end(p) })
			}
			v.kill()
			told.Wait()
			for _, got := range causes {
				allow(t, killed, got)
			}
		})
	}
}

// There are more peers than a thread can wait for.
func TestManyVictims(t *testing.T) {
	withWords(t)
	const n = 300
	cfg := Config{Self: 0, MaxProcs: n + 1, Lines: 64, BulkBytes: 16 << 10}
	p := open(t, cfg)
	v := spawn(t, role{Self: 1, MaxProcs: n + 1, Lines: 64, BulkBytes: 16 << 10, Ids: n})
	v.order("dial " + hex.EncodeToString(p.Address()))
	e := newObserver()
	for len(e.got) < n {
		p.Poll(&e.Sink)
	}
	require.Equal(t, n, p.watch.words.Watched())
	for _, c := range p.conns {
		p.stopWatcher(c, byPidfd, byPoll)
	}
	v.kill()
	sleepUntil(p, e, func() bool { return len(e.ends) == n })
	for _, cause := range e.ends {
		allow(t, killed, cause)
	}
	require.EqualValues(t, n, p.watch.by[byWord].Load())
	require.Zero(t, p.watch.words.Watched())
}

// A process that departs, or closes, does not count as dead, then or when it ends.
func TestDepartureIsNoDeath(t *testing.T) {
	for order, want := range map[string]proc.Kind{"depart": proc.Departed, "close": proc.Connection} {
		t.Run(order, func(t *testing.T) {
			p := open(t, Config{Self: 0, MaxProcs: 2})
			v := spawn(t, role{Self: 1, MaxProcs: 2})
			c := v.connect(p)
			v.order(order)
			if order == "depart" {
				v.write("exec") // it is free to
			} else {
				v.write("exit")
			}
			e := newObserver()
			require.Equal(t, proc.Cause{Kind: want}, e.end(p))
			require.Zero(t, p.watch.by[byWord].Load())
			p.Poll(&e.Sink) // clears away
			require.True(t, c.reader.handle.none())
			require.NoError(t, v.in.Close()) // ends the new program
			_ = v.cmd.Wait()
			require.True(t, v.cmd.ProcessState.Exited(), "it was killed")
			p.Poll(&e.Sink)
			require.Len(t, e.ends, 1)
		})
	}
}

// A peer that has departed before it saw this process's knock is reported as departed.
func TestDepartedBeforeAnyPoll(t *testing.T) {
	p := open(t, Config{Self: 0, MaxProcs: 2})
	v := spawn(t, role{Self: 1, MaxProcs: 2})
	c, err := p.Dial(fabric.ConnectSpec{Peer: 1, Address: v.addresses[0]})
	require.NoError(t, err)
	p.Poll(&newObserver().Sink)
	c.segment.head().state.Store(stateDeparted) // before its next Poll
	v.kill()
	require.Equal(t, proc.Cause{Kind: proc.Departed}, newObserver().end(p))
}

// A false mark kills no process, and the pidfd reports the real end.
func TestFalseWord(t *testing.T) {
	withWords(t)
	for name, lie := range map[string]uint32{"dead": 1 << 30, "another thread": 1, "let go": 0, "all bits": ^uint32(0)} {
		t.Run(name, func(t *testing.T) {
			p := open(t, Config{Self: 0, MaxProcs: 2})
			v := spawn(t, role{Self: 1, MaxProcs: 2})
			c := v.connect(p)
			e := newObserver()
			sleepUntil(p, e, func() bool { return len(e.got) == 1 })
			scribble(c.segment, lie)
			polls := maxFalseMarks
			for p.watch.words.Watched() > 0 {
				p.Poll(&e.Sink)
			}
			for ; polls >= 0; polls-- {
				p.PollDeaths()
			}
			p.Poll(&e.Sink)
			require.Empty(t, e.ends)
			v.order("nothing") // it lives
			p.stopWatcher(c, byPoll)
			v.kill()
			require.Equal(t, killed, e.end(p))
			require.EqualValues(t, 1, p.watch.by[byPidfd].Load())
		})
	}
}

// Hundreds of deaths leave no descriptor, mapping or thread with the survivors.
func TestManyDeaths(t *testing.T) {
	const jobs, each = 4, 60
	cfg := Config{Self: 0, MaxProcs: 1 + jobs*each, Lines: 64, BulkBytes: 16 << 10}
	p := open(t, cfg)
	var first, last [3]int
	for job := range jobs {
		v := spawn(t, role{Self: proc.ID(1 + job*each), MaxProcs: cfg.MaxProcs, Lines: 64, BulkBytes: 16 << 10, Ids: each})
		v.order("dial " + hex.EncodeToString(p.Address()))
		e := newObserver()
		sleepUntil(p, e, func() bool { return len(e.got) == each })
		v.kill()
		sleepUntil(p, e, func() bool { return len(e.ends) == each })
		p.Poll(&e.Sink) // clears away
		require.NoError(t, v.in.Close())
		_ = v.cmd.Wait()
		maps, err := os.ReadFile("/proc/self/maps")
		require.NoError(t, err)
		last = [3]int{entriesOf(t, "/proc/self/fd"), bytes.Count(maps, []byte("memfd:")), len(p.ended)}
		if job == 0 {
			first = last
		}
	}
	require.Equal(t, first, last, "descriptors, segments, remains")
	require.Zero(t, p.watch.words.Watched())
	for _, c := range p.watch.conns {
		require.Nil(t, c)
	}
}

func entriesOf(t *testing.T, dir string) int {
	t.Helper()
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	return len(list)
}

// Endpoints that are opened and closed leave neither threads nor descriptors behind.
func TestNothingLeaks(t *testing.T) {
	const tasks, descriptors = "/proc/self/task", "/proc/self/fd"
	once := func() {
		a, b := open(t, Config{Self: 0, MaxProcs: 2}), open(t, Config{Self: 1, MaxProcs: 2})
		_, err := a.Dial(to(b, 1))
		require.NoError(t, err)
		b.Poll(&newObserver().Sink)
		require.NoError(t, a.Close())
		require.NoError(t, b.Close())
	}
	once()
	threads, open := entriesOf(t, tasks), entriesOf(t, descriptors)
	const n = 50 // each with four threads of its own
	for range n {
		once()
	}
	require.Equal(t, open, entriesOf(t, descriptors))
	require.Less(t, entriesOf(t, tasks), threads+n)
}
