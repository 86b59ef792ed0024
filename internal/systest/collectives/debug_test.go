package collectives

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// differing are programs in which rank 2 of three calls another collective than the others.
var differing = []struct {
	name string
	body func(c *banyan.Comm, odd bool) error
	want []string
}{
	{"operation", func(c *banyan.Comm, odd bool) error {
		if odd {
			return c.Barrier()
		}
		return banyan.Bcast(c, make([]float64, 4), 0)
	}, []string{"called Barrier", "called Bcast of 32 bytes with root 0"}},
	{"root", func(c *banyan.Comm, odd bool) error {
		if odd {
			return c.Bcast(make([]byte, 4), 2)
		}
		return c.Bcast(make([]byte, 4), 0)
	}, []string{"with root 0", "with root 2"}},
	{"length", func(c *banyan.Comm, odd bool) error {
		if odd {
			return c.Bcast(make([]byte, 5), 0)
		}
		return c.Bcast(make([]byte, 4), 0)
	}, []string{"of 4 bytes", "of 5 bytes"}},
	{"order", func(c *banyan.Comm, odd bool) error {
		if odd {
			return errors.Join(c.Barrier(), c.Bcast(make([]byte, 4), 0))
		}
		return errors.Join(c.Bcast(make([]byte, 4), 0), c.Barrier())
	}, []string{"called Barrier", "called Bcast"}},
	{"blocking and not", func(c *banyan.Comm, odd bool) error {
		if odd {
			_, err := c.Ibarrier().Wait()
			return err
		}
		return c.Barrier()
	}, []string{"called Ibarrier", "called Barrier"}},
	{"non-blocking", func(c *banyan.Comm, odd bool) error {
		r := []banyan.Request{{}}
		if odd {
			r[0] = c.Ibcast(make([]byte, 8), 2)
		} else {
			r[0] = c.Ibarrier()
		}
		_, _, err := banyan.WaitAny(r)
		return err
	}, []string{"called Ibarrier", "called Ibcast of 8 bytes with root 2"}},
	{"type", func(c *banyan.Comm, odd bool) error {
		if odd {
			return banyan.Bcast(c, make([]int64, 4), 0)
		}
		return banyan.Bcast(c, make([]float64, 4), 0)
	}, []string{"Bcast of 32 bytes with root 0 (int64) by Bcast at ", "(float64) by Bcast at ", "debug_test.go:"}},
	{"type, non-blocking", func(c *banyan.Comm, odd bool) error {
		r := banyan.Igather(c, make([]uint32, 1), make([]uint32, 3), 0)
		if odd {
			return differs(r, banyan.Igather(c, make([]float32, 1), make([]float32, 3), 0))
		}
		return differs(r, banyan.Igather(c, make([]int32, 1), make([]int32, 3), 0))
	}, []string{"(float32) by Igather", "(int32) by Igather"}},
	{"a value and numbers", func(c *banyan.Comm, odd bool) (err error) {
		if odd {
			return banyan.Bcast(c, make([]float64, 2), 0)
		}
		_, err = banyan.BcastValue(c, 1.5, 0)
		return err
	}, []string{"by BcastValue", "by Bcast at"}},
	{"reduction", func(c *banyan.Comm, odd bool) error {
		op := banyan.Sum[float64]
		if odd {
			op = banyan.Max[float64]
		}
		return banyan.Allreduce(c, make([]float64, 1), make([]float64, 1), op)
	}, []string{"with banyan.Sum by Allreduce", "with banyan.Max by Allreduce"}},
	{"reduction by a function of the program", func(c *banyan.Comm, odd bool) error {
		op := first
		if odd {
			op = second
		}
		_, err := banyan.Iallreduce(c, make([]int, 1), make([]int, 1), op).Wait()
		return err
	}, []string{"with collectives.first", "with collectives.second", "int64"}},
	{"reduction with places", func(c *banyan.Comm, odd bool) error {
		op := banyan.MinLoc[int]
		if odd {
			op = banyan.MaxLoc[int]
		}
		here := make([]banyan.Located[int], 1)
		return banyan.ReduceLocated(c, here, here, op, 1)
	}, []string{"with banyan.MinLoc", "with banyan.MaxLoc", "with root 1"}},
	{"order of a reduction", func(c *banyan.Comm, odd bool) error {
		if odd {
			return banyan.Reduce(c, make([]int, 1), make([]int, 1), banyan.Sum, 1, banyan.AnyOrder)
		}
		return banyan.Reduce(c, make([]int, 1), make([]int, 1), banyan.Sum, 1)
	}, []string{"in any order"}},
	{"creation", func(c *banyan.Comm, odd bool) (err error) {
		if odd {
			_, err = c.Split(0, 0)
		} else {
			_, err = c.Dup()
		}
		return err
	}, []string{"called Dup by Comm.Dup at", "called Split by Comm.Split at", "debug_test.go:"}},
	{"creation and collective", func(c *banyan.Comm, odd bool) (err error) {
		if odd {
			return c.Barrier()
		}
		_, err = c.SplitByNode(0)
		return err
	}, []string{"called Split by Comm.SplitByNode", "called Barrier"}},
	{"creation with a group", func(c *banyan.Comm, odd bool) (err error) {
		if odd {
			_, err = c.Validate()
		} else {
			_, err = c.Create(c.Group())
		}
		return err
	}, []string{"called Create by", "called Validate by"}},
	{"agreement", func(c *banyan.Comm, odd bool) (err error) {
		if odd {
			return c.Barrier()
		}
		_, err = c.Agree(1)
		return err
	}, []string{"called Agree by Comm.Agree", "called Barrier"}},
	{"agreement and shrink", func(c *banyan.Comm, odd bool) (err error) {
		if odd {
			_, err = c.Shrink()
		} else {
			_, err = c.Iagree(1).Wait()
		}
		return err
	}, []string{"called Agree by Comm.Iagree", "called Shrink by Comm.Shrink"}},
	{"shrink, non-blocking", func(c *banyan.Comm, odd bool) (err error) {
		if odd {
			_, err = c.Ivalidate().Wait()
		} else {
			_, err = c.Ishrink().Wait()
		}
		return err
	}, []string{"called Shrink by Comm.Ishrink", "called Validate by Comm.Ivalidate"}},
	{"several validates", func(c *banyan.Comm, odd bool) (err error) {
		if odd {
			return c.Barrier()
		}
		_, err = banyan.ValidateMultiple(c)
		return err
	}, []string{"called Validate by ValidateMultiple", "called Barrier"}},
	{"intercommunicator", func(c *banyan.Comm, odd bool) (err error) {
		leader := 0
		if odd {
			leader = 1
		}
		_, err = c.CreateInter(leader, c, 0, 0)
		return err
	}, []string{"CreateInter with root 0", "CreateInter with root 1"}},
}

