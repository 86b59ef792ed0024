//go:build launchers

// These tests need launchers that the project does not build: MPICH's Hydra, mpicc.mpich, Slurm
// with munge. They fail without them. make test-launchers runs them, make launchers installs their
// requirements.

package startup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/launch"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// manyEnv is the number of ranks that the role "many" expects.
const manyEnv = "BANYAN_TEST_RANKS"

func init() {
	roles["many"] = many
	roles["bereaved"], roles["unmet"], roles["late"] = bereaved, unmet, late
}

// bereaved: rank 2 dies and rank 1 learns of it; ranks 0 and 3 have communicated with no one when
// they finalize.
func bereaved(w *banyan.World) error {
	c := w.Comm()
	switch c.Rank() {
	case 2:
		if err := c.Ssend([]byte("farewell"), 1, 0); err != nil {
			return err
		}
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case 1:
		buf := make([]byte, 8)
		if _, err := c.Recv(buf, 2, 0); err != nil {
			return err
		}
		if _, err := c.Recv(buf, 2, 0); !errors.Is(err, banyan.ErrProcFailed) {
			return fmt.Errorf("receive from the dead: %v", err)
		}
	}
	if err := w.Finalize(); err != nil {
		return err
	}
	fmt.Printf("rank %d has left\n", c.Rank())
	return nil
}

// unmet has rank 2 die while the others are in Finalize, or shortly before, without any message.
func unmet(w *banyan.World) error {
	if w.Comm().Rank() == 2 {
		w.Sleep(50 * time.Millisecond)
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	if err := w.Finalize(); err != nil {
		return err
	}
	fmt.Printf("rank %d has left\n", w.Comm().Rank())
	return nil
}

// late has rank 2 die and rank 0 finalize some time after the others, of which rank 1 knows of the
// death.
func late(w *banyan.World) error {
	c := w.Comm()
	switch c.Rank() {
	case 0:
		w.Sleep(time.Second)
	case 1:
		if _, err := c.Recv(nil, 2, 0); !errors.Is(err, banyan.ErrProcFailed) {
			return fmt.Errorf("receive from the dead: %v", err)
		}
	case 2:
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	called := time.Now()
	if err := w.Finalize(); err != nil {
		return err
	}
	fmt.Printf("rank %d called at %d and left at %d\n", c.Rank(), called.UnixNano(), time.Now().UnixNano())
	fmt.Printf("rank %d has left\n", c.Rank())
	return nil
}

// leaves checks that the survivors end normally although the launcher's fence would wait for the
// failed rank for ever.
func leaves(t *testing.T, role string, env []string, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(env, ranktest.RoleEnv+"="+role)
	out, _ := cmd.CombinedOutput() // the launcher reports the failed rank, each in its way
	require.NoError(t, ctx.Err(), "%s hangs\n%s", cmd, out)
	said := regexp.MustCompile(`rank \d has left`).FindAllString(string(out), -1)
	require.ElementsMatch(t, []string{"rank 0 has left", "rank 1 has left", "rank 3 has left"}, said, "%s\n%s", cmd,
		out)
	return string(out)
}

// Ranks that know of a death wait in Finalize for the living ones, though Hydra would have them
// wait for the failed one.
func TestLaunchersHydraLate(t *testing.T) {
	out := leaves(t, "late", asFour(), "mpiexec.mpich", "-disable-auto-cleanup", "-n", strconv.Itoa(four),
		"/bin/sh", "-c", "trap : USR1; "+me(t)+"; true")
	var called, left []int64
	for _, line := range regexp.MustCompile(`called at (\d+) and left at (\d+)`).FindAllStringSubmatch(out, -1) {
		a, err := strconv.ParseInt(line[1], 10, 64)
		require.NoError(t, err)
		b, err := strconv.ParseInt(line[2], 10, 64)
		require.NoError(t, err)
		called, left = append(called, a), append(left, b)
	}
	require.Len(t, called, 3, out)
	require.Greater(t, slices.Min(left), slices.Max(called), out)
}

// The shell keeps the failed rank's connection to the launcher open: Hydra 4.0 ends all ranks,
// with any options, when it writes to a closed one.
func TestLaunchersHydraAfterADeath(t *testing.T) {
	leaves(t, "bereaved", asFour(), "mpiexec.mpich", "-disable-auto-cleanup", "-n", strconv.Itoa(four),
		"/bin/sh", "-c", "trap : USR1; "+me(t)+"; true")
}

// A rank that dies while all others finalize, and that has met none of them, delays no one: they
// then find out which ranks are alive.
func TestLaunchersHydraUnmet(t *testing.T) {
	for _, fabric := range []string{"shm", "tcp"} {
		leaves(t, "unmet", append(asFour(), "BANYAN_FABRIC="+fabric), "mpiexec.mpich", "-disable-auto-cleanup", "-n",
			strconv.Itoa(four),
			"/bin/sh", "-c", "trap : USR1; "+me(t)+"; true")
	}
}

func TestLaunchersOwnAfterADeath(t *testing.T) {
	leaves(t, "bereaved", asFour(), ftbench(t), "run", "-n", strconv.Itoa(four), "--on-failure=continue", "--", me(t))
}

// many checks that the world is the requested one: its size, each rank once, all ranks reachable
// from each other.
func many(w *banyan.World) error {
	c := w.Comm()
	if n, err := strconv.Atoi(os.Getenv(manyEnv)); err != nil || c.Size() != n {
		return fmt.Errorf("the world has %d ranks, %s=%s", c.Size(), manyEnv, os.Getenv(manyEnv))
	}
	if err := errors.Join(ranktest.Ring(w), ranktest.Crowd(w)); err != nil {
		return err
	}
	fmt.Printf("rank %d of %d\n", c.Rank(), c.Size())
	return nil
}

const four = 4

// asFour is the environment for four ranks in the role "many", without variables of a launcher of
// this test.
func asFour() []string {
	var env []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "PMI") && !strings.HasPrefix(e, "SLURM_") {
			env = append(env, e)
		}
	}
	return append(env, ranktest.RoleEnv+"=many", fmt.Sprintf("%s=%d", manyEnv, four))
}

