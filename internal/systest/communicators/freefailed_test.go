package communicators

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// S1-19, S1-32: a communicator with failed ranks, or that has been revoked, is freed, and nothing more begins
// on it; also with operations under way.
func TestFreeOfWhatIsFailed(t *testing.T) {
	for _, revoked := range []bool{false, true} {
		require.NoError(t, ranktest.WithDetectedDeath(4, 2, func(w *banyan.World) error {
			d, err := w.Comm().Dup()
			if err != nil {
				return err
			}
			waiting := d.Irecv(nil, (w.Comm().Rank()+1)%3, 1)
			if _, err := d.Recv(nil, 3, 1); ranktest.WantFailed(err, 3) != nil {
				return ranktest.WantFailed(err, 3)
			}
			if revoked {
				if err := d.Revoke(); err != nil {
					return err
				}
				if _, err := waiting.Wait(); !errors.Is(err, banyan.ErrRevoked) {
					return fmt.Errorf("what waited: %w", err)
				}
			}
			if err := d.Free(); err != nil {
				return err
			}
			if !revoked {
				waiting.Cancel()
				if _, err := waiting.Wait(); err != nil {
					return err
				}
			}
			return isClosed(d)
		}), "revoked %v", revoked)
	}
}

// A rank that frees a communicator as soon as it has shrunk it still answers: whoever was to pass the decision on
// may die, and nobody waits for ever.
func TestFreeAfterShrinkLeavesNobodyWaiting(t *testing.T) {
	const n = 7
	late := 0 // a rank died after some had freed
	for seed := range ranktest.Seeds(300) {
		r := rand.New(rand.NewPCG(seed, 9))
		lived, freed := make([]bool, n), 0
		require.NoError(t, banyan.Simulate(n, banyan.Simulation{
			Seed:    seed,
			Options: []banyan.Option{banyan.WithDetection(200*time.Millisecond, time.Second)},
			Configure: func(c *sim.Config) {
				c.Topology.ProcsPerNode = 1 + int(seed%3)
				c.MaxTime = fabric.Time(time.Minute)
			},
			Faults: func(s *sim.Sim) error { // the root of the agreement, and another
				return errors.Join(s.KillAtStep(0, 1+r.Uint64N(8<<r.IntN(8))), s.KillAtStep(proc.ID(1+r.IntN(n-1)), 1+r.Uint64N(8<<r.IntN(8))))
			},
		}, func(w *banyan.World) error {
			d, err := w.Comm().Dup()
			if err != nil {
				return err
			}
			for range 3 { // each time from what the last one has left
				left, err := d.Shrink()
				if err != nil {
					return err
				}
				if err := d.Free(); err != nil {
					return err
				}
				freed++
				d = left
			}
			ranktest.LingerUntil(w, 20*time.Second)
			lived[w.Comm().Rank()] = true
			return nil
		}), "seed %d", seed)
		if freed > 0 && !lived[0] {
			late++
		}
	}
	ranktest.Occurred(t, late, "none was late")
}

// A handler runs without locks also where a request has been ended by an agreement, or by a revocation that came from elsewhere:
// it may agree, shrink and revoke on the very communicator.
func TestHandlerRecovers(t *testing.T) {
	for _, r := range []banyan.ErrorRange{banyan.ErrorsLocal, banyan.ErrorsGroup} {
		for _, how := range []string{"iagree", "wait", "barrier", "uniform"} {
			require.NoError(t, ranktest.WithDetectedDeath(5, 3, func(w *banyan.World) error {
				c := w.Comm()
				var left *banyan.Comm
				var inside error
				calls := 0
				c.SetErrorHandler(func(c *banyan.Comm, err error) {
					if calls++; calls > 1 {
						return
					}
					flag := uint64(3)
					_, agreed := c.IAgree(&flag).Wait() // the failure is not acknowledged: told of again
					if !errors.Is(agreed, banyan.ErrProcFailed) || flag != 3 {
						inside = fmt.Errorf("agree in a handler: %d, %w", flag, agreed)
					}
					inside = errors.Join(inside, c.Revoke())
					var err2 error
					left, err2 = c.Shrink()
					inside = errors.Join(inside, err2)
				})
				if err := c.SetErrorRange(r); err != nil {
					return err
				}
				var err error
				switch how {
				case "iagree":
					flag := uint64(1)
					ranktest.LingerUntil(w, 5*time.Second)
					_, err = c.IAgree(&flag).Wait()
				case "wait":
					_, err = c.Irecv(nil, 4, 1).Wait()
				case "uniform":
					if err = c.SetUniformity(banyan.UniformCollectives); err == nil {
						err = ranktest.BarrierUntilError(c)
					}
				default:
					err = ranktest.BarrierUntilError(c)
				}
				if err == nil || inside != nil || left == nil || left.Size() != 4 {
					return fmt.Errorf("%w; in the handler: %w; %d calls", err, inside, calls)
				}
				left.SetErrorHandler(nil)
				return left.Barrier()
			}), "%v, %s", r, how)
		}
	}
}