func first(a, b int) int { return a }

func second(a, b int) int { return b }

// differs waits for two requests, of which the first succeeds.
func differs(right, wrong banyan.Request) error {
	if _, err := right.Wait(); err != nil {
		return fmt.Errorf("the first request: %v", err)
	}
	_, err := wrong.Wait()
	return err
}

// finds runs a program in which rank 2 differs.
func finds(c *banyan.Comm, body func(c *banyan.Comm, odd bool) error, wants []string) error {
	err := body(c, c.Rank() == 2)
	if !errors.Is(err, banyan.ErrArgument) {
		return fmt.Errorf("got %v, want ErrArgument", err)
	}
	for _, want := range append(wants[:len(wants):len(wants)], "rank 2", fmt.Sprintf("rank %d", c.Rank())) {
		if !strings.Contains(err.Error(), want) {
			return fmt.Errorf("%q is not in: %w", want, err)
		}
	}
	return nil
}

// TestDifferingCollectives: every rank finds the mistake, and none waits. On a view too.
func TestDifferingCollectives(t *testing.T) {
	for _, d := range differing {
		for _, bound := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, context %v", d.name, bound), func(t *testing.T) {
				underDebug(t, 3, func(w *banyan.World) error {
					c := w.Comm()
					if bound {
						c = c.WithContext(t.Context())
					}
					return finds(c, d.body, d.want)
				})
			})
		}
	}
}

