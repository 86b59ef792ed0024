package startup

import (
	"errors"
	"fmt"
	"log"
	"os"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/launch"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

var errBody = errors.New("no")

// wayEnv is the way in which rank 1 of an abrupt job ends.
const wayEnv = "BANYAN_TEST_WAY"

// abruptly are ends of a rank without Finalize, with the exit code and the output.
var abruptly = map[string]struct {
	end  func(w *banyan.World)
	code int
	says []string
}{
	"panic": {func(w *banyan.World) {
		defer w.Finalize()
		panic("lost its way")
	}, 2, []string{"panic: lost its way\n", "goroutine 1 [running]", "unwound_test.go"}},
	"panic, Finalize in a closure": {func(w *banyan.World) {
		defer func() { fmt.Fprintln(os.Stderr, "finalize:", w.Finalize()) }()
		panic("lost its way")
	}, 2, []string{"panic: lost its way\n", "goroutine 1 [running]", "unwound_test.go",
		"finalize: finalize: a panic unwinds"}},
	"nil dereference": {func(w *banyan.World) {
		defer w.Finalize()
		var none *banyan.Simulation
		fmt.Fprintln(os.Stderr, none.Seed)
	}, 2, []string{"nil pointer dereference", "goroutine 1 [running]", "unwound_test.go"}},
	"panic of another goroutine": {func(w *banyan.World) {
		defer w.Finalize()
		go func() { panic("lost its way") }()
		_, _ = w.Comm().Recv(nil, 0, 3)
	}, 2, []string{"panic: lost its way\n", "[running]", "unwound_test.go"}},
	"Goexit": {func(w *banyan.World) {
		left := make(chan error)
		go func() {
			defer func() { left <- w.Finalize() }()
			runtime.Goexit() // as by testing.T.FailNow
		}()
		log.Fatal(<-left)
	}, 1, []string{"finalize: runtime.Goexit unwinds"}},
	"log.Fatal": {func(w *banyan.World) {
		defer w.Finalize()
		log.Fatal("lost its way")
	}, 1, []string{"lost its way\n"}},
	"exit in a deferred function": {func(w *banyan.World) {
		defer w.Finalize()
		defer os.Exit(0)
	}, 0, []string{"exited with code 0 without finalizing"}},
	"return": {func(*banyan.World) {}, 0, []string{"exited with code 0 without finalizing"}},
}

// unwind is the whole life of a rank: rank 1 ends in one of the ways, and the others wait for it.
func unwind() error {
	w, err := banyan.Init()
	if err != nil {
		return err
	}
	c := w.Comm()
	if c.Rank() == 1 {
		for range c.Size() - 1 { // all have met
			if _, err := c.Recv(nil, banyan.AnySource, 2); err != nil {
				return err
			}
		}
		abruptly[os.Getenv(wayEnv)].end(w)
		return nil
	}
	if err := c.Send(nil, 1, 2); err != nil {
		return err
	}
	_, err = c.Recv(nil, 1, 1)
	var failed *banyan.ProcFailedError
	if !errors.As(err, &failed) || !slices.Equal(failed.Ranks, []int{1}) {
		return fmt.Errorf("want the failure of rank 1, got: %w", err)
	}
	return w.Finalize()
}

// A rank that ends without Finalize, in any way of a Go program, has failed. A deferred Finalize
// neither keeps a panic from ending the rank nor hides its text.
func TestAbruptEnds(t *testing.T) {
	for name, way := range abruptly {
		for _, fabric := range []string{"shm", "tcp"} {
			t.Run(name+"/"+fabric, func(t *testing.T) {
				res, out := ranktest.Job(t, launch.Continue, 3, "unwinds", wayEnv+"="+name, "BANYAN_FABRIC="+fabric)
				for rank, end := range res.Ends {
					if rank == 1 {
						require.Equal(t, way.code, end.Code, "%v\n%s", end, out)
						require.True(t, end.Failed(), out)
					} else {
						require.False(t, end.Failed(), "rank %d %v\n%s", rank, end, out)
					}
				}
				for _, says := range way.says {
					require.Contains(t, out, says)
				}
			})
		}
	}
}

// A delete function that panics while Finalize deletes attributes: everything is ErrClosed
// afterwards, and Finalize reports why.
func TestFinalizePanics(t *testing.T) {
	w, err := banyan.Init()
	require.NoError(t, err)
	key := banyan.NewKey(nil, func(*banyan.Comm, int) error { panic("lost its way") })
	c, err := w.Comm().Dup()
	require.NoError(t, errors.Join(err, banyan.SetAttr(c, key, 1)))
	require.PanicsWithValue(t, "lost its way", func() { _ = w.Finalize() })
	closed(t, c)
	for range 2 {
		require.ErrorContains(t, w.Finalize(), "a panic has ended it")
	}
}

// Every further call of Finalize returns its first error.
func TestFinalizeFails(t *testing.T) {
	w, err := banyan.Init()
	require.NoError(t, err)
	var again error
	key := banyan.NewKey(nil, func(*banyan.Comm, int) error {
		again = w.Finalize() // waits for itself
		return errBody
	})
	require.NoError(t, banyan.SetAttr(w.Comm(), key, 1))
	for range 2 {
		require.ErrorIs(t, w.Finalize(), errBody)
	}
	require.ErrorIs(t, again, banyan.ErrArgument)
	closed(t, w.Comm())
}

// closed checks that every operation on c is ErrClosed and none hangs.
func closed(t *testing.T, c *banyan.Comm) {
	t.Helper()
	_, recv := c.Recv(nil, 0, 1)
	_, agree := c.Agree(1)
	_, barrier := c.Ibarrier().Wait()
	_, shrink := c.Shrink()
	_, dup := c.Dup()
	for _, err := range []error{recv, agree, barrier, shrink, dup, c.Send(nil, 0, 1), c.Barrier(), c.Revoke()} {
		require.ErrorIs(t, err, banyan.ErrClosed)
	}
}

// A program that recovers from a panic can finalize.
func TestFinalizeAfterRecover(t *testing.T) {
	w, err := banyan.Init()
	require.NoError(t, err)
	func() {
		defer func() {
			require.Equal(t, "lost its way", recover())
		}()
		defer func() {
			require.ErrorContains(t, w.Finalize(), "a panic unwinds")
			require.NoError(t, w.Comm().Barrier(), "the world is as it was")
		}()
		panic("lost its way")
	}()
	require.NoError(t, w.Finalize())
}

// runs are bodies for Run: rank 1 ends in one of the ways, and the others wait for it.
var runs = map[string]struct {
	body func() error
	code int
	says []string
}{
	"error": {func() error { return errBody }, 1, []string{"banyan: rank 1: no\n"}},
	"panic": {func() error { panic("lost its way") }, 2,
		[]string{"panic: lost its way\n", "goroutine 1 [running]", "unwound_test.go"}},
}

// runToEnd is the life of a rank that Run ends.
func runToEnd() error {
	banyan.Run(needs1(runs[os.Getenv(wayEnv)].body))
	return nil
}

func needs1(end func() error) func(w *banyan.World) error {
	return func(w *banyan.World) error {
		c := w.Comm()
		if c.Rank() == 1 {
			if err := c.Send(nil, 0, 2); err != nil {
				return err
			}
			return end()
		}
		if c.Rank() == 0 {
			if _, err := c.Recv(nil, 1, 2); err != nil {
				return err
			}
		}
		_, err := c.Recv(nil, 1, 1)
		var failed *banyan.ProcFailedError
		if !errors.As(err, &failed) || !slices.Equal(failed.Ranks, []int{1}) {
			return fmt.Errorf("want the failure of rank 1, got: %w", err)
		}
		return nil
	}
}

// A rank whose body returns an error, or panics, has failed. The others go on.
func TestRun(t *testing.T) {
	for name, way := range runs {
		for _, fabric := range []string{"shm", "tcp"} {
			t.Run(name+"/"+fabric, func(t *testing.T) {
				res, out := ranktest.Job(t, launch.Continue, 3, "runs", wayEnv+"="+name, "BANYAN_FABRIC="+fabric)
				for rank, end := range res.Ends {
					require.Equal(t, rank == 1, end.Failed(), "rank %d %v\n%s", rank, end, out)
				}
				require.Equal(t, way.code, res.Ends[1].Code, out)
				for _, says := range way.says {
					require.Contains(t, out, says)
				}
			})
		}
	}
}

// The reason why a rank does not start is printed too.
func TestRunDoesNotStart(t *testing.T) {
	res, out := ranktest.Job(t, launch.Continue, 1, "runs", wayEnv+"=error", "BANYAN_FABRIC=pigeon")
	require.Equal(t, 1, res.Ends[0].Code)
	require.Regexp(t, `^banyan: .*pigeon`, out)
}

// The same body in the simulator.
func TestSimulatedRun(t *testing.T) {
	err := banyan.Simulate(3, banyan.Simulation{}, needs1(func() error { return errBody }))
	require.EqualError(t, err, "rank 1: no")
}

// In a test Run is a world of one rank, which has ended when Run returns, also by FailNow.
func TestRunAlone(t *testing.T) {
	for _, leave := range []func(){func() {}, runtime.Goexit} {
		var c *banyan.Comm
		done := make(chan struct{})
		go func() {
			defer close(done)
			banyan.Run(func(w *banyan.World) error {
				c = w.Comm()
				err := c.Barrier()
				leave()
				return err
			}, banyan.WithEagerLimit(100))
		}()
		<-done
		require.Equal(t, 1, c.Size())
		closed(t, c)
	}
}
