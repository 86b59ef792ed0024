package p2p

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// When a peer fails, waiting receives end that name it and, under run-through stabilization, all
// those of collectives that need it; others go on.
func TestWaitingReceivesEnd(t *testing.T) {
	_, e, c, kill := fourRanks(t)
	require.NoError(t, c.SetProfile(RunThrough))
	named, other := Irecv[Aware](c, nil, 2, 5), Irecv[Aware](c, nil, 1, 5)
	collective := Irecv[Aware](c.Coll(), nil, 1, 5)
	elsewhere, err := e.NewComm("without it", NewGroup([]proc.ID{0, 1}), 0, 10)
	require.NoError(t, err)
	step := Irecv[Aware](elsewhere.Coll(), nil, 1, 5)
	kill(2)
	for name, h := range map[string]Handle{"named": named, "collective": collective} {
		require.Equal(t, Complete, e.State(h), name)
		var failed *ft.ProcFailedError
		_, err := e.Wait(h)
		require.ErrorAs(t, err, &failed, name)
		require.Equal(t, []int{2}, failed.Ranks, name)
	}
	require.Equal(t, Pending, e.State(other))
	require.Equal(t, Pending, e.State(step))
}

// A process that finalizes has not failed. Operations with it end with a class of their own, no
// request is in doubt, and collectives and acknowledgements are not affected.
func TestDepartureIsNoFailure(t *testing.T) {
	s, e, c, kill := fourRanks(t)
	departs := func(p proc.ID) {
		s.left = p
		e.poll()
	}
	named, sent := Irecv[Aware](c, nil, 2, 5), Issend[Aware](c, nil, 2, 5)
	wild := Irecv[Aware](c, nil, AnySource, 5)
	departs(2)
	for name, h := range map[string]Handle{"recv": named, "send": sent} {
		_, err := e.Wait(h)
		require.ErrorIs(t, err, ft.ErrDeparted, name)
		require.NotErrorIs(t, err, ft.ErrProcFailed, name)
	}
	for name, op := range directed(2) {
		err := op(c)
		require.ErrorIs(t, err, ft.ErrDeparted, name)
		require.NotErrorIs(t, err, ft.ErrProcFailed, name)
	}
	require.Equal(t, Pending, e.State(wild))
	require.Empty(t, c.Failed())
	require.NoError(t, c.CheckMembers())
	departs(3)
	require.Equal(t, Pending, e.State(wild))
	departs(1)
	require.Equal(t, Pending, e.State(wild), "this process may send to itself")
	kill(2) // too late
	require.Empty(t, c.Failed())
}

// partialMessages are the frames of incomplete messages of rank 1: one that is arriving, and one that is only
// announced.
var partialMessages = map[string][]frame{
	"arriving": {
		{fabric.ClassFirst, 9<<32 | 5, binary.LittleEndian.AppendUint64(nil, 300)},
		{fabric.ClassFrag, 0, make([]byte, 256)},
	},
	"announced": {{fabric.ClassRTS, 9<<32 | 5, appendRTS(nil, rts{sender: 7, total: 300})}},
}

// The arrived parts of an incomplete message are dropped when its sender fails, and no receive or
// probe takes it afterwards; a complete message stays (ULFM 17.2.2).
func TestPartialMessagesOfTheFailed(t *testing.T) {
	for name, frames := range partialMessages {
		s, e, c, kill := fourRanks(t)
		s.inbox = append([]frame{arrival(5, "whole")}, frames...)
		e.poll()
		require.Equal(t, 2, e.unexpected.n, name)
		kill(1)
		require.Equal(t, 1, e.unexpected.n, name)
		st, err := Recv[Aware](c, make([]byte, 300), 1, 5)
		require.NoError(t, err, name)
		require.Equal(t, 5, st.Count, name)
		for op, call := range directed(1) {
			require.ErrorIs(t, call(c), ft.ErrProcFailed, "%s, %s", name, op)
		}
		_, err = e.Wait(Irecv[Aware](c, make([]byte, 300), 1, 5))
		require.ErrorIs(t, err, ft.ErrProcFailed, name)
		requireNothingOf(t, e, 1)
	}
}

// A receive that has been matched with one ends with the failure, and nothing writes into its
// buffer afterwards.
func TestPartialReceived(t *testing.T) {
	for name, frames := range partialMessages {
		s, e, c, kill := fourRanks(t)
		h := Irecv[Aware](c, make([]byte, 300), AnySource, 5)
		s.inbox = frames
		e.poll()
		require.Equal(t, Pending, e.State(h), name)
		kill(1)
		require.Equal(t, Complete, e.State(h), name)
		_, err := e.Wait(h)
		require.ErrorIs(t, err, ft.ErrProcFailed, name)
		requireNothingOf(t, e, 1)
	}
}

// A matched probe's message that is incomplete ends its receive with the failure.
func TestPartialClaimed(t *testing.T) {
	for name, frames := range partialMessages {
		s, e, c, kill := fourRanks(t)
		s.inbox = frames
		m, err := Mprobe[Aware](c, AnySource, 5)
		require.NoError(t, err, name)
		require.Equal(t, 300, m.Status().Count, name)
		kill(1)
		_, err = m.Recv(make([]byte, 300))
		require.ErrorIs(t, err, ft.ErrProcFailed, name)
		requireNothingOf(t, e, 1)
	}
}

// An incomplete message without a future receive, because the communicator was freed while it
// arrived, is dropped as well.
func TestPartialOrphaned(t *testing.T) {
	s, e, c, kill := fourRanks(t)
	s.inbox = partialMessages["arriving"]
	e.poll()
	require.NoError(t, c.Free())
	kill(1)
	requireNothingOf(t, e, 1)
}

// requireNothingOf checks that nothing is kept of a peer's messages.
func requireNothingOf(t *testing.T, e *Engine, peer proc.ID) {
	t.Helper()
	l := e.findLink(peer)
	require.Nil(t, l.in)
	require.Nil(t, l.active)
	require.Zero(t, e.active)
	require.Zero(t, l.kept)
	require.Zero(t, l.waiting)
	require.Zero(t, e.unexpected.n)
	require.Zero(t, e.posted.n)
}
