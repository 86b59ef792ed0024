package shm

import (
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// forbidDescriptors lets this process open no descriptor until the returned function is called, or
// the test ends.
func forbidDescriptors(t *testing.T) (allow func()) {
	t.Helper()
	var old unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	allow = sync.OnceFunc(func() { require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &old)) })
	t.Cleanup(allow)
	none := old
	none.Cur = 3
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &none))
	return allow
}

// observer is a process's sink: the frames and ends that it received.
type observer struct {
	fabric.Sink
	got  []uint64
	ends []proc.Cause
}

func newObserver() *observer {
	e := new(observer)
	e.Deliver[fabric.ClassTest] = func(_ proc.ID, imm uint64, _ []byte) { e.got = append(e.got, imm) }
	e.Down = func(_ proc.ID, c proc.Cause) { e.ends = append(e.ends, c) }
	e.Departed = func(proc.ID) { e.ends = append(e.ends, proc.Cause{Kind: proc.Departed}) }
	return e
}

// unconnected are two endpoints; the second has connected to the first and sent it a frame, and the
// first has not polled.
func unconnected(t *testing.T) (host, newcomer *Provider, c *Conn) {
	t.Helper()
	host, newcomer = open(t, Config{Self: 0, MaxProcs: 2}), open(t, Config{Self: 1, MaxProcs: 2})
	c, err := newcomer.Dial(fabric.ConnectSpec{Peer: 0, Address: host.Address()})
	require.NoError(t, err)
	require.True(t, c.TrySend(fabric.ClassTest, 0, nil))
	return host, newcomer, c
}

// A process without a descriptor for a newcomer receives its frames nevertheless, can send to it
// once there is one, and reports no end.
func TestNewcomerBeyondTheLimitOfDescriptors(t *testing.T) {
	host, newcomer, out := unconnected(t)
	allow := forbidDescriptors(t)
	atHost, atNewcomer := newObserver(), newObserver()
	const frames = 3 * defaultLines // more than the ring holds
	for sent := uint64(1); len(atHost.got) < frames; host.Poll(&atHost.Sink) {
		for sent < frames && out.TrySend(fabric.ClassTest, sent, nil) {
			sent++
		}
	}
	back := host.Lookup(1)
	require.NotNil(t, back, "of a peer that has been heard")
	require.False(t, back.TrySend(fabric.ClassTest, 7, nil), "there is no way to it yet")
	require.GreaterOrEqual(t, back.Caps().MaxFrame, 64)
	_, err := host.Connect(fabric.ConnectSpec{Peer: 1, Address: newcomer.Address()})
	require.ErrorIs(t, err, unix.EMFILE)
	require.ErrorContains(t, err, "ulimit -n")

	allow()
	caps := back.Caps()
	for !back.TrySend(fabric.ClassTest, 7, nil) {
		if host.Poll(&atHost.Sink) > 0 {
			require.True(t, back.TrySend(fabric.ClassTest, 7, nil), "Poll has brought something that is not credit")
			break
		}
	}
	for len(atNewcomer.got) == 0 {
		newcomer.Poll(&atNewcomer.Sink)
	}
	require.Equal(t, []uint64{7}, atNewcomer.got)
	require.Equal(t, caps, back.Caps(), "capabilities are fixed")
	require.Empty(t, atHost.ends)
	require.Empty(t, atNewcomer.ends)
	again, err := host.Dial(fabric.ConnectSpec{Peer: 1, Address: newcomer.Address()})
	require.NoError(t, err)
	require.Same(t, back, fabric.Conn(again))
}

// The timer rings for the next attempt, without any call.
func TestHalfOpenIsRetried(t *testing.T) {
	host, _, _ := unconnected(t)
	allow := forbidDescriptors(t)
	host.Poll(&newObserver().Sink)
	allow()
	for host.conns[1].halfOpen != nil {
		host.bell.Arm()
		if !host.Ready() {
			host.bell.Sleep(-1)
		}
		host.bell.Disarm()
		host.Poll(&newObserver().Sink)
	}
	require.True(t, host.conns[1].live)
}

