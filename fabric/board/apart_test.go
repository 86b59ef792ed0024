package board

import (
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// A member that looks for parts that are too long, while another one brings a short part in place of an
// earlier long one, does not take the earlier one for that of this step.
func TestApartIgnoresEarlierParts(t *testing.T) {
	slots, buffers := make([]Slot, 2), make([]Buffer, Buffers)
	parts, long, common := make([]byte, PartsBytes(2)), make([]byte, PartsBytes(2)), new(Common)
	me, other := Open(slots, common, buffers, parts).Phase(0), Open(slots, common, buffers, parts).Phase(1)
	const steps = 100_000
	var step, entered atomic.Int64 // of the other member: the one to take, and the one taken
	go func() {
		for i := int64(1); i <= steps; i++ {
			for step.Load() < i {
				runtime.Gosched()
			}
			other.Bring(partsOp, []byte{1})
			other.Enter(Everyone)
			entered.Store(i)
		}
	}()
	wrong := 0
	for i := int64(1); i <= steps; i++ {
		for range 2 { // into both places
			for _, p := range []*Phase{&me, &other} {
				p.Bring(partsOp, long)
				p.Enter(Everyone)
				p.End()
			}
		}
		me.Bring(partsOp, []byte{1})
		me.Enter(Everyone)
		step.Store(i)
		for entered.Load() < i {
			if me.Apart() {
				wrong++
			}
		}
		me.End()
		other.End()
	}
	require.Zero(t, wrong, "of %d steps", steps)
}
