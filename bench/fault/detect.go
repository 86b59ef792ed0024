package fault

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Start starts a job of so many ranks of which each calls [Rank], gives the ranks'
// standard output to out by whole lines, and returns when all have ended, with an error
// if a rank failed that was not among the last kills. When ctx ends it ends the job.
type Start func(ctx context.Context, ranks, kills int, out io.Writer) error

// Round is one death.
type Round struct {
	// Survivors are the times from the kill to each survivor's error, by rank, ns.
	Survivors []time.Duration `json:"survivors_ns"`
}

// Last is the time until the last survivor knew.
func (r Round) Last() time.Duration { return slices.Max(r.Survivors) }

// Watch is told how a measurement goes on; either function may be nil.
type Watch struct {
	// Round is called after every round.
	Round func(Round)
	// Waiting says what is waited for, in words for people; "": nothing.
	Waiting func(text string)
}

func (w Watch) round(r Round) {
	if w.Round != nil {
		w.Round(r)
	}
}

func (w Watch) waiting(format string, args ...any) {
	if w.Waiting != nil {
		w.Waiting(fmt.Sprintf(format, args...))
	}
}

// Detect kills as often as the options say, in as many jobs as that takes, tells
// watch, and gives the percentiles. What ranks print beside their
// reports goes to rest. When ctx ends it ends the job that runs.
func Detect(ctx context.Context, o Options, start Start, rest io.Writer, watch Watch) (*Result, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	var rounds []Round
	for len(rounds) < o.Kills {
		kills := min(o.PerJob, o.Kills-len(rounds))
		more, err := oneJob(ctx, o, kills, start, rest, watch)
		if err != nil {
			return nil, err
		}
		rounds = append(rounds, more...)
	}
	return summary(o, rounds)
}

// oneJob runs a job with so many victims.
func oneJob(ctx context.Context, o Options, kills int, start Start, rest io.Writer, watch Watch) ([]Round, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	processes := o.Processes(kills)
	// Room for everything that the ranks ever say: the launcher never waits for us.
	lines := make(chan line, 2*processes*(kills+1))
	ended := make(chan error, 1)
	go func() {
		ended <- start(ctx, processes, kills, wired(lines, rest))
		close(lines)
	}()
	k := &killer{o: o, limit: o.StartLimit(kills), watch: watch, lines: lines, said: make(map[stage]map[int]line)}
	var rounds []Round
	var err error
	for i := range kills {
		var r Round
		if r, err = k.round(ctx, o.Ranks-1+i); err != nil {
			cancel(err)
			break
		}
		rounds = append(rounds, r)
		watch.round(r)
	}
	jobErr := <-ended
	if errors.Is(err, errJobEnded) && jobErr != nil {
		err = nil // its ranks say why
	}
	if err != nil {
		return nil, err
	}
	return rounds, jobErr
}

// killer is the harness's side of a job.
type killer struct {
	o     Options
	limit time.Duration // for all to be ready
	watch Watch
	lines <-chan line
	said  map[stage]map[int]line // see heard
}

// stage is half of a round.
type stage struct {
	victim  int
	noticed bool
}

var errJobEnded = errors.New("fault: the job ended before its victims")

// round kills one victim when all are ready.
func (k *killer) round(ctx context.Context, victim int) (Round, error) {
	ready, err := k.collect(ctx, victim, k.o.Ranks, false)
	if err != nil {
		return Round{}, err
	}
	settle := k.o.Settle/2 + rand.N(k.o.Settle+1)
	select {
	case <-ctx.Done():
		return Round{}, context.Cause(ctx)
	case <-time.After(settle):
	}
	killed, err := now()
	if err != nil {
		return Round{}, err
	}
	if err := unix.Kill(ready[victim].pid, unix.SIGKILL); err != nil {
		return Round{}, fmt.Errorf("fault detect: kill rank %d, process %d: %w", victim, ready[victim].pid, err)
	}
	noticed, err := k.collect(ctx, victim, k.o.Ranks-1, true)
	if err != nil {
		return Round{}, err
	}
	if err := release(noticed); err != nil {
		return Round{}, err
	}
	r := Round{Survivors: make([]time.Duration, k.o.Ranks-1)}
	for rank, l := range noticed {
		if l.at < killed {
			return Round{}, fmt.Errorf("fault detect: rank %d reported the death of rank %d %v before it was killed: a false failure",
				rank, victim, time.Duration(killed-l.at))
		}
		r.Survivors[rank] = time.Duration(l.at - killed)
	}
	return r, nil
}

// release lets the survivors go on.
func release(noticed map[int]line) error {
	for rank, l := range noticed {
		if err := unix.Kill(l.pid, unix.SIGUSR1); err != nil {
			return fmt.Errorf("fault detect: send rank %d, process %d, on: %w", rank, l.pid, err)
		}
	}
	return nil
}

// collect waits until so many ranks have said that they are ready for a victim's
// death, or have noticed it.
func (k *killer) collect(ctx context.Context, victim, want int, noticed bool) (map[int]line, error) {
	said := k.heard(victim, noticed)
	limit, what := k.limit, "are ready"
	if noticed {
		limit, what = k.o.Timeout, "know of the death"
	}
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	defer k.watch.waiting("")
	for len(said) < want {
		k.watch.waiting("%d of %d ranks %s, %v at most", len(said), want, what, limit)
		select {
		case l, open := <-k.lines:
			if !open {
				return nil, errJobEnded
			}
			k.heard(l.victim, l.at != 0)[l.rank] = l
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-timeout.C:
			return nil, k.silent(victim, said, noticed)
		}
	}
	return said, nil
}

// heard are the lines, by rank, of those who are ready for a victim's death or have
// noticed it. Each rank's lines come in order, those of different ranks do not.
func (k *killer) heard(victim int, noticed bool) map[int]line {
	key := stage{victim, noticed}
	if k.said[key] == nil {
		k.said[key] = make(map[int]line)
	}
	return k.said[key]
}

// silent is the error of ranks that do not speak in time.
func (k *killer) silent(victim int, said map[int]line, noticed bool) error {
	var missing []int
	for rank := range k.o.Ranks - 1 {
		if _, ok := said[rank]; !ok {
			missing = append(missing, rank)
		}
	}
	if !noticed {
		if _, ok := said[victim]; !ok {
			missing = append(missing, victim)
		}
		return fmt.Errorf("fault detect: after %v ranks %s were not ready for the death of rank %d; --start-timeout waits longer", k.limit, some(missing), victim)
	}
	return fmt.Errorf("fault detect: %v after the death of rank %d (wait: %s) %d of %d survivors had not noticed it: ranks %s; --timeout waits longer",
		k.o.Timeout, victim, k.o.Wait, len(missing), k.o.Ranks-1, some(missing))
}

// some names ranks, not all where they are many.
func some(ranks []int) string {
	const most = 16
	if len(ranks) <= most {
		return fmt.Sprint(ranks)
	}
	return fmt.Sprintf("%v and %d more", ranks[:most], len(ranks)-most)
}