// tool runs a program, which must exist and succeed.
func tool(t *testing.T, env []string, name string, args ...string) (stdout string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = env
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	require.NoError(t, cmd.Run(), "%s\nmake launchers installs what is missing\n%s%s", cmd, &out, &errs)
	return out.String()
}

func me(t *testing.T) string {
	exe, err := os.Executable()
	require.NoError(t, err)
	return exe
}

// spoke checks that each of the four ranks has reported success, once.
func spoke(t *testing.T, out string) {
	t.Helper()
	said := regexp.MustCompile(`rank \d+ of \d+`).FindAllString(out, -1)
	var want []string
	for r := range four {
		want = append(want, fmt.Sprintf("rank %d of %d", r, four))
	}
	require.ElementsMatch(t, want, said, out)
}

func TestLaunchersHydra(t *testing.T) {
	spoke(t, tool(t, asFour(), "mpiexec.mpich", "-n", strconv.Itoa(four), me(t)))
}

// A rank that finalizes late under Hydra, which answers nothing to ranks in a fence, does not count
// as failed, nor do the waiting ranks.
func TestLaunchersHydraNaps(t *testing.T) {
	var all sync.WaitGroup
	for _, seed := range []uint64{21, 4, 5} { // shm, unix, tcp
		j := newNapping(seed, usualNapping)
		j.starter = "mpiexec.mpich"
		all.Go(func() {
			cmd := exec.CommandContext(t.Context(), j.starter, "-n", strconv.Itoa(j.n), me(t))
			cmd.Env = j.env()
			if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
				t.Errorf("%v\nerror %v\n%s", j, err, out)
			}
		})
	}
	all.Wait()
}

// Two proxies, as on two machines: the launcher's mapping distinguishes them.
func TestLaunchersHydraOnTwoHosts(t *testing.T) {
	spoke(t, tool(t, asFour(), "mpiexec.mpich", "-launcher", "fork", "-hosts", "localhost:2,127.0.0.1:2", "-n",
		strconv.Itoa(four), me(t)))
}

func TestLaunchersOwn(t *testing.T) {
	spoke(t, tool(t, asFour(), ftbench(t), "run", "-n", strconv.Itoa(four), "--", me(t)))
}

func TestLaunchersNone(t *testing.T) {
	t.Setenv(manyEnv, strconv.Itoa(four))
	var out string
	for _, u := range startUnled(t, four, "many") {
		require.NoError(t, u.Wait(), u.out.String())
		out += u.out.String()
	}
	spoke(t, out)
}

// ftbench builds the command.
func ftbench(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "ftbench")
	tool(t, os.Environ(), "go", "build", "-o", path, "github.com/banyan-hpc/banyan/cmd/ftbench")
	return path
}

func mpichRing(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "ring")
	tool(t, os.Environ(), "mpicc.mpich", "-Wall", "-Werror", "-o", path, "testdata/ring.c")
	return path
}

func TestLaunchersMPICHUnderCommand(t *testing.T) {
	spoke(t, tool(t, asFour(), ftbench(t), "run", "-n", strconv.Itoa(four), "--", mpichRing(t), strconv.Itoa(four)))
}

func TestLaunchersMPICHUnderRun(t *testing.T) {
	var out, errs bytes.Buffer
	res, err := launch.Run(t.Context(), launch.Spec{
		N: four, Argv: []string{mpichRing(t), strconv.Itoa(four)}, Env: asFour(),
		OnFailure: launch.Abort, Stdout: &out, Stderr: &errs,
	})
	require.NoError(t, err)
	require.Zero(t, res.Code, errs.String())
	for _, end := range res.Ends {
		require.True(t, end.Joined && end.Finalized, "rank %d %v", end.Rank, end)
	}
	spoke(t, out.String())
}
