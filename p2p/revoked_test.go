package p2p

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// Revoked makes progress, so a loop that calls it ends.
func TestRevokedMakesProgress(t *testing.T) {
	s, _, c := newScripted(t)
	h := Issend[Aware](c, nil, 1, 5)
	require.False(t, c.Revoked())
	s.inbox = []frame{{fabric.ClassFlow, flowRevoked, appendUint64(nil, h.r.wire())}}
	require.True(t, c.Revoked())
}

// Waiting operations end once, and the layers above are notified once, though a failure and then
// members revoke a communicator.
func TestRevokedOnce(t *testing.T) {
	_, e, c, kill := fourRanks(t)
	require.NoError(t, c.SetErrorRange(ErrorsGroup))
	told := 0
	e.OnRevoked(func(o *Comm) {
		require.Same(t, c, o)
		require.True(t, o.collLocked().Revoked())
		told++
	})
	kill(2)
	require.NoError(t, c.Revoke())
	e.RevokeContext(c.Context())
	e.Lock()
	c.RevokeLocal()
	e.Unlock()
	kill(3)
	require.Equal(t, 1, told)
}

// The error of a revoked communicator names the failed process that caused it, by rank if it has
// one; a later failure does not count.
func TestRevocationCause(t *testing.T) {
	revoked := func(c *Comm) string {
		err := Send[Aware](c, nil, 1, 5)
		require.ErrorIs(t, err, ft.ErrRevoked)
		return err.Error()
	}
	for _, c := range []struct {
		r       ErrorRange
		group   []proc.ID
		victims proc.ID
		expects string
	}{
		{ErrorsGroup, []proc.ID{2, 1, 0}, 2, "rank 0 has failed, and its error range is group"},
		{ErrorsUniverse, []proc.ID{2, 1, 0}, 2, "rank 0 has failed, and its error range is universe"},
		{ErrorsUniverse, []proc.ID{1, 0}, 2, proc.ID(2).String() + " has failed"},
	} {
		_, e, _, kill := fourRanks(t)
		d, err := e.NewComm("d", NewGroup(c.group), 0, 20)
		require.NoError(t, err)
		require.NoError(t, d.SetErrorRange(c.r))
		kill(c.victims)
		require.Contains(t, revoked(d), c.expects)
	}
	_, _, c, kill := fourRanks(t)
	require.NoError(t, c.SetErrorRange(ErrorsGroup))
	require.NoError(t, c.Revoke())
	kill(2)
	require.NotContains(t, revoked(c), "failed")
}

// A collective's send that a failure has ended keeps its error when its receiver revokes the
// communicator.
func TestRejectedSendThatWasWithdrawn(t *testing.T) {
	s, e, c, kill := fourRanks(t)
	require.NoError(t, c.SetProfile(RunThrough))
	h := Issend[Aware](c.Coll(), nil, 1, 5)
	kill(2)
	require.Equal(t, Pending, e.State(h))
	s.inbox = []frame{{fabric.ClassFlow, flowRevoked, appendUint64(nil, h.r.wire())}}
	e.poll()
	_, err := e.Wait(h)
	require.ErrorIs(t, err, ft.ErrProcFailed)
	require.NotErrorIs(t, err, ft.ErrRevoked)
}

// A new communicator that inherits from a revoked one's has its settings from the start.
func TestInheritFromRevoked(t *testing.T) {
	_, e, c, kill := fourRanks(t)
	require.NoError(t, c.SetUniformity(UniformCollectives))
	require.Equal(t, UniformCollectives, c.Uniformity())
	require.Equal(t, UniformCollectives, c.Coll().Uniformity())
	kill(2)
	d, err := e.NewComm("d", NewGroup([]proc.ID{0, 1, 2}), 0, 20)
	require.NoError(t, err)
	from, err := e.NewComm("from", NewGroup([]proc.ID{0, 1}), 0, 21)
	require.NoError(t, err)
	require.NoError(t, from.SetErrorRange(ErrorsGroup))
	require.NoError(t, from.SetUniformity(UniformCreation))
	d.inheritFrom(from)
	require.Equal(t, ErrorsGroup, d.ErrorRange())
	require.Equal(t, UniformCreation, d.Uniformity())
	require.True(t, d.Revoked(), "a failure in its range is known")
	require.False(t, from.Revoked())
}