// After the patience both sides report the other unreachable and name the remedy; neither waits
// forever.
func TestHalfOpenIsGivenUpOnBothSides(t *testing.T) {
	host, newcomer, _ := unconnected(t)
	host.retry.patience = 0
	forbidDescriptors(t)
	want := []proc.Cause{{Kind: proc.Unreachable, Code: int32(unix.EMFILE)}}
	for _, p := range []*Provider{host, newcomer} {
		obs := newObserver()
		for len(obs.ends) == 0 {
			p.bell.Arm()
			if !p.Ready() {
				p.bell.Sleep(-1)
			}
			p.bell.Disarm()
			p.Poll(&obs.Sink)
		}
		require.Equal(t, want, obs.ends)
		require.Contains(t, obs.ends[0].String(), "ulimit -n")
		other := 1 - p.cfg.Self
		_, err := p.Dial(fabric.ConnectSpec{Peer: other, Address: host.Address()})
		require.ErrorContains(t, err, "ulimit -n")
		require.NotErrorIs(t, err, fabric.ErrPeerGone)
		require.True(t, p.Lookup(other).TrySend(fabric.ClassTest, 0, nil), "as to any peer that has ended")
	}
}

// A newcomer wakes a process that sleeps and leaves its bell armed: if it is killed before the wake, others ring.
func TestKnockLeavesTheBellArmed(t *testing.T) {
	_, b, _, _ := pair(t, Config{})
	b.bell.Arm()
	b.own.knock(0, b.encoded)
	require.True(t, b.own.head().bell.Asleep())
	b.bell.Sleep(-1) // it would not end had nobody rung
}

// A newcomer that ends before the connection back is reported, once, after its frames.
func TestHalfOpenToADeadPeer(t *testing.T) {
	host, newcomer, _ := unconnected(t)
	allow := forbidDescriptors(t)
	atHost := newObserver()
	host.Poll(&atHost.Sink)
	require.Equal(t, []uint64{0}, atHost.got)
	allow()
	require.NoError(t, newcomer.Close())
	for len(atHost.ends) == 0 {
		host.Poll(&atHost.Sink)
	}
	require.Equal(t, []proc.Cause{{Kind: proc.Connection}}, atHost.ends)
}

// A peer costs one descriptor on each side.
func TestDescriptorsPerPeer(t *testing.T) {
	count := func() (n int) {
		list, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		for _, e := range list {
			to, _ := os.Readlink("/proc/self/fd/" + e.Name())
			if strings.Contains(to, "banyan-shm") || strings.Contains(to, "pidfd") {
				n++
			}
		}
		return n
	}
	before := count()
	pair(t, Config{})
	require.Equal(t, 2+2, count()-before, "two segments, and a pidfd for each peer")
}

// Attempts go on while an operator can still help, at growing intervals.
func TestRetriesBackOff(t *testing.T) {
	host, _, _ := unconnected(t)
	forbidDescriptors(t)
	host.retry.firstPause, host.retry.maxPause = time.Microsecond, time.Millisecond
	for range 100 {
		host.Poll(&newObserver().Sink)
		for !host.watch.reapPending.Load() {
		}
	}
	require.Equal(t, host.retry.maxPause, host.retry.pause)
}

// First contacts in a row share one timer, which rings at the time of the first. A pair that lacks memory or
// descriptors does not wait for a later time than its own.
func TestFirstContactsShareATimer(t *testing.T) {
	var all []*Provider
	for i := range 4 {
		all = append(all, open(t, Config{Self: proc.ID(i), MaxProcs: 4}))
	}
	p := all[0]
	p.retry.firstPause = time.Hour
	_, err := p.Dial(fabric.ConnectSpec{Peer: 1, Address: all[1].Address()})
	require.NoError(t, err)
	due := p.retry.due
	require.False(t, due.IsZero())
	_, err = p.Dial(fabric.ConnectSpec{Peer: 2, Address: all[2].Address()})
	require.NoError(t, err)
	require.Equal(t, due, p.retry.due)
	p.retry.firstPause = time.Minute
	_, err = p.Dial(fabric.ConnectSpec{Peer: 3, Address: all[3].Address()})
	require.NoError(t, err)
	require.Equal(t, due, p.retry.due, "a contact does not set it anew, although it would be sooner")
	p.scheduleRetry()
	require.Less(t, time.Until(p.retry.due), 2*time.Minute)
}
