package p2p

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// validate applies a decision, as if the others had agreed.
func (c *Comm) validate(epoch uint64, ended ...proc.ID) error {
	c.e.Lock()
	defer c.e.Unlock()
	if err := c.BeginValidate(); err != nil {
		return err
	}
	return c.EndValidate(&Validation{Ended: ended, Epoch: epoch})
}

// Failures that have been agreed on are acknowledged, before those that were known here earlier and
// have not been agreed on; the latter keep collectives from working, and receives from any source
// in doubt (Hursey & Graham §3.2).
func TestAgreedBeforeKnown(t *testing.T) {
	for _, profile := range []Profile{ULFM, RunThrough} {
		_, e, c, kill := fourRanks(t)
		require.NoError(t, c.SetProfile(profile))
		h := Irecv[Aware](c, nil, AnySource, 5)
		kill(2)
		kill(3)
		require.NoError(t, c.validate(1, 3))
		require.Equal(t, []proc.ID{3, 2}, c.Failed())
		require.Equal(t, []proc.ID{3}, c.Acknowledged())
		inDoubt(t, e, h, 2)
		err := Send[Aware](c, nil, 3, 0)
		require.Equal(t, profile == RunThrough, err == nil,
			"%v: the agreed is a null rank under run-through stabilization", err)
		require.ErrorIs(t, Send[Aware](c, nil, 2, 0), ft.ErrProcFailed)
		var failed *ft.ProcFailedError
		require.ErrorAs(t, c.CheckMembers(), &failed)
		require.Equal(t, []int{2}, failed.Ranks, "by its rank in the communicator")
		n, err := c.Acknowledge(2)
		require.NoError(t, err)
		require.Equal(t, 2, n)
		require.Equal(t, []proc.ID{3, 2}, c.Acknowledged())
		require.Equal(t, Pending, e.State(h))
		require.ErrorIs(t, c.CheckMembers(), ft.ErrProcFailed, "acknowledged is not agreed")
		require.NoError(t, c.validate(2, 2, 3))
		require.NoError(t, c.CheckMembers())
		require.Zero(t, c.state.Load(), "the fast path is taken again")
		require.Equal(t, []proc.ID{0, 1}, c.Coll().Group().Procs())
		kill(1)
		require.Equal(t, []proc.ID{3, 2, 1}, c.Failed())
		require.ErrorIs(t, c.CheckMembers(), ft.ErrProcFailed)
	}
}

// No message of a collective from before a validate is received after it, whether it arrives
// earlier or later, and derived communicators match from the beginning.
func TestValidateResetsMatching(t *testing.T) {
	s, e, c, _ := fourRanks(t)
	for range 3 {
		require.NotZero(t, c.Count())
	}
	old := c.Coll()
	late := frame{fabric.ClassEager, old.ctx | 1, []byte("old")}
	s.inbox = []frame{late}
	e.poll()
	require.Equal(t, 1, e.unexpected.n)
	waiting := Irecv[Aware](old, nil, 1, 7)
	before, seed := c.deriveContext(1), c.Seed(1)
	require.NoError(t, c.validate(1))
	require.Zero(t, e.unexpected.n, "what was there is dropped")
	_, err := e.Wait(waiting)
	require.ErrorIs(t, err, ft.ErrArgument)
	require.ErrorContains(t, err, "beside a validate")
	require.ErrorContains(t, Send[Aware](old, nil, 1, 7), "beside a validate")
	s.inbox = []frame{late}
	e.poll()
	require.Zero(t, e.unexpected.n, "what comes late is dropped")
	require.EqualValues(t, 1, c.Count(), "numbers begin again")
	require.NotEqual(t, before, c.deriveContext(1), "in contexts of their own")
	require.NotEqual(t, seed, c.Seed(1), "those of two sides, too")

	buf := make([]byte, 8)
	h := Irecv[Aware](c.Coll(), buf, 1, AnyTag)
	s.inbox = []frame{{fabric.ClassEager, c.Coll().ctx | 1, []byte("new")}}
	e.poll()
	st, err := e.Wait(h)
	require.NoError(t, err)
	require.Equal(t, "new", string(buf[:st.Count]))

	seen := map[uint64]bool{c.Coll().ctx: true, old.ctx: true}
	for epoch := range uint64(50) {
		require.NoError(t, c.validate(epoch+2))
		require.False(t, seen[c.Coll().ctx], "a context is used again")
		seen[c.Coll().ctx] = true
	}
}

// Two decisions of the same agreement, of which one was made by a process that failed at once, do
// not share a context: it contains a digest of the ended members.
func TestDecisionsHaveOwnContexts(t *testing.T) {
	contexts := map[uint64]bool{}
	for _, ended := range [][]proc.ID{{}, {1}, {2}, {1, 2}, {3}} {
		_, _, c, kill := fourRanks(t)
		for _, p := range ended {
			kill(p)
		}
		require.NoError(t, c.validate(1, ended...))
		contexts[c.Coll().ctx] = true
	}
	require.Len(t, contexts, 5)
}

