package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"

	"github.com/banyan-hpc/banyan/internal/exits"
	"github.com/banyan-hpc/banyan/internal/exits/hook"
	"github.com/banyan-hpc/banyan/internal/launch/join"
	"github.com/banyan-hpc/banyan/internal/launch/spawn"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// withoutBPF set to 1 lets tests pass that lack the privileges.
const withoutBPF = "BANYAN_NO_BPF"

func openHook() (spawn.Exits, error) { return hook.Open() }

func mayHook(t *testing.T) bool {
	t.Helper()
	ok, why := hook.Available()
	if !ok && os.Getenv(withoutBPF) == "1" {
		fmt.Fprintf(os.Stderr, "NOT TESTED: %s: %s=1 and %s\n", t.Name(), withoutBPF, why)
		return false
	}
	require.True(t, ok, "%s\n(%s=1 leaves this test out)", why, withoutBPF)
	return true
}

// roleExits is a rank that reads how its peer with the highest rank ends, which
// kills itself.
func roleExits() error {
	ctx := context.Background()
	j, err := join.Join(ctx)
	if err != nil {
		return err
	}
	tab, err := exits.Open()
	if err != nil {
		return err
	}
	defer tab.Close()
	if err := j.Put(ctx, "pid", []byte(strconv.Itoa(os.Getpid()))); err != nil {
		return err
	}
	if err := j.Fence(ctx); err != nil {
		return err
	}
	last := j.Size() - 1
	if j.Rank() == last {
		return unix.Kill(os.Getpid(), unix.SIGKILL)
	}
	text, err := j.Get(ctx, last, "pid")
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(string(text))
	if err != nil {
		return err
	}
	watched := tab.Watched(pid)
	if _, ended := tab.Ended(pid); !watched && !ended {
		return errors.New("a peer is not watched")
	}
	for {
		if cause, ended := tab.Ended(pid); ended {
			fmt.Println(cause)
			return j.Finalize(ctx)
		}
		runtime.Gosched()
	}
}

func TestExits(t *testing.T) {
	if !mayHook(t) {
		return
	}
	s := ranks(t, "exits", 3)
	s.Env = append(s.Env, exits.Env+"=4,5,6") // of a launcher above: not these ranks'
	s.Exits = openHook
	_, out, _ := run(t, s)
	require.Equal(t, "killed by SIGKILL\nkilled by SIGKILL\n", out)
}

// The descriptors' numbers stand once in the environment, and mean nothing to
// ranks that another launcher starts.
func TestExitsVariable(t *testing.T) {
	s := script(1, "env | grep ^"+exits.Env+"= || echo none")
	s.Env = append(s.Env, exits.Env+"=4,5,6")
	_, out, _ := run(t, s)
	require.Equal(t, "none\n", out)
	s.Env = append(s.Env, exits.Env+"=@some-agent")
	_, out, _ = run(t, s)
	require.Equal(t, exits.Env+"=@some-agent\n", out)
	if mayHook(t) {
		s.Exits = openHook
		_, out, _ = run(t, s)
		require.Regexp(t, "^"+exits.Env+"=4,5,6(,7(,8)?)?\n$", out)
	}
}

// A rank that a script has started is not the process that was registered, and gets an error.
func TestExitsBehindAScript(t *testing.T) {
	t.Parallel()
	if !mayHook(t) {
		return
	}
	s := ranks(t, "exits", 1)
	s.Argv = []string{"sh", "-c", s.Argv[0] + "; true"}
	s.Exits = openHook
	_, _, errs := run(t, s)
	require.Contains(t, errs, "was not registered by the launcher")
}

func TestExitsRefused(t *testing.T) {
	s := script(1, "true")
	s.Exits = func() (spawn.Exits, error) { return nil, unix.EPERM }
	_, err := Run(context.Background(), s)
	require.ErrorIs(t, err, unix.EPERM)
}
