package repair

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/p2p"
)

// Communicators with the same members, in any order of ranks and arguments, share one agreement;
// one with other members has its own.
func TestOneAgreementForEqualMembers(t *testing.T) {
	const n = 4
	job(t, n, func(m *member) {
		self := int(m.e.Self())
		turned := p2p.NewGroup([]proc.ID{3, 2, 1, 0})
		a, b := m.comm(n, 5), m.comm(n, 6)
		c, err := m.p.NewComm("turned", turned, n-1-self, 7)
		assert.NoError(m.t, err)
		comms := []*p2p.Comm{a, b, c, b}
		if self%2 == 1 {
			slices.Reverse(comms)
		}
		failed, err := m.validate(comms)
		assert.NoError(m.t, err)
		assert.Len(m.t, failed, len(comms))
		assert.Equal(m.t, 1, m.open.Len())
		half, err := m.p.NewComm("half", p2p.NewGroup([]proc.ID{proc.ID(self &^ 1), proc.ID(self | 1)}), self&1, 8)
		assert.NoError(m.t, err)
		_, err = m.validate(append(comms, half))
		assert.NoError(m.t, err)
		assert.Equal(m.t, 2, m.open.Len())
	})
}

// validate waits for one.
func (m *member) validate(comms []*p2p.Comm) (failed [][]proc.ID, err error) {
	m.e.Lock()
	promise, h := m.p.NewPromise(comms[0], "Validate")
	m.Validate(comms, func(all [][]proc.ID, err error) {
		failed = all
		promise.Complete(err)
	})
	m.e.Unlock()
	_, err = m.p.Wait(h)
	return failed, err
}
