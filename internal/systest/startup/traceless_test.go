package startup

import (
	"errors"
	"fmt"
	"os"
	osig "os/signal"
	"runtime"
	"runtime/pprof"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/launch"
	"github.com/banyan-hpc/banyan/internal/nodemem"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// traceless joins, sees the last rank die, finalizes, and looks for leaks: descriptors, mapped
// segments, goroutines.
func traceless() error {
	if err := ranktest.Place(); err != nil {
		return err
	}
	// Resources of Go's runtime appear with the first use, and stay.
	signals := make(chan os.Signal, 1)
	osig.Notify(signals, syscall.SIGUSR1)
	osig.Stop(signals)
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	if err := errors.Join(r.SetDeadline(time.Now()), r.Close(), w.Close()); err != nil {
		return err
	}
	before, goroutines := held(), runtime.NumGoroutine()
	world, err := banyan.Init(banyan.WithAsyncProgress(os.Getenv(ranktest.AsyncEnv) != ""))
	if err != nil {
		return err
	}
	c := world.Comm()
	if c.Rank() == c.Size()-1 {
		if err := c.Barrier(); err != nil {
			return err
		}
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	if err := errors.Join(ranktest.WantFailure("barrier", ranktest.BarrierUntilError(c)),
		world.Finalize()); err != nil {
		return err
	}
	if after := held(); after != before {
		return fmt.Errorf("left behind:\n%s\nbefore:\n%s", after, before)
	}
	patience := time.Now().Add(20 * time.Second) // the last ones are about to return
	for runtime.NumGoroutine() > goroutines {
		if time.Now().After(patience) {
			return errors.Join(errors.New("goroutines are left"), pprof.Lookup("goroutine").WriteTo(os.Stderr, 1))
		}
		runtime.Gosched()
	}
	return nil
}

// held lists this process's descriptors, without the launcher's, and its mapped segments.
func held() string {
	var list strings.Builder
	for fd := range 200 {
		what, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
		launchers := os.Getenv("PMI_FD") == fmt.Sprint(fd) || strings.Contains(what, nodemem.Name)
		if err == nil && !launchers {
			fmt.Fprintln(&list, fd, what)
		}
	}
	maps, _ := os.ReadFile("/proc/self/maps")
	for line := range strings.Lines(string(maps)) {
		if strings.Contains(line, "memfd:") || strings.Contains(line, "bpf") {
			list.WriteString(line)
		}
	}
	return list.String()
}

// Finalize leaves nothing, over every fabric and after a death.
func TestFinalizeLeavesNothing(t *testing.T) {
	for name, env := range map[string][]string{
		"shm": nil, "tcp": {"BANYAN_FABRIC=tcp"},
		"unix, asynchronous": {"BANYAN_FABRIC=unix", ranktest.AsyncEnv + "=1"},
		"both":               {ranktest.Nodes("a;b;a;b"), ranktest.AsyncEnv + "=1"},
	} {
		t.Run(name, func(t *testing.T) {
			res, out := ranktest.Job(t, launch.Continue, 4, "traceless", env...)
			for _, e := range res.Ends {
				require.Equal(t, e.Rank == 3, e.Failed(), "%v\n%s", e, out)
			}
		})
	}
}
