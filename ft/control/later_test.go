package control

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/proc"
)

// News of a death goes at once to other machines. On the own machine what takes a connection
// waits until the kernel has had time to tell, and then goes, to whoever has it from nobody.
func TestNewsThatTakesAConnection(t *testing.T) {
	const n, dead, at = 16, proc.ID(5), 5 * second
	for name, node := range map[string]func(proc.ID) int{
		"other machines": nil,
		"one machine":    func(proc.ID) int { return 0 },
	} {
		t.Run(name, func(t *testing.T) {
			x := trial{n: n, until: 20 * second, node: node}
			x.faults = func(s *sim.Sim) error { return s.Kill(dead, at) }
			require.NoError(t, x.run())
			require.NoError(t, x.check([]proc.ID{dead}))
			first := fabric.Forever // who was connected to the dead has it from the provider
			for _, known := range x.when {
				if when, ok := known[dead]; ok {
					first = min(first, when)
				}
			}
			soonest := fabric.Forever
			for _, when := range slices.Concat(x.met...) {
				if when >= first {
					soonest = min(soonest, when)
				}
			}
			require.NotEqual(t, fabric.Forever, soonest, "the graph has links to nobody's heart beats")
			grace := DefaultPeriod / gracePart // an ordinary heartbeat may come before it is over
			if node == nil {
				require.Less(t, soonest-first, grace/2)
			} else {
				require.GreaterOrEqual(t, soonest-first, grace/2)
				require.LessOrEqual(t, soonest-first, grace)
			}
		})
	}
}