func underDebug(t *testing.T, ranks int, body func(w *banyan.World) error) {
	t.Helper()
	if err := banyan.Simulate(ranks, banyan.Simulation{Options: []banyan.Option{banyan.WithDebug(true)}}, body); err != nil {
		t.Error(err)
	}
}

// TestDifferingProcesses: so do processes, and they go on with another communicator.
func TestDifferingProcesses(t *testing.T) { ranktest.Succeed(t, 3, "differing", "BANYAN_DEBUG=1") }

func differ(w *banyan.World) error {
	for _, d := range differing {
		c, err := w.Comm().Dup()
		if err != nil {
			return err
		}
		if err := errors.Join(finds(c, d.body, d.want), c.Free()); err != nil {
			return fmt.Errorf("%s: %w", d.name, err)
		}
	}
	return lend(w.Comm(), true)
}

// TestBytesFitTwoTypes: rank 0 fits the two others, which do not fit each other. It finds the mistake as they do.
func TestBytesFitTwoTypes(t *testing.T) {
	underDebug(t, 3, func(w *banyan.World) (err error) {
		c := w.Comm()
		switch c.Rank() {
		case 0:
			err = c.Bcast(make([]byte, 8), 0)
		case 1:
			err = banyan.Bcast(c, make([]float64, 1), 0)
		default:
			err = banyan.Bcast(c, make([]uint64, 1), 0)
		}
		if !errors.Is(err, banyan.ErrArgument) || !strings.Contains(err.Error(), "float64") || !strings.Contains(err.Error(), "uint64") {
			return fmt.Errorf("got %v", err)
		}
		return nil
	})
}

// TestCallsThatFit: these differ and are no mistake.
func TestCallsThatFit(t *testing.T) {
	underDebug(t, 2, func(w *banyan.World) error {
		c, one, sum := w.Comm(), []float64{1}, make([]float64, 1)
		if c.Rank() == 0 {
			_, err := banyan.AllreduceValue(c, 1.0, banyan.Sum)
			err = errors.Join(err, c.Bcast(make([]byte, 8), 0), banyan.Allreduce(c, one, sum, banyan.Sum))
			made, failed := c.SplitByNode(0)
			_, validated := banyan.ValidateMultiple(c, made)
			return errors.Join(err, failed, validated, made.Free())
		}
		literal := func(a, b float64) float64 { return a + b }
		err := errors.Join(banyan.Allreduce(c, one, sum, banyan.Sum), banyan.Bcast(c, one, 0), banyan.Allreduce(c, one, sum, literal))
		made, failed := c.Split(0, 0)
		_, validated := banyan.ValidateMultiple(made, c)
		return errors.Join(err, failed, validated, made.Free())
	})
}

// lending are collectives that do not block, and the buffers that they lend.
var lending = []struct {
	name  string
	start func(c *banyan.Comm, in, out []int64) banyan.Request
	in    func(rank int) bool // whether in is lent
	out   func(rank int) bool
}{
	{"bcast", func(c *banyan.Comm, in, out []int64) banyan.Request { return banyan.Ibcast(c, out, 0) }, none, all},
	{"reduce", func(c *banyan.Comm, in, out []int64) banyan.Request {
		return banyan.Ireduce(c, in, out[:2], banyan.Sum, 1)
	}, all, root},
	{"allreduce", func(c *banyan.Comm, in, out []int64) banyan.Request {
		return banyan.Iallreduce(c, in, out[:2], banyan.Sum)
	}, all, all},
	{"gather", func(c *banyan.Comm, in, out []int64) banyan.Request { return banyan.Igather(c, in, out, 1) }, all, root},
	{"scatter", func(c *banyan.Comm, in, out []int64) banyan.Request { return banyan.Iscatter(c, out, in, 1) }, all, root},
	{"allgather", func(c *banyan.Comm, in, out []int64) banyan.Request { return banyan.Iallgather(c, in, out) }, all, all},
	{"allreduce in place", func(c *banyan.Comm, in, out []int64) banyan.Request {
		return banyan.Iallreduce(c, out, out, banyan.Sum)
	}, none, all},
	{"allgather in place", func(c *banyan.Comm, in, out []int64) banyan.Request {
		return banyan.Iallgather(c, out[2*c.Rank():][:2], out)
	}, none, all},
	{"bytes", func(c *banyan.Comm, in, out []int64) banyan.Request { return c.Ibcast(banyan.Bytes(out), 1) }, none, all},
}

