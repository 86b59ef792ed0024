package control

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/ft/detect"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
)

const (
	millisecond = fabric.Time(1_000_000)
	second      = 1000 * millisecond
)

// detectorJob is a job of detectors over simulated processes, with its faults and its results.
type detectorJob struct {
	n      int
	seed   uint64
	rule   detect.Rule
	until  fabric.Time   // when the processes finalize
	leave  []fabric.Time // the same for each process
	faults func(*sim.Sim) error
	// busy processes make no call between their beginning and end.
	busy      func(id proc.ID) bool
	works     fabric.Time          // the time of a job of process 0
	brief     bool                 // periods are short, and there is always something to do
	node      func(id proc.ID) int // nil: each process has a machine of its own
	postponed bool                 // ends are postponed, and each process computes when it has learned of the first
	// found is a process that 0 finds to have ended, right before it declares Finalizing; 0: none.
	found      proc.ID
	finalizing []bool // whether it had when the postponed end was reported

	known [][]proc.ID               // failures that each process knew at its end; nil: it did not get there
	when  []map[proc.ID]fabric.Time // when it learned of each
	ended []error                   // why each ended itself
	met   [][]fabric.Time           // when each made its connections
}

// run runs the job to its end.
func (x *detectorJob) run() error {
	x.known, x.ended = make([][]proc.ID, x.n), make([]error, x.n)
	x.when, x.met = make([]map[proc.ID]fabric.Time, x.n), make([][]fabric.Time, x.n)
	cfg := sim.DefaultConfig(x.n)
	cfg.Seed = x.seed
	cfg.Topology.ProcsPerNode = 1
	s, err := sim.New(cfg)
	if err != nil {
		return err
	}
	for id := range proc.ID(x.n) {
		if err := s.Spawn(id, func(p *sim.Proc) { x.body(p) }); err != nil {
			return err
		}
	}
	if x.faults != nil {
		if err := x.faults(s); err != nil {
			return err
		}
	}
	return s.Run()
}

func (x *detectorJob) body(p *sim.Proc) {
	e := progress.New(progress.Config{
		Self: p.ID(), Host: p.Host(), Others: []fabric.Provider{p.Provider()},
		Resolve: func(_ string, peer proc.ID) ([]byte, error) { return sim.Address(peer), nil },
		Routed: func(ep *progress.Endpoint) {
			if !ep.Accepted {
				x.met[p.ID()] = append(x.met[p.ID()], p.Host().Now())
			}
		},
	})
	x.when[p.ID()] = make(map[proc.ID]fabric.Time)
	var done progress.Completion
	e.OnEnd(func(ep *progress.Endpoint, cause proc.Cause) {
		if cause.Failed() {
			x.when[p.ID()][ep.Proc] = p.Host().Now()
		}
	})
	if x.postponed {
		e.PostponeEnds()
		e.OnEnd(func(*progress.Endpoint, proc.Cause) { done.Finish() })
	}
	driver := Start(Config{
		Engine: e,
		Detect: x.detector(p, e),
		Die: func(why error) {
			x.ended[p.ID()] = why
			p.Die(proc.Cause{Kind: proc.Exited, Code: 71})
		},
	})
	if p.ID() == 0 && x.found != 0 {
		e.OnEndLater(func(*progress.Endpoint, proc.Cause) { x.finalizing = append(x.finalizing, driver.finalizing) })
		e.Lock()
		e.Report(x.found, proc.Cause{Kind: proc.Unknown})
		e.Unlock()
		driver.Finalizing()
	}
	until := x.until
	if x.leave != nil {
		until = x.leave[p.ID()]
	}
	if x.busy != nil && x.busy(p.ID()) {
		p.Host().Pause(until)
	} else {
		e.Lock()
		x.submit(p, e)
		e.After(until, done.Finish)
		e.Wait(&done)
		e.Unlock()
		p.Host().Pause(max(0, until-p.Host().Now()))
	}
	driver.Stop()
	e.Lock()
	x.known[p.ID()] = slices.AppendSeq([]proc.ID{}, e.View().Set().All())
	e.Unlock()
	e.Depart()
	if err := e.Close(); err != nil {
		panic(err)
	}
}

func (x *detectorJob) detector(p *sim.Proc, e *progress.Engine) detect.Config {
	c := detect.Config{Self: p.ID(), Procs: x.n, Period: DefaultPeriod, Timeout: DefaultTimeout,
		Seed: x.seed, Partition: x.rule, Node: x.node}
	if x.brief {
		c.Period, c.Timeout = 10*millisecond, 60*millisecond
		e.OnStall(func() int { p.Host().Pause(millisecond / 10); return 1 })
	}
	return c
}

