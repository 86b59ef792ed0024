package explore

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// counters are two that steps raise up to 3, one at a time.
type counters struct {
	at    [2]int
	wrong [2]int // a state that must not be
}

func (c *counters) Print() uint64 { return uint64(c.at[0]*10 + c.at[1]) }

func (c *counters) Steps() (out []int) {
	for i, v := range c.at {
		if v < 3 {
			out = append(out, i)
		}
	}
	return out
}

func (c *counters) Check([]int) error {
	if c.at == c.wrong {
		return errors.New("wrong")
	}
	return nil
}

func (c *counters) Clone() *counters { d := *c; return &d }

func (c *counters) Do(i int) { c.at[i]++ }

// Each state is tried once, and a wrong one is found with a way to it.
func TestAll(t *testing.T) {
	states, err := All(&counters{wrong: [2]int{9, 9}}, 1<<10)
	require.NoError(t, err)
	require.Equal(t, 16, states)
	states, err = All(&counters{wrong: [2]int{9, 9}}, 5)
	require.NoError(t, err)
	require.Equal(t, 5, states)
	_, err = All(&counters{wrong: [2]int{2, 1}}, 1<<10)
	require.EqualError(t, err, "wrong, after [0 0 1]")
}