// Unexpected messages of other communicators are affected neither by a free nor by a revocation.
func TestFreeDropsItsOwnMessages(t *testing.T) {
	for _, revoke := range []bool{false, true} {
		s, e, c, _ := fourRanks(t)
		other, err := e.NewComm("other", WorldGroup(4), 0, 10)
		require.NoError(t, err)
		s.inbox = []frame{arrival(5, "a"), {fabric.ClassEager, 10<<32 | 5, []byte("b")}, arrival(5, "c")}
		e.poll()
		require.Equal(t, 3, e.unexpected.n)
		if revoke {
			require.NoError(t, c.Revoke())
		} else {
			require.NoError(t, c.Free())
		}
		require.Equal(t, 1, e.unexpected.n)
		buf := make([]byte, 1)
		_, err = e.Wait(Irecv[Aware](other, buf, 1, 5))
		require.NoError(t, err)
		require.Equal(t, "b", string(buf))
	}
}

// A promise completes once: neither a free nor a revocation ends it, Close does, and a later
// completion has no effect, also when its request is used again.
func TestPromise(t *testing.T) {
	_, e, c := newScripted(t)
	e.Lock()
	first, h := e.NewPromise(c, "Agree")
	second, closed := e.NewPromise(c, "Agree")
	e.Unlock()
	require.NoError(t, c.Revoke())
	require.NoError(t, c.Free())
	require.Equal(t, Pending, e.State(h))
	e.Lock()
	first.Complete(ft.ErrDeparted)
	first.Complete(nil)
	e.Unlock()
	_, err := e.Wait(h)
	require.ErrorIs(t, err, ft.ErrDeparted)
	other, err := e.NewComm("other", WorldGroup(2), 0, 10)
	require.NoError(t, err)
	again := Irecv[Aware](other, nil, 1, 5)
	require.Same(t, h.r, again.r, "requests are used again")
	e.Lock()
	first.Complete(nil)
	e.Unlock()
	require.Equal(t, Pending, e.State(again))
	require.NotNil(t, e.promises.first)
	e.Close()
	require.Nil(t, e.promises.first)
	e.Lock()
	second.Complete(nil)
	e.Unlock()
	_, err = e.Wait(closed)
	require.ErrorIs(t, err, ft.ErrClosed)
}

// Agreements continue on a revoked communicator, but not on a freed one or after Finalize.
func TestUsable(t *testing.T) {
	usable := func(c *Comm) error {
		c.e.Lock()
		defer c.e.Unlock()
		return c.Usable()
	}
	_, e, c := newScripted(t)
	require.NoError(t, usable(c))
	require.NoError(t, c.Unrevoked())
	require.NoError(t, c.Revoke())
	require.NoError(t, usable(c))
	require.ErrorIs(t, c.Unrevoked(), ft.ErrRevoked)
	require.NoError(t, c.Free())
	require.ErrorContains(t, usable(c), "freed")
	require.ErrorIs(t, usable(c), ft.ErrClosed)
	other, err := e.NewComm("other", WorldGroup(2), 0, 10)
	require.NoError(t, err)
	e.Close()
	require.ErrorContains(t, usable(other), "finalized")
	require.ErrorIs(t, usable(other), ft.ErrClosed)
}

// FailedIn names the known failed members of a group, and no others.
func TestFailedIn(t *testing.T) {
	_, _, c, kill := fourRanks(t)
	group := NewGroup([]proc.ID{0, 2})
	require.NoError(t, c.FailedIn(group))
	kill(3)
	require.NoError(t, c.FailedIn(group))
	kill(2)
	var failed *ft.ProcFailedError
	require.ErrorAs(t, c.FailedIn(group), &failed)
	require.Equal(t, []int{2}, failed.Ranks)
}