// submit has process 0 do its job.
func (x *detectorJob) submit(p *sim.Proc, e *progress.Engine) {
	if p.ID() == 0 && x.works > 0 {
		e.Submit(&progress.Job{Run: func(*progress.Job) { p.Host().Pause(x.works) }, Done: func(*progress.Job) {}})
	}
}

// check compares the survivors' knowledge with the failures.
func (x *detectorJob) check(victims []proc.ID) error {
	slices.Sort(victims)
	var errs []error
	for id := range proc.ID(x.n) {
		switch {
		case slices.Contains(victims, id):
		case x.ended[id] != nil:
			errs = append(errs, fmt.Errorf("process %d ended itself: %w", id, x.ended[id]))
		case !slices.Equal(x.known[id], victims):
			errs = append(errs, fmt.Errorf("process %d knows of the deaths %v, not %v", id, x.known[id], victims))
		}
	}
	return errors.Join(errs...)
}

// seeds is the number of schedules, n in the long form.
func seeds(n uint64) uint64 {
	if testing.Short() {
		n /= 10
	}
	return n
}

// some draws k of n processes.
func some(r *rand.Rand, n, k int) []proc.ID {
	var ids []proc.ID
	for _, i := range r.Perm(n)[:k] {
		ids = append(ids, proc.ID(i))
	}
	return ids
}

// A job without failures has none reported, whether its processes make calls or not, and while one of them works
// without the lock.
func TestNoFalseFailure(t *testing.T) {
	for n := 2; n <= 17; n++ {
		for _, busy := range []bool{false, true} {
			for _, works := range []fabric.Time{0, 8 * second} {
				x := detectorJob{n: n, seed: uint64(n), until: 10 * second, works: works,
					busy: func(id proc.ID) bool { return busy && (id%2 == 0) == (works == 0) }}
				require.NoError(t, x.run())
				require.NoError(t, x.check(nil), "%d processes, a job of %d s", n, works/second)
			}
		}
	}
}

// Every survivor is notified of every failure, with any connections: with kills at any time,
// also of the processes that forward.
func TestFailuresReachAll(t *testing.T) {
	for seed := range seeds(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		n := 2 + r.IntN(20)
		victims := some(r, n, 1+r.IntN(n-1))
		x := detectorJob{n: n, seed: seed, rule: detect.Rule(seed % 2), until: 20 * second,
			busy: func(id proc.ID) bool { return uint64(id)%3 == seed%3 }}
		if machines := 1 + int(seed%5); machines < 5 {
			x.node = func(id proc.ID) int { return int(id) % machines }
		}
		x.faults = func(s *sim.Sim) error {
			var errs []error
			close := 3 * second
			if seed%4 == 0 {
				close = millisecond // all at about the same time
			}
			for _, id := range victims {
				errs = append(errs, s.Kill(id, fabric.Time(r.Int64N(int64(close)))))
			}
			return errors.Join(errs...)
		}
		require.NoError(t, x.run(), "seed %d", seed)
		require.NoError(t, x.check(victims), "seed %d, %d processes", seed, n)
	}
}

// A silent process is found in time although periods are short and the others always have something to do.
func TestSilenceAmidFrames(t *testing.T) {
	for seed := range seeds(10) {
		x := detectorJob{n: 3, seed: seed, until: second, brief: true, busy: func(proc.ID) bool { return true }}
		x.faults = func(s *sim.Sim) error {
			return s.Partition(sim.Partition{A: []proc.ID{2}, B: []proc.ID{0, 1}, From: 100 * millisecond, To: 10 * second})
		}
		require.NoError(t, x.run(), "seed %d", seed)
		require.NoError(t, x.check([]proc.ID{2}), "seed %d", seed)
		for _, when := range x.when[:2] {
			require.Less(t, when[2], 180*millisecond, "seed %d: long after the timeout", seed)
		}
	}
}

// A cut that is mended before the timeout is no failure.
func TestCutThatHeals(t *testing.T) {
	for seed := range seeds(200) {
		r := rand.New(rand.NewPCG(seed, 2))
		n := 2 + r.IntN(12)
		side := some(r, n, 1+r.IntN(n-1))
		x := detectorJob{n: n, seed: seed, until: 10 * second}
		x.faults = func(s *sim.Sim) error {
			from := second + fabric.Time(r.Int64N(int64(second)))
			return s.Partition(sim.Partition{A: side, B: others(n, side), From: from,
				To: from + (DefaultTimeout-2*DefaultPeriod)/2, OneWay: seed%2 == 0})
		}
		require.NoError(t, x.run(), "seed %d", seed)
		require.NoError(t, x.check(nil), "seed %d, %d processes", seed, n)
	}
}

