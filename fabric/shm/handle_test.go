package shm

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// connectInNode connects an endpoint that has a record of exits to a victim, both in the memory of the node.
func connectInNode(t *testing.T) (p *Provider, v *victim, c *Conn, say func(*victim, proc.Cause)) {
	t.Helper()
	name, place := placesFor(t)
	l, _ := recordOf(t, proc.Cause{})
	p = open(t, Config{Self: 0, MaxProcs: 2, Exits: l, Node: place(0)})
	v = spawn(t, role{Self: 1, MaxProcs: 2, Node: name})
	c = v.connect(p)
	p.watch.lateTimer.Stop() // on a busy machine a test may take as long
	require.EqualValues(t, putOff, c.reader.handle.state.Load(), "no pidfd has been opened")
	return p, v, c, func(v *victim, cause proc.Cause) {
		l.mu.Lock()
		l.ends[v.cmd.Process.Pid] = cause
		l.mu.Unlock()
		_, err := unix.Write(l.fd, []byte{1, 0, 0, 0, 0, 0, 0, 0})
		require.NoError(t, err)
	}
}

// A peer whose end is on record is reported without a pidfd.
func TestEndOnRecordWithoutPidfd(t *testing.T) {
	p, v, c, say := connectInNode(t)
	want := proc.Cause{Kind: proc.Exited, Code: 77}
	say(v, want)
	e := newObserver()
	sleepUntil(p, e, func() bool { return len(e.ends) > 0 })
	require.Equal(t, want, e.ends[0])
	require.True(t, c.reader.handle.late())
	p.Poll(&e.Sink)
	v.order("nothing") // the record of this test was wrong
}

// A peer without a pidfd is killed when it counts as dead, and the pidfd is opened for that.
func TestKillWithoutPidfd(t *testing.T) {
	p, v, c, _ := connectInNode(t)
	p.Inform(1, proc.Cause{Kind: proc.Heartbeat})
	require.Equal(t, unix.SIGKILL, v.signaled())
	require.Positive(t, c.reader.handle.state.Load())
	require.Equal(t, proc.Cause{Kind: proc.Fenced}, newObserver().end(p))
}

// Where no descriptor is left the word shows that the pid is still the peer's.
func TestKillWithoutDescriptors(t *testing.T) {
	p, v, c, _ := connectInNode(t)
	allow := forbidDescriptors(t)
	require.Equal(t, -1, c.reader.process())
	p.Inform(1, proc.Cause{Kind: proc.Heartbeat})
	allow()
	require.Equal(t, unix.SIGKILL, v.signaled())
}

// An end on record is reported, and another program of the process is killed: its pidfd is opened by the time
// of its start, since exec has released the word.
func TestExecWithoutPidfd(t *testing.T) {
	p, v, c, say := connectInNode(t)
	v.write("exec")
	for c.reader.handle.held() {
		p.Poll(&newObserver().Sink)
	}
	p.deaths.forget(c)
	say(v, proc.Cause{Kind: proc.Exec})
	require.Equal(t, proc.Cause{Kind: proc.Exec}, newObserver().end(p))
	require.Equal(t, unix.SIGKILL, v.signaled())
}

// An end that the record lacks is found when the pidfd is opened late and there is no such process any more.
func TestLatePidfdOfTheDead(t *testing.T) {
	p, v, c, _ := connectInNode(t)
	p.deaths.forget(c)
	v.kill()
	_ = v.cmd.Wait()
	p.watch.registerLate()
	require.Equal(t, proc.Cause{}, newObserver().end(p))
	require.EqualValues(t, 1, p.watch.by[byPidfd].Load())
}

// startedLater is a process that did not start in that tick of the clock: a pid is not used again within one.
func startedLater(t *testing.T, tick uint64) *victim {
	for {
		v := spawn(t, role{Self: 1, MaxProcs: 2})
		started, err := startTime(v.cmd.Process.Pid)
		require.NoError(t, err)
		if started != tick {
			return v
		}
		v.kill()
		_ = v.cmd.Wait()
	}
}

// The pid of a dead peer may be another process's by the time that its pidfd is opened. That is not killed.
func TestLatePidfdOfAnother(t *testing.T) {
	p, v, c, _ := connectInNode(t)
	other := startedLater(t, c.reader.handle.started)
	c.reader.pid = other.cmd.Process.Pid
	p.deaths.forget(c)
	v.kill()
	_ = v.cmd.Wait()
	c.killPeer()
	require.Equal(t, -1, c.reader.process())
	other.order("nothing") // it lives
}

// A copy from a peer that holds its word needs no pidfd. One from a dead peer fails, also where another process has
// the pid by then.
func TestCopyWithoutPidfd(t *testing.T) {
	p, v, c, _ := connectInNode(t)
	var token [tokenBytes]byte
	copied := func() error {
		c.reader.sure.Store(0) // it has not been asked for long
		return c.reader.read(token[:], c.address.probe)
	}
	require.NoError(t, copied())
	require.Equal(t, c.address.token, token)
	require.True(t, c.reader.handle.late())
	other := startedLater(t, c.reader.handle.started)
	a, err := decodeAddress(other.addresses[0])
	require.NoError(t, err)
	v.kill()
	_ = v.cmd.Wait()
	require.ErrorIs(t, copied(), fabric.ErrPeerGone)
	c.reader.pid, c.address.probe = other.cmd.Process.Pid, a.probe
	require.ErrorIs(t, copied(), fabric.ErrPeerGone)
	require.NoError(t, p.Close())
	require.ErrorIs(t, copied(), fabric.ErrPeerGone)
}