// Operations that must come after a validate under way wait for it, also when nothing is agreed on
// or the library is finalized.
func TestCollectivesWaitForValidate(t *testing.T) {
	for name, end := range map[string]func(c *Comm){
		"agreed":     func(c *Comm) { _ = c.EndValidate(&Validation{Epoch: 3}) },
		"not agreed": func(c *Comm) { _ = c.EndValidate(nil) },
		"freed":      func(c *Comm) { c.free() },
	} {
		simulated(t, 1, Limits{}, func(e *Engine, _ *Comm) error {
			c, err := e.NewComm("c", WorldGroup(1), 0, 77)
			if err != nil {
				return err
			}
			old, over := c.Coll(), false
			e.Lock()
			err = c.BeginValidate()
			e.p.After(1000, func() {
				over = true
				end(c)
			})
			e.Unlock()
			if err != nil {
				return err
			}
			err = c.CheckMembers()
			if !over || (name == "agreed") == (c.Coll() == old) || (name == "freed") == (err == nil) {
				return fmt.Errorf("%s: over %v, %v", name, over, err)
			}
			return nil
		})
	}
}

// Communicators derived from one with members agreed to have ended inherit that, and their
// collectives work among the rest.
func TestDerivedFromValidated(t *testing.T) {
	_, _, c, kill := fourRanks(t)
	require.NoError(t, c.SetProfile(RunThrough))
	kill(2)
	kill(1)
	require.NoError(t, c.validate(1, 1))
	d, err := c.Dup()
	require.NoError(t, err)
	require.Equal(t, []proc.ID{1}, d.Acknowledged())
	require.Equal(t, []proc.ID{1, 2}, d.Failed())
	require.NoError(t, Send[Aware](d, nil, 1, 0))
	require.ErrorIs(t, d.CheckMembers(), ft.ErrProcFailed)
	pair, err := c.Derive(c.Count(), NewGroup([]proc.ID{1, 0}), 0)
	require.NoError(t, err)
	require.NoError(t, pair.CheckMembers())
	require.Equal(t, 2, pair.Size())
	require.Equal(t, 1, pair.Coll().Size())
	at, left, err := pair.CollRank(1)
	require.NoError(t, err)
	require.True(t, left)
	require.Zero(t, at)
	require.Equal(t, 1, pair.Coll().OriginalRank(0))
	_, left, err = pair.CollRank(0)
	require.NoError(t, err)
	require.False(t, left)
	require.ErrorIs(t, pair.Lost(0), ft.ErrProcFailed)
	_, _, err = pair.CollRank(2)
	require.ErrorIs(t, err, ft.ErrArgument)
}

// A revoked communicator stays revoked.
func TestValidateOfTheRevoked(t *testing.T) {
	s, e, c, kill := fourRanks(t)
	kill(3)
	require.NoError(t, c.Revoke())
	require.NoError(t, c.validate(1, 3))
	require.Equal(t, []proc.ID{3}, c.Acknowledged())
	require.ErrorIs(t, c.CheckMembers(), ft.ErrRevoked)
	s.inbox = []frame{{fabric.ClassEager, c.Coll().ctx | 1, []byte("of a collective")}}
	e.poll()
	require.Zero(t, e.unexpected.n)
	require.NoError(t, c.Free())
	require.ErrorIs(t, c.validate(2, 3), ft.ErrClosed)
}

// The memory for ended members is a bit for each rank, and as much again to count the others;
// earlier communicators of collectives are released.
func TestValidatedCommunicatorsAreSmall(t *testing.T) {
	const n, comms, rounds = 1 << 16, 8, 3
	_, e, _ := newScripted(t)
	var victims []proc.ID
	for p := proc.ID(1); p < n; p += 2 { // the worst for runs
		e.p.View().Enter(p, proc.Cause{})
		victims = append(victims, p)
	}
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	var all []*Comm
	for i := range comms {
		c, err := e.NewComm("big", WorldGroup(n), 0, uint32(100+i))
		require.NoError(t, err)
		require.NoError(t, c.SetProfile(RunThrough))
		require.Equal(t, n, c.Coll().Size()) // has been used
		all = append(all, c)
	}
	before := heap()
	for round := range rounds {
		for _, c := range all {
			require.NoError(t, c.validate(uint64(round+1), victims...))
		}
	}
	each := int64(heap()-before) / comms
	require.Equal(t, n/2, all[0].Coll().Size())
	t.Logf("%d bytes for each of %d ranks", each, n)
	// Twice a bit for each rank, and the sums; the table of links has not grown.
	require.Less(t, each, int64(2*n/8+n/64+4096))
	runtime.KeepAlive(all)
	runtime.KeepAlive(victims)
}