func all(int) bool { return true }

func none(int) bool { return false }

func root(rank int) bool { return rank == 1 }

// lend changes each buffer while it is lent, at each rank in turn: that rank detects it if debug is
// true.
func lend(c *banyan.Comm, debug bool) error {
	for _, l := range lending {
		for who := range c.Size() {
			for which, lent := range []func(rank int) bool{l.in, l.out} {
				in, out := []int64{1, 2}, make([]int64, 2*c.Size())
				r := l.start(c, in, out)
				if who == c.Rank() {
					[][]int64{in, out}[which][0]++
				}
				_, err := r.Wait()
				wrong := debug && who == c.Rank() && lent(who)
				if wrong != errors.Is(err, banyan.ErrArgument) || !wrong && err != nil {
					return fmt.Errorf("%s, rank %d changes buffer %d: %v", l.name, who, which, err)
				}
				if wrong && (!strings.Contains(err.Error(), "I"+l.name[:4]) && l.name != "bytes" ||
					!strings.Contains(err.Error(), "changed the buffer") || !strings.Contains(err.Error(), "debug_test.go:")) {
					return fmt.Errorf("%s: %w", l.name, err)
				}
				if err := c.Barrier(); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// TestLentBuffers: the program may not change the buffers of a collective that is under way.
func TestLentBuffers(t *testing.T) {
	for _, debug := range []bool{false, true} {
		options := []banyan.Option{banyan.WithDebug(debug)}
		if err := banyan.Simulate(3, banyan.Simulation{Options: options}, func(w *banyan.World) error {
			return lend(w.Comm(), debug)
		}); err != nil {
			t.Error(err)
		}
	}
}

// TestRightCollectivesUnderDebug: right programs, drawn at random, run as without debug, and the buffer of a
// request that has ended with the death of a rank is the program's.
func TestRightCollectivesUnderDebug(t *testing.T) {
	t.Setenv("BANYAN_DEBUG", "on")
	ranktest.Succeed(t, 5, "non-blocking")
	ranktest.JobsWithDeaths(t, "non-blocking, one killed", 6, 1, ranktest.JobSeeds(1, 10)...)
}

// TestViewsUnderDebug: so do all collectives and a split, blocking and not, on a communicator with a context and
// without, with a failed rank and without.
func TestViewsUnderDebug(t *testing.T) {
	debug := banyan.WithDebug(true)
	for _, bound := range []bool{false, true} {
		check := func(c *banyan.Comm, failed ...int) error {
			view := c
			if bound {
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				view = c.WithContext(ctx)
			}
			for kind := range ranktest.CollectiveKinds {
				o := ranktest.Collective{Kind: kind, Number: int(kind), Size: 3, Typed: true}
				if err := errors.Join(o.Check(view, true, failed...), o.Check(view, false, failed...)); err != nil {
					return err
				}
			}
			return ranktest.CheckCollectivesAndSplit(view, failed)
		}
		t.Run(fmt.Sprintf("context %v", bound), func(t *testing.T) {
			simulated := banyan.Simulation{Options: []banyan.Option{debug}}
			if err := banyan.Simulate(5, simulated, func(w *banyan.World) error { return check(w.Comm()) }); err != nil {
				t.Error(err)
			}
			if err := ranktest.WithDeath(5, func(c *banyan.Comm) error {
				if err := ranktest.BarrierUntilError(c); !errors.Is(err, banyan.ErrProcFailed) {
					return fmt.Errorf("barrier: %w", err)
				}
				if _, err := c.Validate(); err != nil {
					return err
				}
				return check(c, 4)
			}, debug); err != nil {
				t.Error(err)
			}
		})
	}
}
