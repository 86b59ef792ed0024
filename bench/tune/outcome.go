package tune

import (
	"fmt"
	"slices"

	"github.com/banyan-hpc/banyan/bench/compare"
)

// MinGain is the smallest relative difference that is worth a setting.
const MinGain = 0.03

// Outcome is the outcome of a trial for the new setting.
type Outcome string

// The outcomes.
const (
	Better Outcome = "better"
	Worse  Outcome = "worse"
	Same   Outcome = "no difference"
	Unseen Outcome = "not seen"
)

// Distance is how far apart the cores were.
type Distance = compare.Distance

// The distances: cores that share a cache, and others.
const (
	Near = compare.Near
	Far  = compare.Far
)

// Row is the result of a trial at one distance: the new setting against the old.
type Row struct {
	Distance Distance `json:"distance"`
	// Pairs is the number of independent pairs.
	Pairs int `json:"pairs"`
	// New and Old are median seconds per message, for orientation.
	New float64 `json:"new_seconds"`
	Old float64 `json:"old_seconds"`
	// Ratio is the median of new time over old, Low and High its 95 % interval; Low is 0 where
	// there are too few pairs for one.
	Ratio float64 `json:"ratio"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// Interval gives "0.851 … 0.880", or "too few".
func (r Row) Interval() string {
	if r.Low == 0 {
		return "too few"
	}
	return fmt.Sprintf("%.3f … %.3f", r.Low, r.High)
}

// Outcome is the outcome for the new setting.
func (r Row) Outcome() Outcome {
	switch {
	case r.Low == 0: // too few pairs for an interval
		return Unseen
	case r.High < 1 && r.Ratio <= 1-MinGain:
		return Better
	case r.Low > 1 && r.Ratio >= 1+MinGain:
		return Worse
	}
	return Same
}

// combine gives the outcome of several rows: better or worse in some and the opposite in none.
func combine(rows []Row, at []Distance) Outcome {
	seen := map[Outcome]bool{}
	for _, r := range rows {
		if slices.Contains(at, r.Distance) {
			seen[r.Outcome()] = true
		}
	}
	switch {
	case seen[Better] && !seen[Worse]:
		return Better
	case seen[Worse] && !seen[Better]:
		return Worse
	case seen[Better] || seen[Same]:
		return Same
	}
	return Unseen
}

// strongest returns the row whose median is furthest below 1, or above with Worse; false where no
// row has that outcome.
func strongest(rows []Row, at []Distance, want Outcome) (Row, bool) {
	var best Row
	found := false
	for _, r := range rows {
		if !slices.Contains(at, r.Distance) || r.Outcome() != want {
			continue
		}
		further := r.Ratio < best.Ratio
		if want == Worse {
			further = r.Ratio > best.Ratio
		}
		if !found || further {
			best, found = r, true
		}
	}
	return best, found
}

// crossing moves a limit from its present place: up while eager is better at the next size, else
// down while it is worse. The rows of a size compare eager, the new, with announced. It also
// returns the size at which the difference was largest among those that the limit has passed.
func crossing(sizes []int, rows map[int][]Row, at []Distance, limit int) (moved, where int) {
	moved = limit
	passed := func(size int, want Outcome) {
		r, _ := strongest(rows[size], at, want)
		if where == 0 {
			where = size
			return
		}
		old, _ := strongest(rows[where], at, want)
		if want == Better && r.Ratio < old.Ratio || want == Worse && r.Ratio > old.Ratio {
			where = size
		}
	}
	for _, s := range sizes {
		if s <= limit {
			continue
		}
		if combine(rows[s], at) != Better {
			break
		}
		moved = s
		passed(s, Better)
	}
	if moved > limit {
		return moved, where
	}
	for i := len(sizes) - 1; i >= 0; i-- {
		s := sizes[i]
		if s > limit {
			continue
		}
		if combine(rows[s], at) != Worse {
			break
		}
		moved = s / 2
		if i > 0 {
			moved = sizes[i-1]
		}
		passed(s, Worse)
	}
	return moved, where
}

// wasSeen reports whether some size was measured well enough at these distances.
func wasSeen(rows map[int][]Row, at []Distance) bool {
	for _, r := range rows {
		if combine(r, at) != Unseen {
			return true
		}
	}
	return false
}
