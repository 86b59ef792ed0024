package main

import (
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/bench/match"
	"github.com/banyan-hpc/banyan/bench/osu"
	"github.com/banyan-hpc/banyan/bench/peers"
	"github.com/banyan-hpc/banyan/internal/affinity"
)

// rankCmd is one of the two Banyan ranks of a comparison.
type rankCmd struct {
	Aware      bool   `default:"true" negatable:""`
	Roomy      bool   `help:"Keep any number of unexpected messages."`
	Registered bool   `help:"Send from registered memory."`
	Dir        string `arg:"" help:"Where the FIFOs are."`
	CPU0       int    `arg:"" name:"cpu0" help:"Where rank 0 must run."`
	CPU1       int    `arg:"" name:"cpu1" help:"Where rank 1 must run."`
}

// Run takes samples until the driver has ended.
func (c *rankCmd) Run() error {
	var opts []banyan.Option
	if c.Roomy {
		opts = append(opts, banyan.WithUnexpectedLimit(unexpectedRoom))
	}
	return inJob(c.Aware, func(w *banyan.World) error {
		rank := w.Comm().Rank()
		p, err := newPairs(w, c.Registered)
		if err != nil {
			return err
		}
		if err := onCPU([]int{c.CPU0, c.CPU1}[rank]); err != nil {
			return err
		}
		return peers.Serve(c.Dir, rank, fmt.Sprintf("Banyan, aware %t", c.Aware), func(j peers.Job) (time.Duration, error) {
			return p.run(j)
		}, portAnswers(w))
	}, opts...)
}

// pairs are this rank's side of all that is measured on command.
type pairs struct {
	world  *banyan.World
	osu    *osu.Pair
	match  *match.Pair
	remote *osu.Remote // nil before the first job on memory
}

func newPairs(w *banyan.World, registered bool) (pairs, error) {
	o, err := osu.NewPair(w, peers.MaxSize, peers.MaxWindow, registered)
	if err != nil {
		return pairs{}, err
	}
	m, err := match.NewPair(w, peers.MaxEntries)
	return pairs{world: w, osu: o, match: m}, err
}

// run does one job.
func (p *pairs) run(j peers.Job) (time.Duration, error) {
	if series, ok := matchSeries[j.Test]; ok {
		return p.match.Measure(series, j.Size, j.Warmup, j.Iters)
	}
	if name, ok := remoteBenchmarks[j.Test]; ok {
		return p.operate(func(r *osu.Remote) (time.Duration, error) {
			return r.Measure(name, j.Size, j.Window, j.Warmup, j.Iters)
		})
	}
	if j.Test == peers.PutPingPong {
		return p.operate(func(r *osu.Remote) (time.Duration, error) { return r.PingPong(j.Warmup, j.Iters) })
	}
	if kind, ok := locks[j.Test]; ok {
		return p.operate(func(r *osu.Remote) (time.Duration, error) { return r.Locks(kind, j.Warmup, j.Iters) })
	}
	if _, err := p.transfer(j, j.Warmup); err != nil {
		return 0, err
	}
	return p.transfer(j, j.Iters)
}

// matchSeries are the names of tests in bench/match.
var matchSeries = map[peers.Test]string{peers.Posted: match.Posted, peers.Unexpected: match.Unexpected}

// remoteBenchmarks are the names of tests in bench/osu.
var remoteBenchmarks = map[peers.Test]string{peers.Put: "put_latency", peers.Get: "get_latency",
	peers.FetchAdd: "fop_latency", peers.PutBandwidth: "put_bw"}

// locks are the kinds of the tests of locks.
var locks = map[peers.Test]banyan.LockKind{peers.LockShared: banyan.LockShared, peers.LockExclusive: banyan.LockExclusive}

// operate does a job on the other rank's memory. Both ranks make the window when the first one comes.
func (p *pairs) operate(job func(*osu.Remote) (time.Duration, error)) (d time.Duration, err error) {
	if p.remote == nil {
		if p.remote, err = osu.NewRemote(p.world, peers.WindowBytes, 1); err != nil {
			return 0, err
		}
	}
	return job(p.remote)
}

// transfer does n iterations of a job that moves messages.
func (p *pairs) transfer(j peers.Job, n int) (time.Duration, error) {
	if j.Test == peers.Latency {
		return p.osu.Latency(j.Size, n)
	}
	return p.osu.Bandwidth(j.Size, j.Window, n)
}

// onCPU fails when this process does not run on this CPU alone: a comparison of
// processes that are placed differently compares placements.
func onCPU(cpu int) error {
	allowed, err := affinity.Allowed()
	if err != nil {
		return err
	}
	if !slices.Equal(allowed, []int{cpu}) {
		return fmt.Errorf("this rank runs on CPUs %v and should on %d: start it with ftbench run --bind core", allowed, cpu)
	}
	return nil
}

// controlCmd is one of the two processes of the control.
type controlCmd struct {
	Dir  string `arg:"" help:"Where the FIFOs are."`
	Side int    `arg:"" help:"0 or 1."`
}

// Run takes samples until the driver has ended.
func (c *controlCmd) Run() error { return peers.ServeControl(c.Dir, c.Side) }

// joinCmd is one rank of a job that starts, meets and ends.
type joinCmd struct {
	File string `arg:"" help:"File in which each rank reports that it has passed the barrier."`
}

func (c *joinCmd) Run() error {
	return inJob(true, func(w *banyan.World) error {
		if err := w.Comm().Barrier(); err != nil {
			return err
		}
		return peers.Pass(c.File)
	})
}

// selfPath is this binary.
func selfPath() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("cannot find this program: %w", err)
	}
	return self, nil
}
