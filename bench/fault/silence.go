package fault

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"
)

// SilenceOptions of a measurement of hosts that fall silent. All processes of it have
// the same, but for Silent.
type SilenceOptions struct {
	Ranks  int `json:"ranks"`
	Hosts  int `json:"hosts"`
	Rounds int `json:"rounds"`
	// Period and Timeout are the detector's.
	Period  time.Duration `json:"period_ns"`
	Timeout time.Duration `json:"timeout_ns"`
	// Patience is how long a survivor may take at all, or to be ready.
	Patience time.Duration `json:"patience_ns"`
	// Silent is the host that falls silent.
	Silent int `json:"-"`
}

// Check finds what makes no sense.
func (o SilenceOptions) Check() error {
	switch {
	case o.Hosts < 3 || o.Ranks < o.Hosts || o.Ranks > MaxRanks:
		return fmt.Errorf("fault silence: %d ranks on %d hosts: at least 3 hosts with a rank each, at most %d ranks", o.Ranks, o.Hosts, MaxRanks)
	case 2*o.most() >= o.Ranks:
		return fmt.Errorf("fault silence: %d ranks on %d hosts: one of them has half of the ranks, which go on without the others; more hosts", o.Ranks, o.Hosts)
	case o.Rounds < 1 || o.Rounds > MaxKills:
		return fmt.Errorf("fault silence: --rounds %d is not within 1…%d", o.Rounds, MaxKills)
	case o.Period == 0 || o.Timeout == 0:
		return fmt.Errorf("fault silence: --period %v --timeout %v: times above 0 are needed", o.Period, o.Timeout)
	}
	if err := CheckTimes(o.Period, o.Timeout); err != nil {
		return fmt.Errorf("fault silence: %w", err)
	}
	if o.Patience <= o.Bound() {
		return fmt.Errorf("fault silence: --patience %v: more than %v is needed, the time that a survivor may take (timeout + 2 periods)", o.Patience, o.Bound())
	}
	return nil
}

// most is the number of ranks of the largest host.
func (o SilenceOptions) most() int { return (o.Ranks + o.Hosts - 1) / o.Hosts }

// Bound is the longest time that the detector promises.
func (o SilenceOptions) Bound() time.Duration { return o.Timeout + 2*o.Period }

// Network is what a host is silenced in.
type Network struct {
	// Start starts a job of ranks that call [SilenceRank] with that host as the silent one,
	// see [Start]. Its ranks end themselves, and are no error.
	Start func(ctx context.Context, silent int, out io.Writer) error
	// Cut has all be lost that goes to a host or comes from it, and Heal ends that.
	Cut  func(host int) error
	Heal func() error
}

// SilenceResult is what Silence has measured.
type SilenceResult struct {
	Options SilenceOptions `json:"options"`
	Bound   time.Duration  `json:"bound_ns"`
	// Each is over every survivor of every round, Last over the slowest survivor of
	// each round.
	Each   Spread  `json:"each_survivor"`
	Last   Spread  `json:"last_survivor"`
	Rounds []Round `json:"rounds"`
}

// Missed tells whether a survivor took longer than the bound.
func (r *SilenceResult) Missed() bool { return r.Last.Max > r.Bound }

// Silence cuts one host after another off, each from a job of its own, and measures the
// time from there to the moment at which each survivor has learned of the deaths of
// all ranks of that host. It calls each after every round.
func Silence(ctx context.Context, o SilenceOptions, net Network, rest io.Writer, each func(Round)) (*SilenceResult, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	r := &SilenceResult{Options: o, Bound: o.Bound()}
	for i := range o.Rounds {
		o.Silent = i % o.Hosts
		round, err := silenced(ctx, o, net, rest)
		if err != nil {
			return nil, err
		}
		r.Rounds = append(r.Rounds, round)
		if each != nil {
			each(round)
		}
	}
	all, err := summary(Options{}, r.Rounds)
	if err != nil {
		return nil, err
	}
	r.Each, r.Last = all.Each, all.Last
	return r, nil
}

// silenced is one round.
func silenced(ctx context.Context, o SilenceOptions, net Network, rest io.Writer) (r Round, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	lines := make(chan line, 2*o.Ranks) // all that is ever said: the launcher never waits for us
	ended := make(chan error, 1)
	go func() {
		ended <- net.Start(ctx, o.Silent, wired(lines, rest))
		close(lines)
	}()
	r, err = cutOff(ctx, o, net, lines)
	if err != nil {
		cancel(err)
	}
	jobErr := <-ended
	if errors.Is(err, errJobEnded) && jobErr != nil {
		err = nil // its ranks say why
	}
	return r, errors.Join(err, jobErr, net.Heal())
}

// cutOff silences the host once all are ready and know each other's heartbeats.
func cutOff(ctx context.Context, o SilenceOptions, net Network, lines <-chan line) (Round, error) {
	ready, err := hear(ctx, o, lines, o.Ranks, "were ready")
	if err != nil {
		return Round{}, err
	}
	// Who is new has a timeout more. Heartbeats come at any time of a period.
	settled := time.NewTimer(o.Timeout + 2*o.Period + rand.N(o.Period))
	defer settled.Stop()
	select {
	case <-ctx.Done():
		return Round{}, context.Cause(ctx)
	case <-settled.C:
	}
	cut, err := now() // some milliseconds before it holds
	if err == nil {
		err = net.Cut(o.Silent)
	}
	if err != nil {
		return Round{}, err
	}
	survivors := 0
	for _, l := range ready {
		if l.victim == 0 {
			survivors++
		}
	}
	noticed, err := hear(ctx, o, lines, survivors, "had noticed")
	if err != nil {
		return Round{}, err
	}
	var r Round
	for _, l := range noticed {
		if l.at < cut {
			return Round{}, fmt.Errorf("fault silence: rank %d reported deaths %v before its host was cut off: a false failure", l.rank, time.Duration(cut-l.at))
		}
		r.Survivors = append(r.Survivors, time.Duration(l.at-cut))
	}
	return r, nil
}

// hear waits for the lines of so many ranks.
func hear(ctx context.Context, o SilenceOptions, lines <-chan line, want int, what string) ([]line, error) {
	timeout := time.NewTimer(o.Patience)
	defer timeout.Stop()
	var said []line
	for len(said) < want {
		select {
		case l, open := <-lines:
			if !open {
				return nil, errJobEnded
			}
			said = append(said, l)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-timeout.C:
			return nil, fmt.Errorf("fault silence: after %v only %d of %d ranks %s, with host %d silent; --patience waits longer", o.Patience, len(said), want, what, o.Silent)
		}
	}
	return said, nil
}
