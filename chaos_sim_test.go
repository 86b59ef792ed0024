package banyan_test

import (
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric/sim"
)

// revokedEarly is a job in which a rank makes an intercommunicator that others have revoked: it would
// wait on its own side's communicator.
var revokedEarly = chaos{
	seed: 146325, n: 5, perNode: 1, slow: 305 * sim.Microsecond, loss: 0.6186498778116566,
	program: []chaosOp{{doDup, 0xdc97ccebafbd0759}, {doAgree, 0x435914220796ff79}, {doMerge, 0xc52fa177778117d0}},
	deaths:  []chaosDeath{{rank: 0, step: 292}},
}

// shrinksInstead is a job in which a rank revokes and shrinks, while the others are in a uniform operation: they have
// refused the one when they meet the other.
var shrinksInstead = chaos{
	seed: 139, n: 8, perNode: 4, slow: 357 * sim.Microsecond, detector: true,
	program: []chaosOp{{doUniform, 0xda0e18d2f8b43bd3}},
}

// Whoever dies in whatever step of revoke, agree, shrink, creation and what comes before and after: survivors
// end, agree, and blame only the dead.
func TestChaosSimulated(t *testing.T) {
	first, runs := uint64(1), scaled(1000, 250)
	switch seed, err := strconv.ParseUint(os.Getenv("BANYAN_SEED"), 10, 64); {
	case err == nil:
		first, runs = seed, 1
	case os.Getenv("BANYAN_LONG") != "":
		runs = 200_000
	}
	for _, c := range []chaos{revokedEarly, shrinksInstead} {
		_, err := c.run()
		require.NoError(t, err, "%v", &c)
	}
	killed, failed, rounds := 0, 0, 0
	done := map[chaosKind]int{}
	for seed := first; seed < first+uint64(runs); seed++ {
		c := drawChaos(seed)
		r, err := c.run()
		if err != nil {
			small := c.smaller(func(c *chaos) bool { _, err := c.run(); return err != nil })
			_, why := small.run()
			require.NoError(t, why, "BANYAN_SEED=%d runs it again; the smallest that fails:\n%v\nas drawn: %v\n%v", seed, small, err, c)
		}
		for rank := range c.n {
			if r.killed(rank) {
				killed++
			}
		}
		failed, rounds = failed+r.failed, rounds+r.rounds
		for kind, n := range r.steps {
			done[kind] += n
		}
	}
	t.Logf("%d runs, %d ranks killed, %d agreements with an error, %d shrinks; ended: %v", runs, killed, failed, rounds, done)
	if runs > 1 {
		require.Positive(t, min(killed, failed, rounds))
		require.Len(t, done, int(chaosKinds))
	}
}
