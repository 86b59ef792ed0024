package fault

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"time"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/bench/budget"
)

// Watch receives the progress of a measurement; either function may be nil.
type Watch struct {
	// Round is called after every round.
	Round func(Round)
	// Waiting receives a description of the awaited event, for users; "": none.
	Waiting func(text string)
}

// Measure kills ranks as often as the options demand, in as many jobs as needed, whose ranks call
// [Detection.Rank]. The ranks' other output goes to rest. When ctx ends it ends the running job.
func (o Detection) Measure(ctx context.Context, start Start, rest io.Writer, watch Watch) (*DetectionResult, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	ctx, stop := o.Budget.Context(ctx)
	defer stop()
	var rounds []Round
	var cut *budget.Cut
	for len(rounds) < o.Kills && cut == nil {
		more, err := o.job(ctx, min(o.PerJob, o.Kills-len(rounds)), start, rest, watch)
		rounds = append(rounds, more...)
		if err != nil && budget.Ended(ctx) {
			cut = o.Budget.Cut(len(rounds), o.Kills, "kills")
			err = cut.Nothing()
		}
		if err != nil {
			return nil, err
		}
	}
	return &DetectionResult{Options: o, Cut: cut, Latencies: latencies(rounds)}, nil
}

// job runs a job with so many victims, which have its highest ranks.
func (o Detection) job(ctx context.Context, kills int, start Start, rest io.Writer, watch Watch) (
	rounds []Round, err error,
) {
	j := job{ranks: o.Processes(kills), start: start, rest: rest}
	for i := range kills {
		j.victims = append(j.victims, o.Ranks-1+i)
	}
	err = observe(ctx, j, 2*j.ranks*(kills+1), watch.Waiting, func(ctx context.Context, seen *observer) error {
		for _, victim := range j.victims {
			r, err := o.round(ctx, seen, victim, o.StartLimit(kills))
			if err != nil {
				return err
			}
			rounds = append(rounds, r)
			if watch.Round != nil {
				watch.Round(r)
			}
		}
		return nil
	})
	return rounds, err
}

// round kills one victim when all ranks are ready.
func (o Detection) round(ctx context.Context, seen *observer, victim int, startLimit time.Duration) (
	r Round, err error,
) {
	ready, err := seen.collect(ctx, stage{cause: victim}, o.Ranks, startLimit)
	if errors.Is(err, errTimeout) {
		return r, fmt.Errorf("fault detect: after %v ranks %s were not ready for the death of rank %d; "+
			"--start-timeout waits longer", startLimit, some(o.missing(ready, victim, true)), victim)
	}
	if err != nil {
		return r, err
	}
	if err := pause(ctx, o.Settle/2+rand.N(o.Settle+1)); err != nil {
		return r, err
	}
	killed, err := killQuietly(ready[victim].PID)
	if err != nil {
		return r, fmt.Errorf("fault detect: kill rank %d, process %d: %w", victim, ready[victim].PID, err)
	}
	noticed, err := seen.collect(ctx, stage{victim, true}, o.Ranks-1, o.Timeout+reportTime)
	if err != nil && !errors.Is(err, errTimeout) {
		return r, err
	}
	maps.DeleteFunc(noticed, func(_ int, s sighting) bool { return time.Duration(s.At-killed) > o.Timeout })
	if missing := o.missing(noticed, victim, false); len(missing) > 0 {
		return r, fmt.Errorf("fault detect: %v after the death of rank %d (wait: %s) %d of %d survivors "+
			"had not noticed it: ranks %s; --timeout waits longer", o.Timeout, victim, o.Wait, len(missing), o.Ranks-1, some(missing))
	}
	if err := resume(noticed); err != nil {
		return r, err
	}
	r.Survivors = make([]time.Duration, o.Ranks-1)
	for rank, s := range noticed {
		if s.At < killed {
			return r, fmt.Errorf("fault detect: rank %d reported the death of rank %d %v before it was killed: "+
				"a false failure", rank, victim, time.Duration(killed-s.At))
		}
		r.Survivors[rank] = time.Duration(s.At - killed)
	}
	return r, nil
}

// resume lets the survivors continue.
func resume(noticed map[int]sighting) error {
	for rank, s := range noticed {
		if err := unix.Kill(s.PID, unix.SIGUSR1); err != nil {
			return fmt.Errorf("fault detect: resume rank %d, process %d: %w", rank, s.PID, err)
		}
	}
	return nil
}

// missing are the ranks of a round without a sighting; the victim is one of them before its death.
func (o Detection) missing(got map[int]sighting, victim int, alive bool) (missing []int) {
	for rank := range o.Ranks - 1 {
		if _, ok := got[rank]; !ok {
			missing = append(missing, rank)
		}
	}
	if _, ok := got[victim]; alive && !ok {
		missing = append(missing, victim)
	}
	return missing
}

// some formats ranks, the first 16 where there are more.
func some(ranks []int) string {
	const most = 16
	if len(ranks) <= most {
		return fmt.Sprint(ranks)
	}
	return fmt.Sprintf("%v and %d more", ranks[:most], len(ranks)-most)
}
