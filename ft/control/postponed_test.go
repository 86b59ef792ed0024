package control

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// Notices of a failure go at once to other machines. On this machine those that need a connection
// wait until the kernel has had time to report, and then go to each process that does not know yet.
func TestPostponedNotices(t *testing.T) {
	const n, victims, at = 16, proc.ID(5), 5 * second
	for name, c := range map[string]struct {
		node           func(proc.ID) int
		soonest, later int // connections made at once, and after the grace period
	}{
		"other machines": {nil, 30, 0},
		"one machine":    {func(proc.ID) int { return 0 }, 0, 30},
		"two machines":   {func(id proc.ID) int { return int(id) % 2 }, 4, 10},
	} {
		t.Run(name, func(t *testing.T) {
			x := detectorJob{n: n, until: 20 * second, node: c.node}
			x.faults = func(s *sim.Sim) error { return s.Kill(victims, at) }
			require.NoError(t, x.run())
			require.NoError(t, x.check([]proc.ID{victims}))
			first := fabric.Forever // connected to the failed process, so the provider reports it
			for _, known := range x.when {
				if when, ok := known[victims]; ok {
					first = min(first, when)
				}
			}
			const grace = DefaultPeriod / gracePart
			soon, between, later := 0, 0, 0
			for _, when := range slices.Concat(x.met...) {
				switch after := when - first; {
				case after < 0:
				case after < grace/2:
					soon++
				case after < grace:
					between++
				case after < grace+grace/10:
					later++
				}
			}
			require.LessOrEqual(t, between, 2, "an ordinary heartbeat may come")
			require.GreaterOrEqual(t, soon, c.soonest)
			require.GreaterOrEqual(t, later, c.later)
			if c.soonest == 0 {
				require.LessOrEqual(t, soon, 2)
			}
			if c.later == 0 {
				require.LessOrEqual(t, later, 2)
			}
		})
	}
}

// Processes that have been notified of a failure by the kernel and compute from then on notify the others of their
// machine within two grace periods.
func TestPostponedEnds(t *testing.T) {
	const n, victim, at = 16, proc.ID(5), 5*second + DefaultPeriod/4
	x := detectorJob{n: n, until: 20 * second, node: func(proc.ID) int { return 0 }, postponed: true}
	x.faults = func(s *sim.Sim) error { return s.Kill(victim, at) }
	require.NoError(t, x.run())
	require.NoError(t, x.check([]proc.ID{victim}))
	for id, known := range x.when {
		if proc.ID(id) != victim {
			require.Less(t, known[victim], at+2*DefaultPeriod/gracePart, "process %d", id)
		}
	}
}

// The detector gets a postponed failure before Finalizing: after that it would not notify others of an end of
// unknown cause.
func TestPostponedEndBeforeFinalizing(t *testing.T) {
	x := detectorJob{n: 4, until: 5 * second, node: func(proc.ID) int { return 0 }, postponed: true, found: 3}
	require.NoError(t, x.run())
	require.Equal(t, []bool{false}, x.finalizing)
}
