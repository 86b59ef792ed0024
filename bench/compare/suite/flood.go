package suite

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"github.com/banyan-hpc/banyan/bench/compare"
	"github.com/banyan-hpc/banyan/bench/peers"
	"github.com/banyan-hpc/banyan/internal/intrusion"
)

const (
	// floodRate is the number of connections a second of the bound.
	floodRate = 1000
	// floodShort is the share of it below which a sample is invalid.
	floodShort = 0.95
	// floodSamples is how many times longer these samples are: each meets hundreds of connections.
	floodSamples = 5
	// floodStay is the time after which as many connections close as open; a sample starts then.
	floodStay = 250 * time.Millisecond
)

// The questions to a rank about its TCP port, see [peers.Answers].
const (
	AskListening = "listening" // the address that other ranks connect to
	AskForgery   = "forgery"   // in hexadecimal: the start of a handshake and a wrong proof
	AskRefused   = "refused"   // the number of refused connections
	AskJoined    = "joined"    // the number of admitted ones: one for each peer, and one for each reconnection
)

// asker answers questions: a [peers.Server].
type asker interface {
	Ask(ctx context.Context, what string) (string, error)
}

// flood is a flood of unauthenticated connections to the port of a rank, and its outcome.
type flood struct {
	rank    asker
	target  intrusion.Config
	refused uint64 // before the first connection
	joined  uint64

	// Flood is all that was sent during the measurement.
	Flood intrusion.Report `json:"flood"`
	// Refused and Joined are the growth of the rank's counts. Joined must be 0: no peer connects
	// meanwhile.
	Refused uint64 `json:"refused"`
	Joined  uint64 `json:"joined"`
}

// prepareFlood asks the rank for its port and its counts.
func prepareFlood(ctx context.Context, rank asker) (*flood, error) {
	f := &flood{rank: rank, target: intrusion.Config{Rate: floodRate, Stay: floodStay}}
	listening, err := rank.Ask(ctx, AskListening)
	if err == nil {
		f.target.To, err = netip.ParseAddrPort(listening)
	}
	if err != nil {
		return nil, fmt.Errorf("which TCP port the rank listens on: %w", err)
	}
	words, err := rank.Ask(ctx, AskForgery)
	if err != nil {
		return nil, err
	}
	forgery, err := hex.DecodeString(words)
	if err != nil || len(forgery) == 0 {
		return nil, fmt.Errorf("a forgery of %q: %w", words, err)
	}
	f.target.Hello = func() []byte { return forgery }
	f.refused, f.joined, err = f.counts(ctx)
	return f, err
}

// counts asks the rank for both of its counts.
func (f *flood) counts(ctx context.Context) (refused, joined uint64, err error) {
	for what, to := range map[string]*uint64{AskRefused: &refused, AskJoined: &joined} {
		answer, err := f.rank.Ask(ctx, what)
		if err != nil {
			return 0, 0, err
		}
		if *to, err = strconv.ParseUint(answer, 10, 64); err != nil {
			return 0, 0, fmt.Errorf("%s: %w", what, err)
		}
	}
	return refused, joined, nil
}

// under measures during a flood: it calls sample until as many connections close as open, and
// returns the result of one more call.
func (f *flood) under(ctx context.Context, sample func(context.Context) (float64, error)) (float64, error) {
	flooding, stop := context.WithCancel(ctx)
	defer stop()
	var report intrusion.Report
	done := make(chan error, 1)
	f.target.Seed++
	go func() {
		var err error
		report, err = intrusion.Run(flooding, f.target)
		done <- err
	}()
	var seconds float64
	var err error
	for start, settled := time.Now(), false; !settled && err == nil; {
		settled = time.Since(start) > floodStay
		seconds, err = sample(ctx)
	}
	stop()
	failed := <-done
	f.Flood.Add(report)
	switch {
	case err != nil:
		return 0, err
	case failed != nil:
		return 0, failed
	case report.Rate() < floodShort*floodRate:
		return 0, fmt.Errorf("only %.0f connections a second reached the port, not %d: %s", report.Rate(), floodRate,
			&report)
	}
	return seconds, nil
}

// finish asks the rank for the outcome.
func (f *flood) finish(ctx context.Context) error {
	refused, joined, err := f.counts(ctx)
	f.Refused, f.Joined = refused-f.refused, joined-f.joined
	if err == nil && f.Refused == 0 {
		err = fmt.Errorf("%s has refused none of %d connections: they did not reach its port", f.target.To,
			f.Flood.Connected)
	}
	return err
}

// String is the outcome for people.
func (f *flood) String() string {
	verdict := "met"
	if f.Joined > 0 {
		verdict = "missed"
	}
	return fmt.Sprintf("B4-5, none admitted: the rank has refused %d and admitted %d: %s\n%s; %.1f %% of a CPU for "+
		"the flood itself\n",
		f.Refused, f.Joined, verdict, &f.Flood, 100*f.Flood.Processor.Seconds()/max(f.Flood.Elapsed.Seconds(), 1e-9))
}

// floodPlan is B4-5: the latency over TCP during a flood of rank 0's port, over that of the same
// ranks without it.
func (c *Comparison) floodPlan(f *flood) *compare.Plan {
	sampler := func() *peers.Sampler {
		job := peers.Job{Test: peers.Latency, Size: 8, Window: 1}
		return &peers.Sampler{Runner: current{c, overTCP}, Job: job, Target: floodSamples * c.Sample}
	}
	with, without := sampler(), sampler()
	title := fmt.Sprintf("8-byte latency over TCP with %d unauthenticated connections a second at the port", floodRate)
	return &compare.Plan{
		Name: "unauthenticated", Title: title, Precision: precision,
		Sources: []compare.Source{
			{Name: overTCP, Sample: func(ctx context.Context) (float64, error) { return f.under(ctx, with.Sample) }},
			{Name: undisturbed, Sample: without.Sample},
		},
		Bounds: []compare.Bound{{ID: "B4-5", Over: undisturbed, Ratio: compare.OfTimes, Limit: 1.1}},
	}
}
