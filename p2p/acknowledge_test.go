package p2p

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// Failures are acknowledged in the order in which they became known, a list is a prefix of the
// next, and a wildcard goes on when all are acknowledged, not before (ULFM 17.3.1).
func TestAcknowledge(t *testing.T) {
	_, e, c, kill := fourRanks(t)
	h := Irecv[Aware](c, make([]byte, 8), AnySource, 5)
	acknowledge := func(n, want int) {
		t.Helper()
		got, err := c.Acknowledge(n)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	acknowledge(4, 0)
	require.Empty(t, c.Failed())
	kill(3)
	kill(2)
	require.Equal(t, []proc.ID{3, 2}, c.Failed())
	acknowledge(0, 0)
	inDoubt(t, e, h, 3, 2)
	acknowledge(1, 1)
	require.Equal(t, []proc.ID{3}, c.Acknowledged())
	inDoubt(t, e, h, 2)
	require.NotZero(t, c.state.Load())
	acknowledge(0, 1)
	acknowledge(99, 2)
	require.Zero(t, c.state.Load(), "the fast path is taken again")
	require.Equal(t, Pending, e.State(h))
	kill(1)
	require.Equal(t, []proc.ID{3, 2, 1}, c.Failed())
	require.Equal(t, []proc.ID{3, 2}, c.Acknowledged(), "a later failure shows after a new acknowledgement")
	inDoubt(t, e, h, 1)
	acknowledge(1, 2)
	inDoubt(t, e, h, 1)
	acknowledge(3, 3)
	_, done, err := e.Test(h)
	require.NoError(t, err)
	require.False(t, done)

	got, err := c.Acknowledge(-1)
	require.ErrorIs(t, err, ft.ErrArgument)
	require.Equal(t, 3, got)
	require.NoError(t, c.Free())
	_, err = c.Acknowledge(3)
	require.ErrorIs(t, err, ft.ErrClosed)
}

// Each communicator has its own acknowledgements, and a new one has none.
func TestAcknowledgementsAreOfOneCommunicator(t *testing.T) {
	_, e, c, kill := fourRanks(t)
	d, err := c.Dup()
	require.NoError(t, err)
	waiting := Irecv[Aware](d, nil, AnySource, 2)
	kill(2)
	_, err = c.Acknowledge(1)
	require.NoError(t, err)
	inDoubt(t, e, waiting, 2)
	later, err := c.Dup()
	require.NoError(t, err)
	for _, o := range []*Comm{d, later} {
		require.Empty(t, o.Acknowledged())
		inDoubt(t, e, Irecv[Aware](o, nil, AnySource, 1), 2)
	}
	require.Equal(t, Pending, e.State(Irecv[Aware](c, nil, AnySource, 1)))
}

// An acknowledgement changes nothing for operations with failed ranks, collectives included; those
// between living ranks go on (ULFM 17.3.1).
func TestAcknowledgedStaysFailed(t *testing.T) {
	_, e, c, kill := fourRanks(t)
	own := Irecv[Aware](c, nil, 1, 1)
	kill(2)
	_, err := c.Acknowledge(1)
	require.NoError(t, err)
	for range 2 {
		for name, op := range directed(2) {
			var failed *ft.ProcFailedError
			require.ErrorAs(t, op(c), &failed, name)
			require.ErrorIs(t, op(c), ft.ErrProcFailed, name)
			require.Equal(t, []int{2}, failed.Ranks, name)
		}
	}
	require.ErrorIs(t, c.CheckMembers(), ft.ErrProcFailed)
	require.NoError(t, Send[Aware](c, nil, 1, 0))
	require.Equal(t, Pending, e.State(own))
	require.NoError(t, c.Ready())
	require.NoError(t, Send[Aware](c.Coll(), nil, 1, 0))
	_, err = e.Wait(Irecv[Aware](c.Coll(), nil, 2, 0))
	require.ErrorIs(t, err, ft.ErrProcFailed)
	require.ErrorIs(t, c.Ready(), ft.ErrProcFailed)
}

// directed are all operations that name a rank.
func directed(rank int) map[string]func(c *Comm) error {
	wait := func(c *Comm, h Handle) error { _, err := c.e.Wait(h); return err }
	long := make([]byte, 5000)
	return map[string]func(c *Comm) error{
		"send":      func(c *Comm) error { return Send[Aware](c, nil, rank, 1) },
		"send long": func(c *Comm) error { return Send[Aware](c, long, rank, 1) },
		"isend":     func(c *Comm) error { return wait(c, Isend[Aware](c, long[:8], rank, 1)) },
		"issend":    func(c *Comm) error { return wait(c, Issend[Aware](c, long[:8], rank, 1)) },
		"recv":      func(c *Comm) error { _, err := Recv[Aware](c, nil, rank, 1); return err },
		"recv any":  func(c *Comm) error { _, err := Recv[Aware](c, nil, rank, AnyTag); return err },
		"irecv":     func(c *Comm) error { return wait(c, Irecv[Aware](c, nil, rank, 1)) },
		"sendrecv":  func(c *Comm) error { _, err := Sendrecv[Aware](c, nil, rank, 1, nil, rank, 1); return err },
		"half":      func(c *Comm) error { _, err := Sendrecv[Aware](c, nil, 1, 1, nil, rank, 1); return err },
		"probe":     func(c *Comm) error { _, err := Probe[Aware](c, rank, 1); return err },
		"iprobe":    func(c *Comm) error { _, _, err := Iprobe[Aware](c, rank, 1); return err },
		"mprobe":    func(c *Comm) error { _, err := Mprobe[Aware](c, rank, 1); return err },
		"improbe":   func(c *Comm) error { _, _, err := Improbe[Aware](c, rank, 1); return err },
	}
}

// Under run-through stabilization a recognized failed rank is a null rank, even if this process
// never had a link to it, and its messages are exempt from matching.
func TestRecognizedIsNull(t *testing.T) {
	for _, linked := range []bool{true, false} {
		s, e, c, kill := fourRanks(t)
		require.NoError(t, c.SetProfile(RunThrough))
		if linked {
			require.NoError(t, Send[Aware](c, nil, 2, 1))
		}
		s.inbox = []frame{arrival(1, "of the victims")}
		e.poll()
		kill(1)
		kill(2)
		for name, op := range directed(2) {
			require.ErrorIs(t, op(c), ft.ErrProcFailed, name)
		}
		require.Equal(t, 1, e.unexpected.n)
		_, err := c.Acknowledge(2)
		require.NoError(t, err)
		require.Zero(t, e.unexpected.n)
		require.Zero(t, e.findLink(1).kept)
		require.Zero(t, c.state.Load())
		for rank := 1; rank <= 2; rank++ {
			for name, op := range directed(rank) {
				if name != "half" {
					require.NoError(t, op(c), name)
				}
			}
			want := Status{Source: ProcNull, Tag: AnyTag}
			buf := []byte("as it was")
			st, err := Recv[Aware](c, buf, rank, 1)
			require.NoError(t, err)
			require.Equal(t, want, st)
			st, err = e.Wait(Irecv[Aware](c, buf, rank, 1))
			require.NoError(t, err)
			require.Equal(t, want, st)
			require.Equal(t, "as it was", string(buf))
			m, err := Mprobe[Aware](c, rank, 1)
			require.NoError(t, err)
			require.Equal(t, want, m.Status())
			st, err = e.Wait(m.Irecv(buf))
			require.NoError(t, err)
			require.Equal(t, want, st)
		}
		require.ErrorIs(t, c.CheckMembers(), ft.ErrProcFailed)
		require.ErrorIs(t, c.SetProfile(ULFM), ft.ErrArgument)
	}
}

// Under run-through stabilization a wildcard that starts with an unacknowledged failure fails at
// once, even if a message has arrived; one that was posted before is pending.
func TestWildcardsOfRunThrough(t *testing.T) {
	s, e, c, kill := fourRanks(t)
	require.NoError(t, c.SetProfile(RunThrough))
	before := Irecv[Aware](c, make([]byte, 8), AnySource, 5)
	kill(2)
	inDoubt(t, e, before, 2)
	s.inbox = []frame{arrival(6, "x")}
	e.poll()
	late := Irecv[Aware](c, make([]byte, 8), AnySource, 6)
	require.Equal(t, Complete, e.State(late))
	_, err := e.Wait(late)
	require.ErrorIs(t, err, ft.ErrProcFailed)
	_, err = Probe[Aware](c, AnySource, 6)
	require.ErrorIs(t, err, ft.ErrProcFailed)
	_, err = c.Acknowledge(1)
	require.NoError(t, err)
	st, err := Recv[Aware](c, make([]byte, 8), AnySource, 6)
	require.NoError(t, err)
	require.Equal(t, 1, st.Count)
	s.inbox = []frame{arrival(5, "y")}
	_, err = e.Wait(before)
	require.NoError(t, err)
}

// Derived communicators have the profile of their parent.
func TestProfileIsInherited(t *testing.T) {
	_, e, c := newScripted(t)
	require.Equal(t, ULFM, c.Profile())
	e.SetProfile(RunThrough)
	other, err := e.NewComm("c", WorldGroup(2), 0, 5)
	require.NoError(t, err)
	require.Equal(t, RunThrough, other.Profile())
	e.SetProfile(ULFM)
	require.NoError(t, c.SetProfile(RunThrough))
	dup, err := c.Dup()
	require.NoError(t, err)
	derived, err := dup.Derive(dup.Count(), WorldGroup(1), 0)
	require.NoError(t, err)
	among, _, err := derived.DeriveAmong(WorldGroup(1), 1, derived.CountAmong(WorldGroup(1), 1))
	require.NoError(t, err)
	require.Equal(t, RunThrough, among.Profile())
	require.NoError(t, among.SetProfile(ULFM))
	require.Equal(t, ULFM, among.Profile())
	require.ErrorIs(t, among.SetProfile(9), ft.ErrArgument)
}

// An unacknowledged failure does not affect operations between living ranks.
func TestLivingPeersInDoubt(t *testing.T) {
	s, e, c, kill := fourRanks(t)
	kill(2)
	require.NoError(t, Send[Aware](c, make([]byte, 100), 1, 1))
	s.inbox = []frame{arrival(1, "x"), arrival(2, "y"), arrival(3, "z")}
	for tag := range 2 {
		_, err := Recv[Aware](c, make([]byte, 8), 1, 1+tag)
		require.NoError(t, err)
	}
	_, err := Probe[Aware](c, 1, 3)
	require.NoError(t, err)
	h := Irecv[Aware](c, make([]byte, 8), 0, 4) // of itself
	require.NoError(t, Send[Aware](c, nil, 0, 4))
	_, err = e.Wait(h)
	require.NoError(t, err)
}

// The list for agreements is cached and grows.
func TestAcknowledgedIsCached(t *testing.T) {
	_, e, c, kill := fourRanks(t)
	kept := func() []proc.ID {
		e.p.Lock()
		defer e.p.Unlock()
		return c.AcknowledgedLocked()
	}
	require.Nil(t, kept())
	kill(2)
	kill(3)
	require.Nil(t, kept())
	require.NoError(t, c.validate(1, 3)) // comes before the one that was known first
	require.Equal(t, []proc.ID{3}, kept())
	require.Zero(t, testing.AllocsPerRun(10, func() { kept() }))
	_, err := c.Acknowledge(2)
	require.NoError(t, err)
	require.Equal(t, []proc.ID{3, 2}, kept())
	require.Equal(t, c.Acknowledged(), kept())
}
