package agree

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/internal/proc"
)

// A proposal that meets a yielding one moves to the next agreement, in its order; the proposers of
// the yielding one get a mismatch.
func TestYield(t *testing.T) {
	and := func(acc, in []byte) { acc[0] &= in[0] }
	weak := Proposal{What: 16, Value: []byte{1}, Op: and, Yields: true}
	for n := 2; n <= 5; n++ {
		for mask := 1; mask < 1<<n-1; mask++ { // the members that propose a yielding operation before the others' two
			ms := machines(t, n, theGroup)
			for r, m := range ms {
				if mask&(1<<r) != 0 {
					_, err := m.Propose(theGroup, weak)
					require.NoError(t, err)
				}
				for k := range 2 {
					_, err := m.Propose(theGroup, Proposal{What: 1, Value: []byte{byte(2 - k), byte(k)}, Op: and})
					require.NoError(t, err)
				}
			}
			seen := make(map[byte][]*Decision)
			for _, d := range pump(t, ms...) {
				seen[d.What] = append(seen[d.What], d)
			}
			firm := 0
			for _, d := range slices.Concat(seen[1], seen[16]) {
				if d.Mismatch {
					continue
				}
				firm++
				require.Len(t, d.Value, 2)
				require.EqualValues(t, d.Value[1]+2, d.Number,
					"the first is agreed on before the second, after what yields")
			}
			require.Equal(t, 2*n, firm, "mask %b", mask)
		}
	}
}

// A refusal reaches all proposers of a yielding operation and does not affect others.
func TestRefusal(t *testing.T) {
	ms := machines(t, 4, theGroup)
	for r, m := range ms {
		p := Proposal{What: 16, Value: []byte{1}, Yields: true, Uniform: true}
		if r == 2 {
			p = Proposal{What: 15, Refuses: true}
		}
		_, err := m.Propose(theGroup, p)
		require.NoError(t, err)
		_, err = m.Propose(theGroup, Proposal{What: 1})
		require.NoError(t, err)
	}
	decided := pump(t, ms...)
	require.Len(t, decided, 8)
	for _, d := range decided {
		require.Equal(t, d.Number == 1, d.Refused)
		require.Equal(t, d.Number == 1, d.Mismatch)
	}
}

// A failure that was agreed on in a mismatch with a yielding operation is new in the next decision.
func TestYieldKeepsNewFailures(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	for range 100 {
		ms := machines(t, 4, theGroup)
		victims := ms[3].self
		for r, m := range ms[:3] {
			if r == rng.IntN(3) || r == 0 {
				_, err := m.Propose(theGroup, Proposal{What: 16, Yields: true})
				require.NoError(t, err)
			}
			m.Died(victims)
			_, err := m.Propose(theGroup, Proposal{What: 1})
			require.NoError(t, err)
		}
		for _, d := range pump(t, ms[:3]...) {
			if !d.Mismatch {
				require.Equal(t, []Ended{{Proc: victims}}, d.Ended)
			}
			if !d.Mismatch && d.Number == 2 {
				require.Contains(t, []proc.ID{victims}, d.Ended[0].Proc)
			}
		}
	}
}
