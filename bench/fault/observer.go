package fault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// sighting is a rank's report about a failure: that it is ready for it, or when it noticed it.
type sighting struct {
	Rank int `json:"rank"`
	PID  int `json:"pid"`
	// Cause is the rank that is killed, or the host that is cut off.
	Cause int `json:"cause"`
	// Silent is set by a rank of that host.
	Silent bool `json:"silent,omitempty"`
	// At is the time on the machine's clock, in ns; 0: the rank is ready.
	At int64 `json:"at,omitempty"`
}

// stage is half of a round: all ranks become ready for a failure, then all notice it.
type stage struct {
	cause   int
	noticed bool
}

func (s sighting) stage() stage { return stage{s.Cause, s.At != 0} }

// observer collects the sightings of a job while it runs.
type observer struct {
	arriving <-chan sighting
	// seen are the sightings by stage and rank. Those of one rank arrive in order, those of
	// different ranks do not.
	seen map[stage]map[int]sighting
	// waiting shows a description of the awaited event; "": none.
	waiting func(text string)
}

func newObserver(arriving <-chan sighting, waiting func(string)) *observer {
	if waiting == nil {
		waiting = func(string) {}
	}
	return &observer{arriving: arriving, seen: make(map[stage]map[int]sighting), waiting: waiting}
}

var (
	errJobEnded = errors.New("fault: the job ended before its victims")
	errTimeout  = errors.New("timeout")
)

// observe runs a job whose ranks report at most so many sightings, and conduct beside it. An error of
// conduct ends the job. An error of a rank takes precedence if it is the cause.
func observe(ctx context.Context, j job, most int, waiting func(string),
	conduct func(context.Context, *observer) error,
) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	arriving := make(chan sighting, most) // the launcher never waits for the harness
	j.note = func(text json.RawMessage) error {
		var s sighting
		if err := json.Unmarshal(text, &s); err != nil {
			return fmt.Errorf("a rank's report %q: %w", text, err)
		}
		arriving <- s
		return nil
	}
	ended := make(chan error, 1)
	go func() {
		_, err := j.run(ctx)
		ended <- err
		close(arriving)
	}()
	err := conduct(ctx, newObserver(arriving, waiting))
	if err != nil {
		cancel(err)
	}
	jobErr := <-ended
	if err == nil || errors.Is(err, errJobEnded) && jobErr != nil {
		return jobErr
	}
	return err
}

// at returns the sightings of a stage.
func (o *observer) at(s stage) map[int]sighting {
	if o.seen[s] == nil {
		o.seen[s] = make(map[int]sighting)
	}
	return o.seen[s]
}

// collect waits until so many ranks have reached a stage. Its error is errTimeout after the limit,
// errJobEnded, or the context's.
func (o *observer) collect(ctx context.Context, s stage, want int, limit time.Duration) (map[int]sighting, error) {
	got, what := o.at(s), "are ready"
	if s.noticed {
		what = "know of the death"
	}
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	defer o.waiting("")
	for len(got) < want {
		o.waiting(fmt.Sprintf("%d of %d ranks %s, %v at most", len(got), want, what, limit))
		select {
		case next, open := <-o.arriving:
			if !open {
				return got, errJobEnded
			}
			o.at(next.stage())[next.Rank] = next
		case <-ctx.Done():
			return got, context.Cause(ctx)
		case <-timeout.C:
			return got, errTimeout
		}
	}
	return got, nil
}

// pause waits for a time, or for the end of the context.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
