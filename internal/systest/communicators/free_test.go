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

// free has two ranks free a communicator. Operations under way end as usual, and no new one starts.
func free(w *banyan.World) error {
	c, peer := w.Comm(), 1-w.Comm().Rank()
	for round, size := range []int{8, 5_000, 3 << 20} {
		d, err := c.Dup()
		if err != nil {
			return err
		}
		out, in, wild := ranktest.Pattern(c.Rank(), size), make([]byte, size), make([]byte, size)
		reqs := []banyan.Request{d.Irecv(in, peer, 1), d.Irecv(wild, banyan.AnySource, 2)}
		if c.Rank() == 0 { // the other rank sends after this one has freed
			if err := errors.Join(d.Free(), c.Send(nil, peer, 7)); err != nil {
				return err
			}
			if err := isClosed(d); err != nil {
				return err
			}
		} else if _, err := c.Recv(nil, peer, 7); err != nil {
			return err
		}
		e, err := c.Dup() // of another context than the waiting receives
		if err != nil {
			return err
		}
		if c.Rank() == 1 {
			err = errors.Join(e.Send(nil, peer, 2), d.Send(out, peer, 1), d.Send(out, peer, 2))
			reqs[0].Cancel()
			reqs[1].Cancel()
		} else {
			_, err = e.Recv(nil, peer, 2)
		}
		if err := errors.Join(err, banyan.WaitAll(reqs), e.Free()); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		if want := ranktest.Pattern(peer, size); c.Rank() == 0 &&
			(string(in) != string(want) || string(wild) != string(want)) {
			return fmt.Errorf("round %d: the wrong message", round)
		}
		if c.Rank() == 1 {
			if err := d.Free(); err != nil {
				return err
			}
		}
	}
	if err := c.Free(); !errors.Is(err, banyan.ErrArgument) {
		return fmt.Errorf("the world was freed: %v", err)
	}
	if err := w.Finalize(); err != nil {
		return err
	}
	return isClosed(c)
}

// isClosed checks that no operation starts on a freed communicator.
func isClosed(d *banyan.Comm) error {
	again := d.Free()
	if d.Name() == "world" {
		again = banyan.ErrClosed
	}
	_, recv := d.Recv(nil, 0, 0)
	_, probe := d.Probe(0, 0)
	_, wait := d.Isend(nil, 0, 0).Wait()
	_, irecv := d.Irecv(nil, 0, 0).Wait()
	_, start := d.SendInit(nil, 0, 0).Start().Wait()
	_, split := d.Split(0, 0)
	for i, err := range []error{again, d.Send(nil, 0, 0), recv, probe, wait, irecv, start, split, d.Barrier(),
		d.Ssend(nil, 0, 0)} {
		if !errors.Is(err, banyan.ErrClosed) {
			return fmt.Errorf("call %d on a communicator that is no more: %w", i,
				errors.Join(err, errors.New("want ErrClosed")))
		}
	}
	return nil
}

func TestFree(t *testing.T) { ranktest.Succeed(t, 2, "free") }

func TestFreeInASimulation(t *testing.T) {
	require.NoError(t, banyan.Simulate(2, banyan.Simulation{}, free))
}

// A revoked communicator, or one with failed ranks and operations under way, can be freed, and no
// operation starts on it.
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

// A rank that frees a communicator right after shrinking it still answers: the rank that was to
// forward the decision may die, and no rank waits for ever.
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
				return errors.Join(s.KillAtStep(0, 1+r.Uint64N(8<<r.IntN(8))),
					s.KillAtStep(proc.ID(1+r.IntN(n-1)), 1+r.Uint64N(8<<r.IntN(8))))
			},
		}, func(w *banyan.World) error {
			d, err := w.Comm().Dup()
			if err != nil {
				return err
			}
			for range 3 { // each time from the remaining ranks
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

// A handler runs without locks, also for a request that an agreement or a remote revocation has
// ended: it may agree, shrink and revoke on the same communicator.
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
					flag, agreed := c.Iagree(3).Wait() // the failure is not acknowledged: reported again
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
					ranktest.LingerUntil(w, 5*time.Second)
					_, err = c.Iagree(1).Wait()
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
