package compare

import (
	"context"
	"time"
)

// Control is the name under which a bound refers to the control itself.
const Control = "control"

// Source is one implementation of the measured operation.
type Source struct {
	Name string
	// Sample measures once and returns seconds per message. It is called by one goroutine at a
	// time, and while it runs no other source may be busy.
	Sample func(ctx context.Context) (float64, error)
}

// Ratio is the direction of a ratio.
type Ratio string

const (
	// OfTimes is the subject's time over the other's: below 1 is faster.
	OfTimes Ratio = "times"
	// OfRates is the subject's rate over the other's: above 1 is faster.
	OfRates Ratio = "rates"
)

// Bound limits the ratio of the subject to another source.
type Bound struct {
	// ID names the bound in tables, such as "B2-1"; it may be empty.
	ID string `json:"id,omitempty"`
	// Over names the other source, or is [Control].
	Over  string `json:"over"`
	Ratio Ratio  `json:"ratio"`
	// Limit is the maximum of a ratio of times, or the minimum of a ratio of rates. 0: there is no
	// bound, the ratio is for information.
	Limit float64 `json:"limit,omitempty"`
	// OnlyNear: the bound holds in the fast distance only.
	OnlyNear bool `json:"only_near,omitempty"`
}

// Plan is one measure.
type Plan struct {
	// Name is short and without spaces, such as "latency/8".
	Name string
	// Title is for people.
	Title string
	// Subject is the source that the bounds are about: the first one.
	Sources []Source
	Bounds  []Bound
	// Precision is the relative half-width of the interval that is sampled for.
	Precision float64
	// RenewEvery is the number of rounds after which Renew is called, before the first round too,
	// to replace the processes of the sources. 0: never.
	RenewEvery int
	Renew      func(ctx context.Context) error
}

// Limits bounds the sampling of one measure.
type Limits struct {
	// MinPairs is the number of observations below which nothing is decided.
	MinPairs int
	// MaxRounds and MaxTime end the sampling, decided or not; 0: no limit. One round is always
	// done.
	MaxRounds int
	MaxTime   time.Duration
	// MaxDrift is the relative change of the control around a sample, and between the samples of a
	// pair, up to which they are kept: 0.15 is 15 %.
	MaxDrift float64
	// Seek continues until near and far cores are decided; the host moves them.
	Seek bool
}

// allow reports whether another round fits the limits.
func (l *Limits) allow(rounds int, spent time.Duration) bool {
	return rounds == 0 || (l.MaxRounds == 0 || rounds < l.MaxRounds) && (l.MaxTime == 0 || spent < l.MaxTime)
}
