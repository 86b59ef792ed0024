package fault

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/banyan-hpc/banyan"
)

// SoakOptions of a run in which nobody may be taken for dead.
type SoakOptions struct {
	// Ranks, at least 2.
	Ranks int `json:"ranks"`
	// For is how long phases begin.
	For time.Duration `json:"for_ns"`
	// Absent is how long a rank whose turn it is makes no call.
	Absent time.Duration `json:"absent_ns"`
}

// Check finds what makes no sense.
func (o SoakOptions) Check() error {
	if o.Ranks < 2 || o.Ranks > MaxRanks {
		return fmt.Errorf("fault soak: -n %d is not within 2…%d", o.Ranks, MaxRanks)
	}
	if o.For <= 0 {
		return fmt.Errorf("fault soak: --for %v: a time above 0 is needed", o.For)
	}
	if o.Absent < 0 {
		return fmt.Errorf("fault soak: --absent %v: at least 0 is needed", o.Absent)
	}
	return nil
}

// Seen is what one rank has seen by the end of a phase.
type Seen struct {
	Rank        int             `json:"rank"`
	Phases      int             `json:"phases"`
	Messages    int             `json:"messages"`
	Collections int64           `json:"collections"` // of the garbage collector
	Detector    banyan.Detector `json:"detector"`
}

const seenFormat = "soak: rank %d phases %d messages %d collections %d late %d silence %d suspicions %d\n"

// write puts it out in one piece.
func (s Seen) write(to io.Writer) error {
	d := s.Detector
	_, err := fmt.Fprintf(to, seenFormat, s.Rank, s.Phases, s.Messages, s.Collections, int64(d.Late), int64(d.Silence), d.Suspicions)
	return err
}

// parseSeen reads what write has written.
func parseSeen(text []byte) (s Seen, ok bool) {
	d := &s.Detector
	_, err := fmt.Sscanf(string(text), seenFormat, &s.Rank, &s.Phases, &s.Messages, &s.Collections, &d.Late, &d.Silence, &d.Suspicions)
	return s, err == nil
}

// SoakResult is what the ranks have seen, each last.
type SoakResult struct {
	Options SoakOptions `json:"options"`
	Ranks   []Seen      `json:"ranks"`
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

// Soak runs one job of ranks that call [SoakRank], and calls each for whatever a rank
// has seen. There is a result beside the error of a job in which a rank failed.
func Soak(ctx context.Context, o SoakOptions, start Start, rest io.Writer, each func(*SoakResult)) (*SoakResult, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	r := &SoakResult{Options: o, Ranks: make([]Seen, o.Ranks)}
	for i := range r.Ranks {
		r.Ranks[i].Rank = i
	}
	err := start(ctx, o.Ranks, 0, &wire{rest: rest, take: func(text []byte) bool {
		s, ok := parseSeen(text)
		if ok = ok && s.Rank >= 0 && s.Rank < o.Ranks; ok {
			r.Ranks[s.Rank] = s
			if each != nil {
				each(r)
			}
		}
		return ok
	}})
	if err != nil {
		return r, err
	}
	if all := r.All(); all.Phases == 0 || all.Messages == 0 || all.Collections == 0 {
		return r, errors.New("fault soak: it was too short: a rank has finished no phase, or none has sent or collected anything")
	}
	return r, nil
}
