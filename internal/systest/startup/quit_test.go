package startup

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/launch"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// hangEnv names the operation in which rank 0 hangs.
const hangEnv = "BANYAN_TEST_HANG"

// hangs sends itself SIGQUIT as rank 0 once it waits for rank 1, which takes no part.
func hangs() error {
	where := os.Getenv(hangEnv)
	first := os.Getenv("PMI_RANK") == "0"
	if where == "init" {
		if !first {
			rest()
		}
		go quitIn("join.")
	}
	w, err := banyan.Init()
	if err != nil {
		return err
	}
	if !first {
		rest()
	}
	c := w.Comm()
	buf := make([]byte, 8)
	if where != "irecv" {
		go quitIn(map[string]string{"finalize": "fenceOr"}[where], "Engine).Wait(")
	}
	switch where {
	case "recv":
		_, err = c.Recv(buf, 1, 7)
	case "send":
		err = c.Send(make([]byte, 8<<20), 1, 3)
	case "barrier":
		err = c.Barrier()
	case "irecv":
		for tag := range 102 {
			c.Irecv(buf, banyan.AnySource, tag)
		}
		if err = syscall.Kill(os.Getpid(), syscall.SIGQUIT); err == nil {
			rest()
		}
	case "finalize":
		err = w.Finalize()
	}
	return fmt.Errorf("%s has not hung: %w", where, err)
}

// rest returns never: the launcher ends the process.
func rest() {
	for {
		_ = syscall.Pause() // until a signal
	}
}

// quitIn sends this process SIGQUIT once a goroutine other than this one is in functions with these
// names.
func quitIn(names ...string) {
	stacks := make([]byte, 1<<20)
	for {
		all := string(stacks[:runtime.Stack(stacks, true)])
		found := 0
		for _, name := range names {
			if strings.Contains(all, name) {
				found++
			}
		}
		if found == len(names) {
			_ = syscall.Kill(os.Getpid(), syscall.SIGQUIT) // cannot fail
			return
		}
		runtime.Gosched()
	}
}

// A rank that gets SIGQUIT prints its pending operations, before the stacks of the Go runtime.
func TestQuitShowsWaits(t *testing.T) {
	const slept = `( for \S+)?\n`
	for where, want := range map[string]string{
		"init":     `banyan: (rank 0: )?Init, waiting for ranks that have not called it\n`,
		"recv":     `banyan: rank 0: Recv\(src 1, tag 7\) on world` + slept,
		"send":     `banyan: rank 0: Send\(dst 1, tag 3, 8388608 bytes\) on world` + slept,
		"irecv":    `(banyan: rank 0: Recv\(src any, tag \d+\) on world\n){100}banyan: rank 0: and 2 more\n`,
		"barrier":  `banyan: rank 0: Barrier on world, waiting for rank 1` + slept,
		"finalize": `banyan: rank 0: Finalize, waiting for ranks that have not called it\n`,
	} {
		res, out := ranktest.Job(t, launch.Abort, 2, "hangs", hangEnv+"="+where)
		require.Regexp(t, `(?s)^`+want+`.*SIGQUIT: quit\n.*\ngoroutine `, out, where)
		require.Equal(t, 2, res.Ends[0].Code, "%s: %s", where, out)
	}
}
