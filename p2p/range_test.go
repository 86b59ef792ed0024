package p2p

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// A failure in a communicator's range ends all waiting and later operations: with ErrorsGroup
// without notices to others, with ErrorsUniverse with one. Failures outside of the range change
// nothing.
func TestErrorRange(t *testing.T) {
	for _, c := range []struct {
		r     ErrorRange
		group []proc.ID
		ends  bool
		tells int
	}{
		{ErrorsLocal, []proc.ID{0, 1, 2}, false, 0},
		{ErrorsGroup, []proc.ID{0, 1, 2}, true, 0},
		{ErrorsGroup, []proc.ID{0, 1, 3}, false, 0},
		{ErrorsUniverse, []proc.ID{0, 1, 2}, true, 1},
		{ErrorsUniverse, []proc.ID{0, 1, 3}, true, 1},
	} {
		for _, late := range []bool{false, true} {
			_, e, _, kill := fourRanks(t)
			told, revoked := 0, 0
			e.OnRevoke(func(*Comm) { told++ })
			e.OnRevoked(func(*Comm) { revoked++ })
			parent, err := e.NewComm("parent", NewGroup(c.group), 0, 10)
			require.NoError(t, err)
			if !late {
				require.NoError(t, parent.SetErrorRange(c.r))
			}
			d, err := parent.Dup()
			require.NoError(t, err)
			named, wild, coll := Irecv[Aware](d, nil, 1, 5), Irecv[Aware](d, nil, AnySource,
				5), Irecv[Aware](d.Coll(), nil, 1, 5)
			kill(2)
			if late {
				require.NoError(t, d.SetErrorRange(c.r))
			}
			require.Equal(t, c.ends, d.Revoked(), "%v of %v, late %v", c.r, c.group, late)
			require.Equal(t, c.r, d.ErrorRange())
			each := 2 // the parent too
			if late {
				each = 1
			}
			require.Equal(t, each*c.tells, told, "%v of %v, late %v", c.r, c.group, late)
			if !c.ends {
				require.Equal(t, Pending, e.State(named))
				require.Zero(t, revoked)
				continue
			}
			require.Equal(t, each, revoked)
			for i, h := range []Handle{named, wild, coll, Irecv[Aware](d, nil, 1, 5),
				Isend[Aware](d, nil, 1, 5), Irecv[Aware](d, nil, 2, 5)} {
				_, err := e.Wait(h)
				require.ErrorIs(t, err, ft.ErrRevoked, "request %d", i)
				require.ErrorIs(t, err, ft.ErrProcFailed, "request %d", i)
				require.ErrorContains(t, err, "has failed")
				failed, ok := errors.AsType[*ft.ProcFailedError](err)
				require.True(t, ok)
				require.Equal(t, slices.Contains(c.group, 2), slices.Equal(failed.Ranks, []int{2}), "%v", failed)
			}
			require.ErrorIs(t, d.CheckMembers(), ft.ErrRevoked)
		}
	}
}

// A transfer under way with the failed rank ends with the communicator's class too.
func TestErrorRangeOfATransferUnderWay(t *testing.T) {
	_, e, c, kill := fourRanks(t)
	require.NoError(t, c.SetErrorRange(ErrorsGroup))
	h := Issend[Aware](c, make([]byte, 100), 2, 5)
	kill(2)
	_, err := e.Wait(h)
	require.ErrorIs(t, err, ft.ErrRevoked)
	require.ErrorIs(t, err, ft.ErrProcFailed)
}

// Failures before a communicator was made do not count for ErrorsUniverse, or nothing could be made
// after one; a failed member counts for ErrorsGroup.
func TestErrorRangeAfterEarlierFailure(t *testing.T) {
	_, e, _, kill := fourRanks(t)
	kill(2)
	for _, c := range []struct {
		r     ErrorRange
		group []proc.ID
		ends  bool
	}{
		{ErrorsUniverse, []proc.ID{0, 1}, false}, {ErrorsUniverse, []proc.ID{0, 1, 2}, false},
		{ErrorsGroup, []proc.ID{0, 1}, false}, {ErrorsGroup, []proc.ID{0, 1, 2}, true},
	} {
		d, err := e.NewComm("after", NewGroup(c.group), 0, 20)
		require.NoError(t, err)
		require.NoError(t, d.SetErrorRange(c.r))
		require.Equal(t, c.ends, d.Revoked(), "%v of %v", c.r, c.group)
		require.NoError(t, d.Free())
	}
	d, err := e.NewComm("after", NewGroup([]proc.ID{0, 1}), 0, 21)
	require.NoError(t, err)
	require.NoError(t, d.SetErrorRange(ErrorsUniverse))
	kill(3)
	require.True(t, d.Revoked())
}

