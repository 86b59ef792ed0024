package shm

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/internal/proc"
)

// exitRecords is a source of exits with the test's records.
type exitRecords struct {
	fd    int
	mu    sync.Mutex
	ends  map[int]proc.Cause
	execs uint32 // of each process
}

func (l *exitRecords) FD() int { return l.fd }

func (l *exitRecords) Entries() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return uint64(len(l.ends))
}

func (l *exitRecords) Watched(pid int) bool {
	_, ended := l.Ended(pid)
	return !ended
}

func (l *exitRecords) Execs(pid int) uint32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.execs
}

func (l *exitRecords) Ended(pid int) (proc.Cause, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c, ok := l.ends[pid]
	return c, ok
}

// reportedExit makes an endpoint with a source of exits, and the test's way to write to it.
func reportedExit(t *testing.T) (p *Provider, say func(v *victim, cause proc.Cause)) {
	t.Helper()
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Close(fd)) })
	l := &exitRecords{fd: fd, ends: map[int]proc.Cause{}}
	return open(t, Config{Self: 0, MaxProcs: 2, Exits: l}), func(v *victim, cause proc.Cause) {
		l.mu.Lock()
		l.ends[v.cmd.Process.Pid] = cause
		l.mu.Unlock()
		_, err := unix.Write(fd, []byte{1, 0, 0, 0, 0, 0, 0, 0})
		require.NoError(t, err)
	}
}

// An end in Exits is reported with its cause, and the process is killed if it lives.
func TestExitsReportDeath(t *testing.T) {
	p, say := reportedExit(t)
	v := spawn(t, role{Self: 1, MaxProcs: 2})
	v.connect(p)
	want := proc.Cause{Kind: proc.Exited, Code: 77}
	say(v, want)
	require.Equal(t, want, newObserver().end(p))
	require.EqualValues(t, 1, p.watch.by[byExits].Load())
	require.Equal(t, unix.SIGKILL, v.signaled())
}

// While the process polls no event of Exits interrupts it. When it ceases to poll it finds what came meanwhile, and later
// ends are events again.
func TestExitsWhilePolling(t *testing.T) {
	for name, during := range map[string]bool{"during": true, "after": false} {
		t.Run(name, func(t *testing.T) {
			p, say := reportedExit(t)
			v := spawn(t, role{Self: 1, MaxProcs: 2})
			v.connect(p)
			want := proc.Cause{Kind: proc.Exited, Code: 77}
			p.SetPolling(true)
			require.ErrorIs(t, p.watch.set.Change(p.cfg.Exits.FD(), exitsKey, unix.EPOLLIN), unix.ENOENT)
			if during { // its event has been taken
				l := p.cfg.Exits.(*exitRecords)
				l.mu.Lock()
				l.ends[v.cmd.Process.Pid] = want
				l.mu.Unlock()
			}
			p.SetPolling(false)
			if !during {
				say(v, want)
			}
			require.Equal(t, want, newObserver().end(p))
			require.EqualValues(t, 1, p.watch.by[byExits].Load())
		})
	}
}

// An end that Exits has lost is reported by the pidfd, which is registered after a while.
func TestEndThatTheRecordLacks(t *testing.T) {
	p, _ := reportedExit(t)
	v := spawn(t, role{Self: 1, MaxProcs: 2})
	c := v.connect(p)
	p.deaths.forget(c)
	v.kill()
	require.Equal(t, killed, newObserver().end(p))
	require.EqualValues(t, 1, p.watch.by[byPidfd].Load())
}

// A peer that has called exec has failed, and the new program is killed.
func TestExitsReportExec(t *testing.T) {
	p, _ := reportedExit(t)
	v := spawn(t, role{Self: 1, MaxProcs: 2})
	v.connect(p)
	l := p.cfg.Exits.(*exitRecords)
	l.mu.Lock()
	l.execs++
	l.mu.Unlock()
	_, err := unix.Write(l.fd, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	require.NoError(t, err)
	require.Equal(t, proc.Cause{Kind: proc.Exec}, newObserver().end(p))
	require.EqualValues(t, 1, p.watch.by[byExits].Load())
	require.Equal(t, unix.SIGKILL, v.signaled())
}

// Pids are reused. The end of an earlier process with the peer's pid, which is on record while the
// peer itself is not, kills no process: the word reports this one's end, and the cause is not taken
// from the record either.
func TestEndOfAnEarlierProcess(t *testing.T) {
	withWords(t)
	p, say := reportedExit(t)
	v := spawn(t, role{Self: 1, MaxProcs: 2})
	say(v, proc.Cause{Kind: proc.Exited, Code: 77})
	c := v.connect(p)
	p.watch.checkExits() // as at the next bell
	v.order("nothing")   // it lives
	p.stopWatcher(c, byPidfd, byPoll)
	v.kill()
	allow(t, killed, newObserver().end(p))
	require.EqualValues(t, 1, p.watch.by[byWord].Load())
}
