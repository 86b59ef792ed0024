package repair

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/ft/agree"
	"github.com/banyan-hpc/banyan/ft/control"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
	"github.com/banyan-hpc/banyan/p2p"
)

// member is one process of a simulated job that repairs.
type member struct {
	*Repair
	t *testing.T
	p *p2p.Engine
}

// job runs body as each process of a job.
func job(t *testing.T, n int, body func(m *member)) {
	t.Helper()
	s, err := sim.New(sim.DefaultConfig(n))
	require.NoError(t, err)
	for id := range proc.ID(n) {
		require.NoError(t, s.Spawn(id, func(p *sim.Proc) {
			e := progress.New(progress.Config{
				Self: id, Host: p.Host(), Others: []fabric.Provider{p.Provider()},
				Resolve: func(_ string, peer proc.ID) ([]byte, error) { return sim.Address(peer), nil },
			})
			m := &member{t: t, p: p2p.New(e, true, p2p.Limits{})}
			out := control.NewOutbox(e, nil)
			m.Repair = New(e, control.StartAgreements(e, agree.Binomial, out, nil))
			body(m)
			e.Lock()
			out.Flush(1 << 60)
			out.Stop()
			e.Unlock()
			e.Depart()
			_ = e.Close()
		}))
	}
	require.NoError(t, s.Run())
}

// comm makes a communicator of all of n.
func (m *member) comm(n int, ctx uint32) *p2p.Comm {
	c, err := m.p.NewComm("c", p2p.WorldGroup(n), int(m.e.Self()), ctx)
	assert.NoError(m.t, err)
	return c
}

// agree waits for an agreement.
func (m *member) agree(c *p2p.Comm, flag uint64) (uint64, error) {
	m.e.Lock()
	promise, h := m.p.NewPromise(c, "Agree")
	m.Agree(c, &flag, promise)
	m.e.Unlock()
	_, err := m.p.Wait(h)
	return flag, err
}

func (m *member) free(c *p2p.Comm) {
	m.e.Lock()
	m.Freed(c)
	m.e.Unlock()
	assert.NoError(m.t, c.Free())
}

// The kept decisions of freed communicators are bounded; a communicator without any costs nothing.
func TestFreedGroupsAreBounded(t *testing.T) {
	const n = 2
	job(t, n, func(m *member) {
		agreed := 0
		for i := range uint32(maxFreed + 100) {
			c := m.comm(n, 100+2*i)
			if i%10 != 9 {
				agreed++
				got, err := m.agree(c, 6|uint64(m.e.Self()))
				assert.NoError(t, err)
				assert.EqualValues(t, 6, got)
			}
			m.free(c)
		}
		assert.Zero(t, m.byComm.Len())
		assert.Equal(t, agreed, len(m.freed))
		for i := range uint32(300) {
			c := m.comm(n, 5000+2*i)
			_, err := m.agree(c, 1)
			assert.NoError(t, err)
			m.free(c)
		}
		assert.Equal(t, maxFreed, len(m.freed))
		assert.Equal(t, maxFreed, m.open.Len())
		for _, id := range m.freed {
			kept := m.open.Get(id) != nil
			assert.True(t, kept)
		}
		group := p2p.WorldGroup(n)
		m.e.Lock()
		err := m.ag.Propose(agree.GroupKey{Context: 100, Group: group.Digest()}, agree.Proposal{})
		m.e.Unlock()
		assert.ErrorIs(t, err, agree.ErrNotOpen, "the machine has forgotten the first")
		assert.EqualValues(t, 5000+2*299, m.freed[maxFreed-1].Context, "the last remain")
	})
}

// A group with an operation under way is kept when its communicator is freed; others are dropped
// instead.
func TestGroupsInUseAreKept(t *testing.T) {
	const n = 2
	job(t, n, func(m *member) {
		used := m.comm(n, 50)
		got := uint64(1)
		promise, h := m.p.NewPromise(used, "Agree")
		begin := func() { m.Agree(used, &got, promise) }
		m.e.Lock()
		if m.e.Self() == 0 {
			begin()
		}
		m.Freed(used)
		m.e.Unlock()
		for i := range uint32(maxFreed + 50) {
			c := m.comm(n, 100+2*i)
			_, err := m.agree(c, 1)
			assert.NoError(t, err)
			m.free(c)
		}
		m.e.Lock()
		if m.e.Self() == 1 {
			begin()
		}
		m.e.Unlock()
		_, err := m.p.Wait(h)
		assert.NoError(t, err)
		assert.EqualValues(t, 1, got)
	})
}

// A communicator with the context and the members of a freed one continues its sequence, which is
// not dropped in the freed one's place.
func TestASequenceContinues(t *testing.T) {
	const n = 3
	job(t, n, func(m *member) {
		for round := range uint64(3) {
			c := m.comm(n, 70)
			for i := range uint64(2) {
				got, err := m.agree(c, 8*round+4*i|uint64(m.e.Self()))
				assert.NoError(t, err)
				assert.Equal(t, 8*round+4*i, got)
			}
			assert.Empty(t, m.freed)
			assert.Equal(t, 1, m.open.Len())
			assert.Equal(t, 1, m.byComm.Len())
			m.free(c)
			assert.Len(t, m.freed, 1)
		}
	})
}

// Nothing is started on a communicator that cannot be used any more, and no call waits.
func TestNothingStartsOnTheFreed(t *testing.T) {
	job(t, 1, func(m *member) {
		c := m.comm(1, 70)
		m.free(c)
		_, err := m.agree(c, 1)
		assert.ErrorIs(t, err, ft.ErrClosed)
		assert.Zero(t, m.open.Len())
	})
}

// A revocation of a freed communicator is agreed on, and leaves no state of that communicator.
func TestRevokedAfterFree(t *testing.T) {
	const n = 2
	job(t, n, func(m *member) {
		m.p.OnRevoked(m.Revoked)
		c := m.comm(n, 70)
		assert.NoError(t, c.SetUniformity(p2p.UniformCollectives))
		assert.NoError(t, c.Free())
		m.e.Lock()
		defer m.e.Unlock()
		m.Freed(c)
		c.RevokeLocal()
		var over progress.Completion
		m.proposeIn(m.stateOf(c), agree.Proposal{What: whatAgree}, func(*agree.Decision, error) { over.Finish() })
		m.e.Wait(&over)
		assert.Zero(t, m.byComm.Len())
		assert.Zero(t, m.refused.Len())
		assert.Len(t, m.freed, 1)
	})
}

// A validate that agrees but finds the context of its collectives taken is an error for that
// communicator; the others' results stand.
func TestValidateOfATakenContext(t *testing.T) {
	const n = 2
	validate := func(m *member, comms ...*p2p.Comm) (failed [][]proc.ID, err error) {
		var over progress.Completion
		m.e.Lock()
		defer m.e.Unlock()
		m.Validate(comms, func(f [][]proc.ID, e error) {
			failed, err = f, e
			over.Finish()
		})
		m.e.Wait(&over)
		return failed, err
	}
	var taken [2]uint32
	job(t, n, func(m *member) {
		c, d := m.comm(n, 70), m.comm(n, 80)
		_, err := validate(m, c, d)
		assert.NoError(t, err)
		taken[m.e.Self()] = c.Coll().Context()
	})
	require.Equal(t, taken[0], taken[1])
	job(t, n, func(m *member) {
		m.comm(n, taken[0]) // without the bit of collectives
		failed, err := validate(m, m.comm(n, 70), m.comm(n, 80))
		assert.ErrorContains(t, err, "taken")
		assert.Len(t, failed, 2)
	})
}