// A communicator that a failure has revoked here is revoked everywhere on request: the notice is
// forwarded.
func TestRevokeAfterAFailureIsForwarded(t *testing.T) {
	for name, revoke := range map[string]func(*Engine, *Comm){
		"own":       func(_ *Engine, c *Comm) { _ = c.Revoke() },
		"another's": func(e *Engine, c *Comm) { e.RevokeContext(c.Context()) },
	} {
		_, e, c, kill := fourRanks(t)
		told := 0
		e.OnRevoke(func(*Comm) { told++ })
		require.NoError(t, c.SetErrorRange(ErrorsGroup))
		kill(2)
		require.True(t, c.Revoked())
		require.Zero(t, told, name)
		revoke(e, c)
		revoke(e, c)
		require.Equal(t, 1, told, name)
	}
}

// Members that a validate has found to have ended do not revoke the communicator or those derived
// from it; others do.
func TestErrorRangeAfterAValidate(t *testing.T) {
	for _, r := range []ErrorRange{ErrorsGroup, ErrorsUniverse} {
		_, e, c, kill := fourRanks(t)
		kill(2)
		e.Lock()
		require.NoError(t, c.BeginValidate())
		require.NoError(t, c.EndValidate(&Validation{Epoch: 7, Ended: []proc.ID{2}}))
		e.Unlock()
		before, err := c.Dup()
		require.NoError(t, err)
		require.NoError(t, before.SetErrorRange(r))
		if r == ErrorsUniverse {
			c = before // for an older one it is a failure since it was made
		}
		require.NoError(t, c.SetErrorRange(r))
		after, err := c.Dup()
		require.NoError(t, err)
		for _, o := range []*Comm{before, c, after} {
			require.False(t, o.Revoked(), "%v", r)
			require.NoError(t, o.CheckMembers())
		}
		kill(3)
		for _, o := range []*Comm{before, c, after} {
			require.True(t, o.Revoked(), "%v", r)
			require.ErrorIs(t, o.CheckMembers(), ft.ErrRevoked)
		}
	}
}

// A communicator that a rank has revoked reports so even after a later failure.
func TestFailuresAfterARevocationAreNotItsCause(t *testing.T) {
	for _, r := range []ErrorRange{ErrorsGroup, ErrorsUniverse} {
		_, _, c, kill := fourRanks(t)
		require.NoError(t, c.SetErrorRange(r))
		require.NoError(t, c.Revoke())
		kill(2)
		err := Send[Aware](c, nil, 1, 5)
		require.ErrorIs(t, err, ft.ErrRevoked)
		require.NotErrorIs(t, err, ft.ErrProcFailed)
		require.NotContains(t, err.Error(), "has failed")
	}
}

// So does a send that no revocation ends, where another member has revoked the communicator before this process
// learns that the receiver has failed.
func TestFailureAfterAnotherRevoked(t *testing.T) {
	for r, class := range map[ErrorRange]error{
		ErrorsLocal: ft.ErrProcFailed, ErrorsGroup: ft.ErrRevoked, ErrorsUniverse: ft.ErrRevoked,
	} {
		s, e, c, kill := fourRanks(t)
		require.NoError(t, c.SetErrorRange(r))
		s.full = true // its frame waits for credit
		h := Isend[Aware](c, make([]byte, 8), 2, 5)
		e.RevokeContext(c.Context())
		require.Equal(t, Pending, e.State(h))
		kill(2)
		_, err := e.Wait(h)
		require.ErrorIs(t, err, class, "%v", r)
	}
}

func TestErrorRangeArguments(t *testing.T) {
	_, _, c, _ := fourRanks(t)
	require.ErrorIs(t, c.SetErrorRange(7), ft.ErrArgument)
	require.ErrorIs(t, c.SetUniformity(7), ft.ErrArgument)
	require.NoError(t, c.SetUniformity(UniformCreation))
	d, err := c.Dup()
	require.NoError(t, err)
	require.Equal(t, UniformCreation, d.Uniformity())
	require.NoError(t, c.Free())
	require.ErrorIs(t, c.SetErrorRange(ErrorsGroup), ft.ErrClosed)
	require.Equal(t, []string{"local", "group", "universe", "ErrorRange(9)"},
		[]string{ErrorsLocal.String(), ErrorsGroup.String(), ErrorsUniverse.String(), ErrorRange(9).String()})
	require.Equal(t, []string{"nothing", "creation", "collectives", "Uniformity(9)"},
		[]string{UniformNothing.String(), UniformCreation.String(), UniformCollectives.String(),
			Uniformity(9).String()})
}
