package fault

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/banyan-hpc/banyan/bench/budget"
)

// Silence measures the time from the cut of a host's network to the detection of its ranks' failure.
// All processes of a measurement have the same options, apart from Silent.
type Silence struct {
	Ranks  int `json:"ranks"`
	Hosts  int `json:"hosts"`
	Rounds int `json:"rounds"`
	// Period and Timeout are the detector's.
	Period  time.Duration `json:"period_ns"`
	Timeout time.Duration `json:"timeout_ns"`
	// Patience is how long a survivor may take to be ready, and to notice.
	Patience time.Duration `json:"patience_ns"`
	// Silent is the host that is cut off.
	Silent int `json:"-"`
	// Budget bounds the measurement: the round that is under way at its end is dropped.
	Budget budget.Budget `json:"-"`
}

// Check returns an error for options that make no sense.
func (o Silence) Check() error {
	switch {
	case o.Hosts < 3 || o.Ranks < o.Hosts || o.Ranks > MaxRanks:
		return fmt.Errorf("fault silence: %d ranks on %d hosts: at least 3 hosts with a rank each, at most %d ranks",
			o.Ranks, o.Hosts, MaxRanks)
	case 2*((o.Ranks+o.Hosts-1)/o.Hosts) >= o.Ranks:
		return fmt.Errorf("fault silence: %d ranks on %d hosts: one of them has half of the ranks, "+
			"which continue without the others; more hosts are needed", o.Ranks, o.Hosts)
	case o.Rounds < 1 || o.Rounds > MaxKills:
		return fmt.Errorf("fault silence: --rounds %d is not within 1…%d", o.Rounds, MaxKills)
	case o.Period == 0 || o.Timeout == 0:
		return fmt.Errorf("fault silence: --period %v --timeout %v: times above 0 are needed", o.Period, o.Timeout)
	}
	if err := CheckTimes(o.Period, o.Timeout); err != nil {
		return fmt.Errorf("fault silence: %w", err)
	}
	if o.Patience <= o.Bound() {
		return fmt.Errorf("fault silence: --patience %v: more than %v is needed, "+
			"the time that a survivor may take (timeout + 2 periods)", o.Patience, o.Bound())
	}
	return nil
}

// Bound is the longest detection time that the detector promises.
func (o Silence) Bound() time.Duration { return o.Timeout + 2*o.Period }

// Network is the network in which a host is cut off.
type Network struct {
	// Start returns a function that starts a job whose ranks call [Silence.Rank] with that silent
	// host. Its ranks end themselves, which is no error.
	Start func(silent int) Start
	// Cut drops all packets to and from a host. Heal ends that.
	Cut  func(host int) error
	Heal func() error
}

// SilenceResult is the result of [Silence.Measure].
type SilenceResult struct {
	Options Silence       `json:"options"`
	Bound   time.Duration `json:"bound_ns"`
	Cut     *budget.Cut   `json:"cut,omitempty"` // set when the time was over
	Latencies
}

// Missed reports whether a survivor took longer than the bound.
func (r *SilenceResult) Missed() bool { return r.Last.Max > r.Bound }

// Measure cuts off one host after another, each in a job of its own, and measures the time until each
// survivor has an error for every rank of that host. It calls each after every round.
func (o Silence) Measure(ctx context.Context, net Network, rest io.Writer, each func(Round)) (*SilenceResult, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	ctx, stop := o.Budget.Context(ctx)
	defer stop()
	var rounds []Round
	var cut *budget.Cut
	for i := range o.Rounds {
		o.Silent = i % o.Hosts
		j := job{ranks: o.Ranks, start: net.Start(o.Silent), rest: rest}
		var r Round
		err := observe(ctx, j, 2*o.Ranks, nil, func(ctx context.Context, seen *observer) (err error) {
			r, err = o.round(ctx, seen, net)
			return err
		})
		over := err != nil && budget.Ended(ctx)
		if over {
			cut = o.Budget.Cut(len(rounds), o.Rounds, "rounds")
			err = cut.Nothing()
		}
		if err = errors.Join(err, net.Heal()); err != nil {
			return nil, err
		}
		if over {
			break
		}
		rounds = append(rounds, r)
		if each != nil {
			each(r)
		}
	}
	return &SilenceResult{Options: o, Bound: o.Bound(), Cut: cut, Latencies: latencies(rounds)}, nil
}

// round cuts the host off when all ranks are ready and exchange heartbeats.
func (o Silence) round(ctx context.Context, seen *observer, net Network) (r Round, err error) {
	ready, err := seen.collect(ctx, stage{cause: o.Silent}, o.Ranks, o.Patience)
	if err != nil {
		return r, o.late(err, len(ready), o.Ranks, "were ready")
	}
	// A new rank has one timeout more. Heartbeats come at any time of a period.
	if err := pause(ctx, o.Timeout+2*o.Period+rand.N(o.Period)); err != nil {
		return r, err
	}
	cut, err := machineClock() // some milliseconds before the cut holds
	if err == nil {
		err = net.Cut(o.Silent)
	}
	if err != nil {
		return r, err
	}
	survivors := 0
	for _, s := range ready {
		if !s.Silent {
			survivors++
		}
	}
	noticed, err := seen.collect(ctx, stage{o.Silent, true}, survivors, o.Patience)
	if err != nil {
		return r, o.late(err, len(noticed), survivors, "had noticed")
	}
	for _, s := range noticed {
		if s.At < cut {
			return r, fmt.Errorf("fault silence: rank %d reported deaths %v before its host was cut off: "+
				"a false failure", s.Rank, time.Duration(cut-s.At))
		}
		r.Survivors = append(r.Survivors, time.Duration(s.At-cut))
	}
	return r, nil
}

// late explains a timeout.
func (o Silence) late(err error, got, want int, what string) error {
	if !errors.Is(err, errTimeout) {
		return err
	}
	return fmt.Errorf("fault silence: after %v only %d of %d ranks %s, with host %d silent; --patience waits longer",
		o.Patience, got, want, what, o.Silent)
}
