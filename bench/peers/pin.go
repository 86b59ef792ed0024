package peers

import (
	"errors"
	"os/exec"
	"runtime"

	"github.com/banyan-hpc/banyan/internal/affinity"
)

// CPUs returns the two CPUs on which pairs are pinned: the first two allowed ones on different
// cores, in the order in which `ftbench run --bind core` hands them out.
func CPUs() ([2]int, error) {
	allowed, err := affinity.Allowed()
	if err != nil {
		return [2]int{}, err
	}
	if len(allowed) < 2 {
		return [2]int{}, errors.New("peers: a comparison needs two CPUs and this process may use one: run it where " +
			"taskset and the control group allow two")
	}
	order := affinity.Spread(allowed)
	return [2]int{order[0], order[1]}, nil
}

// startPinned starts p on one CPU: a child inherits the affinity of the thread that forks it, with
// all the threads it will have. The thread is thrown away.
func startPinned(p *exec.Cmd, cpu int) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if err := affinity.Pin(cpu); err != nil {
			done <- err
			return
		}
		done <- p.Start()
	}()
	return <-done
}
