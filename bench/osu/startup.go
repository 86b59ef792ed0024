package osu

import (
	"fmt"
	"time"

	"github.com/banyan-hpc/banyan"
)

// Spread is a time, in seconds, over all ranks.
type Spread struct {
	Min  float64 `json:"min_seconds"`
	Max  float64 `json:"max_seconds"`
	Mean float64 `json:"mean_seconds"`
}

// StartUp is how long the ranks of a job took to start.
type StartUp struct {
	Ranks int `json:"ranks"`
	// Init is the time in banyan.Init, Barrier that in the first barrier, which makes connections,
	// and Total both.
	Init    Spread `json:"init"`
	Barrier Spread `json:"barrier"`
	Total   Spread `json:"total"`
}

// Start joins the job that started this process, calls a first barrier, and measures both. All
// ranks call it and get the same answer.
//
// The start of the processes themselves is not in it.
func Start(opts ...banyan.Option) (*banyan.World, StartUp, error) {
	begin := time.Now()
	w, err := banyan.Init(opts...)
	if err != nil {
		return nil, StartUp{}, err
	}
	joined := time.Now()
	if err := w.Comm().Barrier(); err != nil {
		return nil, StartUp{}, fmt.Errorf("osu: first barrier: %w", err)
	}
	end := time.Now()
	s := StartUp{Ranks: w.Comm().Size()}
	for _, t := range []struct {
		to *Spread
		d  time.Duration
	}{{&s.Init, joined.Sub(begin)}, {&s.Barrier, end.Sub(joined)}, {&s.Total, end.Sub(begin)}} {
		low, high, sum, err := spread(w.Comm(), int64(t.d))
		if err != nil {
			return nil, s, fmt.Errorf("osu: reduce the times: %w", err)
		}
		*t.to = Spread{Min: float64(low) / 1e9, Max: float64(high) / 1e9, Mean: float64(sum) / 1e9 / float64(s.Ranks)}
	}
	return w, s, nil
}
