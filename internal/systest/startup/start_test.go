package startup

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/launch"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// interpose has all that this rank asks its launcher for pass through before, which gets each
// line and may return what is to be done once the line is on its way.
func interpose(before func(line string) (after func())) error {
	fd, err := strconv.Atoi(os.Getenv("PMI_FD"))
	if err != nil {
		return err
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := os.Setenv("PMI_FD", strconv.Itoa(fds[0])); err != nil {
		return err
	}
	launcher, self := os.NewFile(uintptr(fd), "launcher"), os.NewFile(uintptr(fds[1]), "self")
	go func() { _, _ = io.Copy(self, launcher) }()
	go func() {
		for r := bufio.NewReader(self); ; {
			line, err := r.ReadString('\n')
			after := before(line)
			if _, werr := io.WriteString(launcher, line); err != nil || werr != nil {
				return
			}
			if after != nil {
				after()
			}
		}
	}()
	return nil
}

// counted joins and leaves, and prints how many values it has asked the
// launcher for.
func counted() error {
	var gets atomic.Int64
	err := interpose(func(line string) func() {
		if strings.HasPrefix(line, "cmd=get ") {
			gets.Add(1)
		}
		return nil
	})
	if err != nil {
		return err
	}
	w, err := banyan.Init()
	if err != nil {
		return err
	}
	err = w.Finalize()
	fmt.Println(gets.Load())
	return err
}

// What the ranks of a job ask the launcher for at the start grows with their
// number, not with its square. Without the detector, which asks for the cards of those
// it exchanges heartbeats with if the start takes long.
func TestStartIsLinear(t *testing.T) {
	const n = 16
	exe, err := os.Executable()
	require.NoError(t, err)
	var out, errs bytes.Buffer
	res, err := launch.Run(t.Context(), launch.Spec{
		N: n, Argv: []string{exe}, Env: append(os.Environ(), ranktest.RoleEnv+"=counted", "BANYAN_DETECT=off"),
		Stdout: &out, Stderr: &errs, OnFailure: launch.Abort,
	})
	require.NoError(t, err)
	require.Zero(t, res.Code, errs.String())
	sum := 0
	for text := range strings.FieldsSeq(out.String()) {
		gets, err := strconv.Atoi(text)
		require.NoError(t, err)
		sum += gets
	}
	require.Len(t, strings.Fields(out.String()), n)
	// Each asks for the mapping and for the first rank's word, the first for n cards.
	require.Equal(t, n+(n-1)+n, sum)
}

// fewFiles starts a rank that may open hardly more files than it has open.
func fewFiles() error {
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	limit.Cur = uint64(len(open) + 9)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	_, err = banyan.Init()
	return err
}

// A rank that may not open a file for each peer that even a barrier takes says so at once.
func TestTooFewFiles(t *testing.T) {
	const n = 16
	res, out := ranktest.Job(t, launch.Continue, n, "few files")
	for _, e := range res.Ends {
		require.True(t, e.Failed(), out)
	}
	require.Equal(t, n, strings.Count(out, "a rank of 16 needs at least"), out)
	require.Contains(t, out, "raise the limit (ulimit -n)")
}
