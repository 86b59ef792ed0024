package p2p

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/ft"
)

// When a member fails, under run-through stabilization, a collective's sends to living ranks end:
// held ones at once, announced ones when the receiver has confirmed the withdrawal. Others stay.
func TestWithdraw(t *testing.T) {
	s, e, _ := newScripted(t)
	c, err := e.NewComm("three", WorldGroup(3), 0, 9)
	require.NoError(t, err)
	require.NoError(t, c.SetProfile(RunThrough))
	long := make([]byte, 5000)
	own := Isend[Aware](c, long, 1, 0)
	var hs []Handle
	for range maxAnnounced + 2 {
		hs = append(hs, Isend[Aware](c.Coll(), long, 1, 0))
	}
	s.down = 2
	e.poll()
	require.Equal(t, maxAnnounced-1, s.count(fabric.ClassFlow, flowWithdraw))
	for i, h := range hs {
		want := Pending
		if i >= maxAnnounced-1 {
			want = Complete // it was held
		}
		require.Equal(t, want, e.State(h), "send %d", i)
	}
	for _, f := range s.sent {
		if f.class == fabric.ClassFlow && f.imm == flowWithdraw {
			s.inbox = append(s.inbox, frame{fabric.ClassFlow, flowWithdrawn, f.data})
		}
	}
	e.poll()
	for i, h := range hs {
		_, err := e.Wait(h)
		require.ErrorIs(t, err, ft.ErrProcFailed, "send %d", i)
	}
	require.Equal(t, Pending, e.State(own))
	require.Zero(t, e.refused)

	// A confirmation for a send that has not been withdrawn has no effect.
	s.inbox = []frame{{fabric.ClassFlow, flowWithdrawn, appendUint64(nil, own.r.wire())},
		{fabric.ClassFlow, flowWithdraw, nil}}
	e.poll()
	require.Equal(t, Pending, e.State(own))
	require.EqualValues(t, 2, e.refused)
}

// A receiver drops a withdrawn announcement, once, if no receive has taken it.
func TestOnWithdraw(t *testing.T) {
	s, e, c := newScripted(t)
	withdraw := func(name uint64) frame { return frame{fabric.ClassFlow, flowWithdraw, appendUint64(nil, name)} }
	taken := Irecv[Aware](c, make([]byte, 9), 1, 0)
	for i := range uint64(3) {
		s.inbox = append(s.inbox, frame{fabric.ClassRTS, 1<<32 | i, appendRTS(nil, rts{sender: i, total: 9})})
	}
	s.inbox = append(s.inbox, withdraw(0), withdraw(2), withdraw(2))
	e.poll()
	require.Equal(t, 1, e.unexpected.n)
	require.Equal(t, 1, e.findLink(1).waiting)
	require.Equal(t, 1, s.count(fabric.ClassFlow, flowWithdrawn))
	require.Equal(t, Pending, e.State(taken))
	require.Equal(t, 1, s.count(fabric.ClassCTS, 0))
}
