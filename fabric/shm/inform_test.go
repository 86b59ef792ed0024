package shm

import (
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

var silent = proc.Cause{Kind: proc.Heartbeat}

// A peer reported dead by Inform is killed; its arrived frames are delivered, then its end, with
// the given cause, once.
func TestInformOfAConnectedPeer(t *testing.T) {
	for name, prepare := range map[string]func(v *victim){
		"alive":   func(*victim) {},
		"stopped": func(v *victim) { require.NoError(v.t, v.cmd.Process.Signal(unix.SIGSTOP)) },
	} {
		t.Run(name, func(t *testing.T) {
			p := open(t, Config{Self: 0, MaxProcs: 2})
			v := spawn(t, role{Self: 1, MaxProcs: 2})
			v.connect(p)
			prepare(v)
			p.Inform(1, silent)
			p.Inform(1, proc.Cause{Kind: proc.Connection})
			e := newObserver()
			require.Equal(t, proc.Cause{Kind: proc.Fenced}, e.end(p))
			require.True(t, p.Fencer(1))
			require.Equal(t, []uint64{1}, e.got)
			require.Equal(t, unix.SIGKILL, v.signaled())
			p.Inform(1, silent)
			for range 3 {
				p.Poll(&e.Sink)
			}
			require.Len(t, e.ends, 1)
		})
	}
}

// The processes that see the end of one that was killed for its silence learn that cause.
func TestOthersSeeTheFencing(t *testing.T) {
	killer, other := open(t, Config{Self: 0, MaxProcs: 3}), open(t, Config{Self: 2, MaxProcs: 3})
	v := spawn(t, role{Self: 1, MaxProcs: 3})
	v.connect(killer)
	v.connect(other)
	runs, traced := other.Runs(1)
	require.True(t, runs && !traced, "asked before the verdict")
	killer.Inform(1, silent)
	require.Equal(t, proc.Cause{Kind: proc.Fenced}, newObserver().end(other))
	other.Inform(1, silent)
	require.True(t, killer.Fencer(1))
	require.False(t, other.Fencer(1))
	require.Equal(t, unix.SIGKILL, v.signaled())
}

// Inform after a departure that was not polled yet neither turns it into a death nor kills a
// process that is about to exit in order.
func TestInformOfADepartedPeer(t *testing.T) {
	p := open(t, Config{Self: 0, MaxProcs: 2})
	v := spawn(t, role{Self: 1, MaxProcs: 2})
	v.connect(p)
	v.order("depart")
	p.Inform(1, silent)
	require.Equal(t, proc.Departed, newObserver().end(p).Kind)
	v.order("nothing") // it lives
}

// The frames of a newcomer that knocked and was not polled yet are delivered.
func TestInformOfANewcomer(t *testing.T) {
	p := open(t, Config{Self: 0, MaxProcs: 2})
	v := spawn(t, role{Self: 1, MaxProcs: 2})
	v.order("dial " + hex.EncodeToString(p.Address()))
	p.Inform(1, silent)
	e := newObserver()
	require.Equal(t, proc.Cause{Kind: proc.Fenced}, e.end(p))
	require.Equal(t, []uint64{1}, e.got)
	require.Equal(t, unix.SIGKILL, v.signaled())
}

// The end of a half-open peer is reported as well, and it is killed.
func TestInformOfAHalfOpenPeer(t *testing.T) {
	p := open(t, Config{Self: 0, MaxProcs: 2})
	v := spawn(t, role{Self: 1, MaxProcs: 2})
	v.order("dial " + hex.EncodeToString(p.Address()))
	allow := forbidDescriptors(t)
	e := newObserver()
	p.Poll(&e.Sink)
	require.NotNil(t, p.conns[1].halfOpen)
	allow()
	p.Inform(1, silent)
	require.Equal(t, silent, e.end(p))
	require.Equal(t, unix.SIGKILL, v.signaled())
}

// A peer that was never connected is barred: it is not connected to, and if it connects its frames
// are not delivered and it is killed.
func TestInformOfAnUnconnectedPeer(t *testing.T) {
	p := open(t, Config{Self: 0, MaxProcs: 2})
	v := spawn(t, role{Self: 1, MaxProcs: 2})
	p.Inform(1, silent)
	_, err := p.Dial(fabric.ConnectSpec{Peer: 1, Address: v.addresses[0]})
	require.ErrorIs(t, err, fabric.ErrPeerGone)
	v.order("nothing") // it lives
	v.order("dial " + hex.EncodeToString(p.Address()))
	e := newObserver()
	p.Poll(&e.Sink)
	require.Equal(t, unix.SIGKILL, v.signaled())
	for range 3 {
		p.Poll(&e.Sink)
	}
	require.Empty(t, e.got)
	require.Empty(t, e.ends)
	require.Nil(t, p.Lookup(1))
}

// A newcomer that counts as dead and cannot be killed, because it is this process, reads that it is
// refused.
func TestBarredPeersLearnIt(t *testing.T) {
	host, newcomer, c := unconnected(t)
	other := open(t, Config{Self: 0, MaxProcs: 2})
	other.Inform(1, silent)
	_, err := newcomer.Dial(to(host, 0))
	require.NoError(t, err)
	require.True(t, c.live)
	lost := open(t, Config{Self: 1, MaxProcs: 2})
	_, err = lost.Dial(to(other, 0))
	require.NoError(t, err)
	other.Poll(&newObserver().Sink)
	require.Equal(t, proc.Cause{Kind: proc.Unreachable, Code: int32(unix.ECONNREFUSED)}, newObserver().end(lost))
}

// Inform of an invalid peer changes nothing.
func TestInformOfAnInvalidPeer(t *testing.T) {
	host, newcomer, _ := unconnected(t)
	host.Inform(7, silent)
	host.Inform(0, silent)
	host.Inform(proc.None, silent)
	e := newObserver()
	host.Poll(&e.Sink)
	require.Equal(t, []uint64{0}, e.got)
	require.Empty(t, e.ends)
	require.NoError(t, newcomer.Close())
	newcomer.Inform(0, silent)
	require.Empty(t, newcomer.conns)
}
