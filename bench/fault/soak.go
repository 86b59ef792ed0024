package fault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/bench/budget"
)

// Soak runs ranks under full load, none of which may be reported failed.
type Soak struct {
	// Ranks, at least 2.
	Ranks int `json:"ranks"`
	// For is how long new phases start.
	For time.Duration `json:"for_ns"`
	// Absent is how long a rank makes no call in its turn.
	Absent time.Duration `json:"absent_ns"`
	// Budget bounds the run: a phase that would outlast it is made shorter, and is the last.
	Budget budget.Budget `json:"-"`
}

// Check returns an error for options that make no sense.
func (o Soak) Check() error {
	if err := checkLimits("soak", limit{"-n", o.Ranks, 2, MaxRanks}); err != nil {
		return err
	}
	if o.For <= 0 {
		return fmt.Errorf("fault soak: --for %v: a time above 0 is needed", o.For)
	}
	if o.Absent < 0 {
		return fmt.Errorf("fault soak: --absent %v: at least 0 is needed", o.Absent)
	}
	return nil
}

// Seen is the state of one rank at the end of a phase.
type Seen struct {
	Rank        int             `json:"rank"`
	Phases      int             `json:"phases"`
	Messages    int             `json:"messages"`
	Collections int64           `json:"collections"` // of the garbage collector
	Detector    banyan.Detector `json:"detector"`
}

// SoakResult has the last state of each rank.
type SoakResult struct {
	Options Soak `json:"options"`
	// Cut is set when the time was over, in seconds.
	Cut   *budget.Cut `json:"cut,omitempty"`
	Ranks []Seen      `json:"ranks"`
}

// All is the sum over the ranks, with the longest times and the fewest phases.
func (r *SoakResult) All() Seen {
	sum := Seen{Phases: r.Ranks[0].Phases}
	for _, s := range r.Ranks {
		sum.Phases = min(sum.Phases, s.Phases)
		sum.Messages += s.Messages
		sum.Collections += s.Collections
		d := &sum.Detector
		d.Late, d.Silence = max(d.Late, s.Detector.Late), max(d.Silence, s.Detector.Silence)
		d.Suspicions += s.Detector.Suspicions
	}
	return sum
}

// Measure runs one job of ranks that call [Soak.Rank], and calls each after every report. It returns
// a result beside the error of a job in which a rank failed.
func (o Soak) Measure(ctx context.Context, start Start, rest io.Writer, each func(*SoakResult)) (*SoakResult, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	r := &SoakResult{Options: o, Ranks: make([]Seen, o.Ranks)}
	for i := range r.Ranks {
		r.Ranks[i].Rank = i
	}
	j := job{ranks: o.Ranks, start: start, rest: rest, note: func(text json.RawMessage) error {
		var s Seen
		if err := json.Unmarshal(text, &s); err != nil || s.Rank < 0 || s.Rank >= o.Ranks {
			return fmt.Errorf("fault soak: a rank's report %q: %w", text, err)
		}
		r.Ranks[s.Rank] = s
		if each != nil {
			each(r)
		}
		return nil
	}}
	begin := time.Now()
	if _, err := j.run(ctx); err != nil {
		return r, err
	}
	if spent := time.Since(begin); o.Budget.Over() && spent < o.For {
		r.Cut = o.Budget.Cut(int((spent+time.Second-1)/time.Second), int(o.For/time.Second), "seconds")
	}
	if all := r.All(); all.Phases == 0 || all.Messages == 0 || all.Collections == 0 {
		if r.Cut != nil {
			return r, o.Budget.Cut(0, r.Cut.Of, r.Cut.What).Nothing()
		}
		return r, errors.New("fault soak: the run was too short: " +
			"a rank finished no phase, or sent or collected nothing")
	}
	return r, nil
}
