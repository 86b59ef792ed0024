package banyan_test

import (
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// revokedEarly is the seed of a job in which a rank makes an intercommunicator that others have revoked: it would
// wait on its own side's communicator.
const revokedEarly = 146325

// Whoever dies in whatever step of revoke, agree, shrink, creation and what comes before and after: survivors
// end, agree, and blame only the dead.
func TestChaosSimulated(t *testing.T) {
	first, runs := uint64(1), scaled(1500, 300)
	switch seed, err := strconv.ParseUint(os.Getenv("BANYAN_SEED"), 10, 64); {
	case err == nil:
		first, runs = seed, 1
	case os.Getenv("BANYAN_LONG") != "":
		runs = 200_000
	}
	c := drawChaos(revokedEarly)
	_, err := c.run()
	require.NoError(t, err, "%v", c)
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
