package startup

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/launch"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// stepEnv is when the rank of victimEnv is killed in the start: at an even step before a request to
// the launcher goes out, at an odd one once it is on its way. 0 is before the first fence.
const (
	stepEnv   = "BANYAN_TEST_STEP"
	victimEnv = "BANYAN_TEST_VICTIM"
)

// deadStart is the whole life of a rank in a job one of whose ranks dies while it starts.
func deadStart() error {
	if err := ranktest.Place(); err != nil {
		return err
	}
	doomed := os.Getenv("PMI_RANK") == os.Getenv(victimEnv)
	if doomed {
		if err := dieAtStep(); err != nil {
			return err
		}
	}
	w, err := banyan.Init()
	var missing *launch.MissingError
	switch {
	case doomed && err == nil:
		fmt.Println("the start is over")
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case errors.As(err, &missing):
		fmt.Println("missing", missing.Lost[0].Rank)
		return nil
	case err != nil:
		return err
	}
	if err := bereave(w); err != nil {
		return err
	}
	fmt.Println("started")
	return w.Finalize()
}

// dieAtStep has this rank killed while it starts.
func dieAtStep() error {
	left, err := strconv.Atoi(os.Getenv(stepEnv))
	if err != nil {
		return err
	}
	fences := 0
	die := func() {
		fmt.Println("dies after fence", fences)
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // cannot fail
	}
	return interpose(func(line string) func() {
		fence := strings.HasPrefix(line, "cmd=barrier_in")
		if fences == 0 && !fence {
			return nil
		}
		if left == 0 {
			die()
		}
		if fence {
			fences++
		}
		left -= 2
		if left == -1 {
			return die
		}
		return nil
	})
}

// bereave expects that the victim is known to be dead by who needs it, and that the others go on.
func bereave(w *banyan.World) error {
	c := w.Comm()
	victim, err := strconv.Atoi(os.Getenv(victimEnv))
	if err != nil {
		return err
	}
	_, recvErr := c.Recv(nil, victim, 1)
	for _, err := range []error{recvErr, c.Send(nil, victim, 1), c.Barrier()} {
		var failed *banyan.ProcFailedError
		if !errors.As(err, &failed) || !slices.Equal(failed.Ranks, []int{victim}) {
			return fmt.Errorf("want the failure of rank %d, got: %w", victim, err)
		}
	}
	alive, err := c.Group().Exclude(victim)
	if err != nil {
		return err
	}
	rest, err := c.CreateGroup(alive, 0)
	if err != nil {
		return err
	}
	return rest.Barrier()
}

// S1-11: a rank that dies after the first fence of the start does not keep the others from starting,
// at whatever step it dies; they find that it has failed. Before that fence the start fails.
func TestDeathWhileStarting(t *testing.T) {
	for name, env := range map[string]string{"shm": "BANYAN_FABRIC=shm", "tcp": "BANYAN_FABRIC=tcp", "both": ranktest.Nodes("a;a;b")} {
		for victim := range ranktest.Scaled(2, 1) {
			if victim > 0 && name == "both" { // the steps of tcp
				continue
			}
			t.Run(fmt.Sprintf("%s/rank %d", name, victim), func(t *testing.T) {
				steps := 0
				for ; dieWhileStarting(t, victim, steps, env); steps++ {
				}
				require.GreaterOrEqual(t, steps, 4, "fewer steps than two fences have")
			})
		}
	}
}

// dieWhileStarting reports false when the start is over before that step.
func dieWhileStarting(t *testing.T, victim, step int, env string) bool {
	const n = 3
	exe, err := os.Executable()
	require.NoError(t, err)
	var out, errs bytes.Buffer
	res, err := launch.Run(t.Context(), launch.Spec{
		N: n, Argv: []string{exe}, Stdout: &out, Stderr: &errs, OnFailure: launch.Continue,
		Env: append(os.Environ(), env, ranktest.RoleEnv+"=dead start", fmt.Sprintf("%s=%d", stepEnv, step), fmt.Sprintf("%s=%d", victimEnv, victim)),
	})
	require.NoError(t, err)
	words := out.String()
	story := fmt.Sprintf("step %d: %s%s", step, words, errs.String())
	for _, end := range res.Ends {
		if end.Rank == victim {
			require.Equal(t, syscall.SIGKILL, end.Signal, story)
		} else {
			require.Zero(t, int(end.Signal)+end.Code, story)
		}
	}
	want := "started\n"
	if strings.Contains(words, "dies after fence 0\n") {
		want = fmt.Sprintf("missing %d\n", victim)
	}
	require.Equal(t, n-1, strings.Count(words, want), story)
	return !strings.Contains(words, "the start is over")
}
