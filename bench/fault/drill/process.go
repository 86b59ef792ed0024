package drill

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// process is the host of a rank that is a process.
type process struct{}

// die implements host. With 0 the process ends before die returns.
func (process) die(after time.Duration) {
	kill := func() { _ = unix.Kill(os.Getpid(), unix.SIGKILL) } // cannot fail
	if after == 0 {
		kill()
	}
	start := time.Now()
	go func() {
		for time.Since(start) < after {
			runtime.Gosched()
		}
		kill()
	}()
}

// deadline implements host.
func (process) deadline(parent context.Context, after time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(parent, after)
}

// answer prints, on SIGUSR1, the operation in which this rank waits.
func (r *rank) answer() (stop func()) {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	go func() {
		for range asked {
			fmt.Fprintf(os.Stderr, "drill: rank %d waits in operation %d: %s\n", r.me, r.ops, *r.doing.Load())
		}
	}()
	return func() { signal.Stop(asked); close(asked) }
}