func others(n int, side []proc.ID) []proc.ID {
	var rest []proc.ID
	for id := range proc.ID(n) {
		if !slices.Contains(side, id) {
			rest = append(rest, id)
		}
	}
	return rest
}

// Of two sides of a partition the larger continues and counts the other as failed; the processes of
// the smaller end themselves. Of two halves the one with the lowest id continues.
func TestPartition(t *testing.T) {
	var slowest fabric.Time
	for seed := range seeds(200) {
		r := rand.New(rand.NewPCG(seed, 3))
		n := 3 + r.IntN(12)
		small := some(r, n, 1+r.IntN(n/2))
		large := others(n, small)
		if len(small) == len(large) && slices.Contains(small, 0) {
			small, large = large, small
		}
		const cut = 2 * second
		x := detectorJob{n: n, seed: seed, until: 25 * second}
		x.faults = func(s *sim.Sim) error {
			return s.Partition(sim.Partition{A: small, B: large, From: cut, To: fabric.Forever})
		}
		require.NoError(t, x.run(), "seed %d", seed)
		require.NoError(t, x.check(small), "seed %d, %d processes, %v cut off", seed, n, small)
		for _, id := range small {
			var why *detect.EndError
			require.ErrorAs(t, x.ended[id], &why, "seed %d: process %d", seed, id)
			require.True(t, why.Partition, "seed %d", seed)
		}
		for _, id := range large {
			for _, at := range x.when[id] {
				slowest = max(slowest, at-cut)
			}
		}
	}
	t.Logf("known everywhere %v ms after the cut at the latest", slowest/millisecond)
}

// A process that is silent from its first moment, before its observers are connected to it, is
// found as soon as any other.
func TestSilentFromTheStart(t *testing.T) {
	for seed := range seeds(100) {
		r := rand.New(rand.NewPCG(seed, 6))
		n := 3 + r.IntN(15)
		silent := some(r, n, 1)
		from := fabric.Time(r.Int64N(int64(200 * millisecond)))
		x := detectorJob{n: n, seed: seed, until: 10 * second, busy: func(id proc.ID) bool { return seed%2 == 0 }}
		x.faults = func(s *sim.Sim) error {
			return s.Partition(sim.Partition{A: silent, B: others(n, silent), From: from, To: fabric.Forever})
		}
		require.NoError(t, x.run(), "seed %d", seed)
		require.NoError(t, x.check(silent), "seed %d, %d processes", seed, n)
		for _, id := range others(n, silent) {
			require.LessOrEqual(t, x.when[id][silent[0]], from+DefaultTimeout+2*DefaultPeriod,
				"seed %d: process %d of %d", seed, id, n)
		}
	}
}

// Without the rule both sides continue, and each counts the other as failed.
func TestPartitionWithoutRule(t *testing.T) {
	x := detectorJob{n: 7, rule: detect.Off, until: 15 * second}
	side := []proc.ID{1, 4, 5}
	x.faults = func(s *sim.Sim) error {
		return s.Partition(sim.Partition{A: side, B: others(7, side), From: second, To: fabric.Forever})
	}
	require.NoError(t, x.run())
	for id := range proc.ID(7) {
		require.NoError(t, x.ended[id])
		want := side
		if slices.Contains(side, id) {
			want = others(7, side)
		}
		require.Equal(t, want, x.known[id], "process %d", id)
	}
}

// A partition that heals too late: condemned processes are notified and end themselves, and no
// process continues that counts as failed elsewhere.
func TestCutThatHealsTooLate(t *testing.T) {
	ended := 0
	for seed := range seeds(200) {
		r := rand.New(rand.NewPCG(seed, 4))
		n := 3 + r.IntN(10)
		small := some(r, n, 1+r.IntN((n-1)/2))
		x := detectorJob{n: n, seed: seed, until: 20 * second}
		x.faults = func(s *sim.Sim) error {
			from := second + fabric.Time(r.Int64N(int64(second)))
			length := fabric.Time(r.Int64N(int64(2 * DefaultTimeout)))
			return s.Partition(sim.Partition{A: small, B: others(n, small), From: from, To: from + length,
				OneWay: seed%2 == 0})
		}
		require.NoError(t, x.run(), "seed %d", seed)
		var victims []proc.ID
		for id := range proc.ID(n) {
			if x.ended[id] != nil {
				victims = append(victims, id)
			}
		}
		require.NoError(t, x.check(victims), "seed %d, %d processes, %v cut off", seed, n, small)
		require.Less(t, len(victims), n, "seed %d", seed)
		ended += len(victims)
	}
	require.NotZero(t, ended, "no cut was long enough")
}
