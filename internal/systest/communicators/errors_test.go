package communicators

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/launch"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// careless looks at no error: the last of its ranks dies and the first waits for it.
func careless(w *banyan.World) error {
	c := w.Comm()
	last := c.Size() - 1
	switch c.Rank() {
	case last:
		return unix.Kill(os.Getpid(), unix.SIGKILL)
	case 0:
		_, _ = c.Recv(make([]byte, 1), last, 1)
		fmt.Fprintln(os.Stderr, "careless: rank 0 goes on")
	}
	return nil
}

const careText = "banyan: rank 0 aborts the job: errors are fatal to rank 0 of world: recv on world: rank 1 failed: "

// S1-6, S2-3: BANYAN_ERRORS=fatal gives a program that sets no handler MPI's default.
func TestErrorsAreFatalByTheEnvironment(t *testing.T) {
	res, out := ranktest.Job(t, launch.Continue, 2, "careless", "BANYAN_ERRORS=fatal")
	require.Contains(t, out, careText)
	require.NotContains(t, out, "goes on")
	require.True(t, res.Ends[0].Failed(), out) // by its exit, or by the launcher, which ends all
	require.NotZero(t, res.Code, out)          // of whoever failed first
}

func TestErrorsAreReturnedByDefault(t *testing.T) {
	res, out := ranktest.Job(t, launch.Continue, 2, "careless")
	require.Contains(t, out, "careless: rank 0 goes on")
	require.NotContains(t, out, "errors are fatal")
	require.False(t, res.Ends[0].Failed(), "%v\n%s", res.Ends[0], out)
}

// The option gives every communicator its handler; one that is set takes its place.
func TestErrorsAreFatalByTheOption(t *testing.T) {
	run := func(fatal bool, before func(*banyan.Comm)) error {
		s := banyan.Simulation{Options: []banyan.Option{banyan.WithErrorsFatal(fatal)}}
		return banyan.Simulate(2, s, func(w *banyan.World) error {
			c, err := w.Comm().Dup()
			if err != nil {
				return err
			}
			before(c)
			if c.Rank() == 0 {
				_ = c.Send(nil, 77, 1)
			}
			return nil
		})
	}
	nothing := func(*banyan.Comm) {}
	require.ErrorContains(t, run(true, nothing), "rank 0 aborts the job: errors are fatal to rank 0 of ")
	require.NoError(t, run(false, nothing))
	require.NoError(t, run(true, func(c *banyan.Comm) { c.SetErrorHandler(nil) }))
	told := errors.New("")
	require.NoError(t, run(true, func(c *banyan.Comm) {
		c.SetErrorHandler(func(_ *banyan.Comm, err error) { told = err })
	}))
	require.ErrorIs(t, told, banyan.ErrArgument)
}