// A communicator that others have revoked before it is made here is revoked from the start, and
// forwards that: to both sides if it has two.
func TestRevokedBeforeItIsMade(t *testing.T) {
	_, e, c := newScripted(t)
	var told []*Comm
	e.OnRevoke(func(o *Comm) { told = append(told, o) })
	find := func(make func() *Comm) uint32 { // its context: made once, and freed
		o := make()
		require.NoError(t, o.Free())
		delete(e.freed.known, o.Context())
		return o.Context()
	}
	plain := func() *Comm {
		o, err := e.NewComm("late", WorldGroup(2), 0, 70)
		require.NoError(t, err)
		return o
	}
	inter := func() *Comm {
		o, err := c.Bridge(5, NewGroup([]proc.ID{2, 3}), 99)
		require.NoError(t, err)
		return o
	}
	for _, make := range []func() *Comm{plain, inter} {
		ctx := find(make)
		known, _ := e.RevokeContext(ctx)
		require.False(t, known, "not known here")
		e.RevokeUnmade(ctx)
		e.RevokeUnmade(ctx | collContext)
		require.Len(t, e.revoked.unmade, 1)
		told = nil
		o := make()
		require.True(t, o.Revoked())
		require.Equal(t, []*Comm{o}, told)
		require.Empty(t, e.revoked.unmade)
		require.ErrorIs(t, Send[Aware](o, nil, 0, 1), ft.ErrRevoked)
		if o.Local() != nil {
			require.True(t, o.Local().Revoked())
			require.True(t, o.Local().Coll().Revoked())
			everyone := o.AllMembers()
			require.Equal(t, 4, everyone.Size())
		}
		require.NoError(t, o.Free())
		require.Empty(t, e.revoked.known)
	}
}

// The revocations that wait for a communicator are bounded, and the newest are kept.
func TestUnmadeRevocationsAreBounded(t *testing.T) {
	_, e, _ := newScripted(t)
	for i := range uint32(3 * maxUnmade) {
		e.RevokeUnmade(100 + i)
		require.LessOrEqual(t, len(e.revoked.unmade), maxUnmade)
	}
	c, err := e.NewComm("late", WorldGroup(2), 0, 100+3*maxUnmade-1)
	require.NoError(t, err)
	require.True(t, c.Revoked())
}

// Operations that outlive Free end when another member revokes. Revoking a freed communicator is
// ErrClosed and leaves no record.
func TestRevokedAfterFree(t *testing.T) {
	_, e, c := newScripted(t)
	told := 0
	e.OnRevoke(func(*Comm) { told++ })
	h, p := Irecv[Aware](c, nil, 1, 5), BeginProbe[Aware](c, 1, 6, ForMprobe)
	require.NoError(t, c.Free())
	require.ErrorIs(t, c.Revoke(), ft.ErrClosed)
	require.Equal(t, Pending, e.State(h))
	requireKnown(t, e, 1, true)
	requireRevoked(t, e, "recv", h)
	requireRevoked(t, e, "mprobe", p)
	require.Equal(t, 1, told)
	require.Empty(t, e.revoked.known)

	again, err := e.NewComm("again", WorldGroup(2), 0, 1)
	require.NoError(t, err)
	require.False(t, again.Revoked(), "a context that is used once more is a new one")
	require.NoError(t, Send[Aware](again, nil, 1, 0))
	require.False(t, e.wasRevoked(1<<32))
}

// requireKnown lets another member revoke a communicator of this process.
func requireKnown(t *testing.T, e *Engine, ctx uint32, news bool) {
	t.Helper()
	known, first := e.RevokeContext(ctx)
	require.True(t, known)
	require.Equal(t, news, first)
}
