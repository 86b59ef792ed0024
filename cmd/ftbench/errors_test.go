package main

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan"
)

// uncheckedEnv makes the test binary be a rank that looks at no error.
const uncheckedEnv = "BANYAN_TEST_UNCHECKED"

// unchecked has rank 1 die and rank 0 wait for it.
func unchecked() error {
	w, err := banyan.Init()
	if err != nil {
		return err
	}
	c := w.Comm()
	if c.Rank() == 1 {
		return unix.Kill(os.Getpid(), unix.SIGKILL)
	}
	_, err = c.Recv(nil, 1, 1)
	if _, err := fmt.Println("it goes on after:", err); err != nil {
		return err
	}
	return w.Finalize()
}

// A job of ranks that ignore errors ends at the first, and ftbench run reports that.
func TestRunErrorsFatal(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	t.Setenv(uncheckedEnv, "1")
	t.Setenv("BANYAN_ERRORS", "fatal")
	code, out, errs := ftbench(t, "run", "-n", "2", "--on-failure", "continue", "--", self)
	require.NotZero(t, code, errs) // of the first rank that failed
	require.Empty(t, out)
	require.Contains(t, errs, "banyan: rank 0 aborts the job: errors are fatal: Recv(src 1, tag 1) on world "+
		"at rank 0: rank 1 has failed: ")
	require.Contains(t, errs, "banyan: rank 0 ends the job with code 1: ")

	t.Setenv("BANYAN_ERRORS", "return")
	code, out, errs = ftbench(t, "run", "-n", "2", "--on-failure", "continue", "--", self)
	require.Contains(t, out, "it goes on after: banyan: Recv(src 1, tag 1) on world at rank 0: rank 1 has failed: ", errs)
	require.NotContains(t, errs, "errors are fatal")
	require.Equal(t, 128+int(unix.SIGKILL), code, errs)

	t.Setenv("BANYAN_ERRORS", "ignore")
	_, _, errs = ftbench(t, "run", "-n", "1", "--", self)
	require.Contains(t, errs, "BANYAN_ERRORS=ignore: errors = ignore: return or fatal is possible")
}
