package peers

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/internal/release"
)

// One control is the fastest of controlBursts bursts of controlTrips round trips: about 6 ms in the
// machine with near cores and 35 ms with far ones. Any disturbance of a burst, by the kernel or by
// the relative phase of the two loops (a quarter of the time of a trip), makes it slower; the
// fastest shows the distance of the two cores.
const (
	controlBursts = 25
	controlTrips  = 2000
)

// spinMax is how often a side of the control looks at the other's line before it reads the clock:
// some milliseconds.
const spinMax = 1 << 22

// Control is a cache-line ping-pong between two pinned processes, in two ways.
//
// [Control.Measure] spins with PAUSE and takes the fastest of many bursts: on the project's machine
// 0.031 to 0.034 µs with near cores. [Bare], as a job of [Control.Run], is a load, a compare and
// nothing else; it takes between 0.05 and 0.1 µs from one moment to the next without anything else
// having changed, for spinning loads delay the other side's store. So the first one shows whether
// the machine has changed, and the second one is the bare ping-pong of the bounds.
type Control struct{ server *Server }

// StartControl starts the two processes. argv returns the command that calls [ServeControl] with
// the directory and the rank.
func StartControl(ctx context.Context, cpus [2]int, argv func(dir string, rank int) []string) (*Control, error) {
	s, err := Start(ctx, "ping-pong", func(dir string) []Command {
		return []Command{{Argv: argv(dir, 0), CPU: cpus[0]}, {Argv: argv(dir, 1), CPU: cpus[1]}}
	})
	if err != nil {
		return nil, err
	}
	return &Control{s}, nil
}

// Measure returns the time of a line one way, in seconds.
func (c *Control) Measure(ctx context.Context) (float64, error) {
	j := Job{Test: Latency, Size: 8, Window: 1, Warmup: controlTrips / 20, Iters: controlTrips}
	fastest := time.Duration(math.MaxInt64)
	for range controlBursts {
		d, err := c.server.Run(ctx, j)
		if err != nil {
			return 0, err
		}
		fastest = min(fastest, d)
	}
	return fastest.Seconds() / j.Messages(), nil
}

// Run does a job of test [Latency] or [Bare]; its size is without meaning.
func (c *Control) Run(ctx context.Context, j Job) (time.Duration, error) { return c.server.Run(ctx, j) }

// errSilent ends a side whose other side has ended.
var errSilent = errors.New("peers: the other side of the control does not answer")

// Close ends the processes.
func (c *Control) Close() error { return c.server.Close() }

// ServeControl is one side of the control; it runs until the driver has ended.
func ServeControl(dir string, rank int) error {
	if rank != 0 && rank != 1 {
		return fmt.Errorf("peers: rank %d: the control has ranks 0 and 1", rank)
	}
	lines, err := mapLines(filepath.Join(dir, "lines"))
	if err != nil {
		return err
	}
	side := controlSide{mine: &lines.of[rank].seq, theirs: &lines.of[1-rank].seq, first: rank == 0}
	return Serve(dir, rank, "cache-line ping-pong, pinned "+strconv.FormatBool(pinned()), side.run, nil)
}

// pinned reports whether this process may run on one CPU only.
func pinned() bool {
	var set unix.CPUSet
	return unix.SchedGetaffinity(0, &set) == nil && set.Count() == 1
}

// controlSide is one process's state of the control.
type controlSide struct {
	mine, theirs *uint64 // in shared memory: mine has one writer, this process
	first        bool
	seq          uint64 // of the last round trip
}

// run does one job: the numbers go back and forth, one line each way.
func (s *controlSide) run(j Job) (time.Duration, error) {
	trips := s.trips
	if j.Test == Bare {
		trips = s.bareTrips
	}
	if err := trips(j.Warmup); err != nil {
		return 0, err
	}
	start := time.Now()
	if err := trips(j.Iters); err != nil {
		return 0, err
	}
	return time.Since(start), nil
}

// trips is the loop of the control.
func (s *controlSide) trips(n int) error {
	mine, theirs, seq, first := s.mine, s.theirs, s.seq, s.first
	for range n {
		seq++
		if first {
			release.Store64(mine, seq)
		}
		if !spinPause(theirs, seq, spinMax) && !comes(theirs, seq) {
			return errSilent
		}
		if !first {
			release.Store64(mine, seq)
		}
	}
	s.seq = seq
	return nil
}

// bareTrips is the loop of facts: a load, a compare, a store.
func (s *controlSide) bareTrips(n int) error {
	mine, theirs, seq, first := s.mine, s.theirs, s.seq, s.first
	for range n {
		seq++
		if first {
			release.Store64(mine, seq)
		}
		for spins := 0; atomic.LoadUint64(theirs) != seq; spins++ {
			if spins == spinMax && !comes(theirs, seq) {
				return errSilent
			}
		}
		if !first {
			release.Store64(mine, seq)
		}
	}
	s.seq = seq
	return nil
}

// comes waits longer for the number, with a look at the clock.
func comes(theirs *uint64, seq uint64) bool {
	for end := time.Now().Add(sampleMax); time.Now().Before(end); {
		if atomic.LoadUint64(theirs) == seq {
			return true
		}
	}
	return false
}

// mapLines maps the file that both sides share.
func mapLines(path string) (*lines, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("peers: %w", err)
	}
	defer f.Close()
	if err := f.Truncate(int64(linesSize)); err != nil {
		return nil, fmt.Errorf("peers: %w", err)
	}
	m, err := unix.Mmap(int(f.Fd()), 0, linesSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("peers: map %s: %w", path, err)
	}
	return linesAt(m), nil
}
