package rankstest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/bench/ranks"
	"github.com/banyan-hpc/banyan/internal/launch"
)

// role is the variable that makes a process a rank.
const role = "BANYAN_TEST_ROLE"

// Main is a TestMain: it runs the tests (m.Run), or does what a rank of Job is to do, after a line that harnesses do not look for.
func Main(tests func() int, rank func(role string, w *banyan.World) error) {
	as, is := os.LookupEnv(role)
	if !is {
		os.Setenv("BANYAN_TUNING", "none") // the tests are of the harness, not of this machine's settings
		os.Exit(tests())
	}
	if err := be(as, rank); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
}

func be(as string, rank func(role string, w *banyan.World) error) error {
	w, err := banyan.Init()
	if err != nil {
		return err
	}
	fmt.Println("some rank says hello")
	if err := rank(as, w); err != nil {
		return err
	}
	return w.Finalize()
}

// Job starts ranks with a role. Those that may fail must, by SIGKILL, and no others.
func Job(as string) ranks.Start {
	return func(ctx context.Context, n int, may func(rank int) bool, out io.Writer) error {
		exe, err := os.Executable()
		if err != nil {
			return err
		}
		var errs bytes.Buffer
		result, err := launch.Run(ctx, launch.Spec{N: n, Argv: []string{exe}, Env: append(os.Environ(), role+"="+as), Stdout: out, Stderr: &errs})
		if err != nil {
			return err
		}
		for rank, end := range result.Ends {
			if end.Failed() != may(rank) || may(rank) && end.Signal != unix.SIGKILL {
				return fmt.Errorf("rank %d %v\n%s", rank, end, errs.Bytes())
			}
		}
		return nil
	}
}
