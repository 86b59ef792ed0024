package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"github.com/banyan-hpc/banyan/bench/compare"
	"github.com/banyan-hpc/banyan/bench/peers"
	"github.com/banyan-hpc/banyan/bench/strangers"
)

const (
	// strangersRate is the number a second that the bound speaks of.
	strangersRate = 1000
	// strangersShort is the share of it below which a sample is none.
	strangersShort = 0.95
	// strangersSamples is by how much samples are longer than others: each should
	// meet hundreds of strangers.
	strangersSamples = 5
	// strangersStay is after how long as many leave as come; a sample begins then.
	strangersStay = 250 * time.Millisecond
)

// asker is who answers questions: a [peers.Server].
type asker interface {
	Ask(ctx context.Context, what string) (string, error)
}

// besieged is the rank whose port strangers are sent to, and what has come of it.
type besieged struct {
	rank    asker
	target  strangers.Config
	refused uint64 // before the first stranger
	joined  uint64

	// Flood is all that were sent while it was measured.
	Flood strangers.Report `json:"flood"`
	// Refused and Joined are by how much the rank's counts have grown. Joined must
	// be 0: nobody else connects meanwhile.
	Refused uint64 `json:"refused"`
	Joined  uint64 `json:"joined"`
}

// besiege asks the rank for its port and its counts.
func besiege(ctx context.Context, rank asker) (*besieged, error) {
	b := &besieged{rank: rank, target: strangers.Config{Rate: strangersRate, Stay: strangersStay}}
	listening, err := rank.Ask(ctx, askListening)
	if err != nil {
		return nil, fmt.Errorf("which TCP port the rank listens on: %w", err)
	}
	if b.target.To, err = netip.ParseAddrPort(listening); err != nil {
		return nil, fmt.Errorf("which TCP port the rank listens on: %w", err)
	}
	words, err := rank.Ask(ctx, askForgery)
	if err != nil {
		return nil, err
	}
	forgery, err := hex.DecodeString(words)
	if err != nil || len(forgery) == 0 {
		return nil, fmt.Errorf("a forgery of %q: %w", words, err)
	}
	b.target.Hello = func() []byte { return forgery }
	b.refused, b.joined, err = b.counts(ctx)
	return b, err
}

// counts asks the rank for both of its counts.
func (b *besieged) counts(ctx context.Context) (refused, joined uint64, err error) {
	for what, to := range map[string]*uint64{askRefused: &refused, askJoined: &joined} {
		answer, err := b.rank.Ask(ctx, what)
		if err != nil {
			return 0, 0, err
		}
		if *to, err = strconv.ParseUint(answer, 10, 64); err != nil {
			return 0, 0, fmt.Errorf("%s: %w", what, err)
		}
	}
	return refused, joined, nil
}

// under measures while strangers come: the flood begins, sample is called until as
// many leave as come, then once more, and that is the result.
func (b *besieged) under(ctx context.Context, sample func(context.Context) (float64, error)) (float64, error) {
	flooding, stop := context.WithCancel(ctx)
	defer stop()
	type outcome struct {
		report strangers.Report
		err    error
	}
	done := make(chan outcome, 1)
	b.target.Seed++
	go func() {
		r, err := strangers.Run(flooding, b.target)
		done <- outcome{r, err}
	}()
	var seconds float64
	var err error
	for begin, settled := time.Now(), false; !settled && err == nil; {
		settled = time.Since(begin) > strangersStay
		seconds, err = sample(ctx)
	}
	stop()
	flood := <-done
	b.Flood.Add(flood.report)
	switch {
	case err != nil:
		return 0, err
	case flood.err != nil:
		return 0, flood.err
	case flood.report.Rate() < strangersShort*strangersRate:
		return 0, fmt.Errorf("only %.0f strangers a second got to the port, not %d: %s", flood.report.Rate(), strangersRate, &flood.report)
	}
	return seconds, nil
}

// conclude asks what the rank has made of them.
func (b *besieged) conclude(ctx context.Context) error {
	refused, joined, err := b.counts(ctx)
	b.Refused, b.Joined = refused-b.refused, joined-b.joined
	if err == nil && b.Refused == 0 {
		err = fmt.Errorf("%s has refused nobody of %d strangers: they were not at its port", b.target.To, b.Flood.Connected)
	}
	return err
}

// String says whether anybody was let in, for people.
func (b *besieged) String() string {
	verdict := "met"
	if b.Joined > 0 {
		verdict = "missed"
	}
	return fmt.Sprintf("B4-5, nobody let in: the rank has refused %d and let in %d: %s\n%s; %.1f %% of a CPU for the flood itself\n",
		b.Refused, b.Joined, verdict, &b.Flood, 100*b.Flood.Processor.Seconds()/max(b.Flood.Elapsed.Seconds(), 1e-9))
}

// strangersPlan is B4-5: the latency over TCP with strangers at the port of rank 0,
// over that of the same ranks without.
func (c *contest) strangersPlan(b *besieged) *compare.Plan {
	job := peers.Job{Test: peers.Latency, Size: 8, Window: 1}
	sampler := func() *peers.Sampler {
		return &peers.Sampler{Runner: current{c, overTCP}, Job: job, Target: strangersSamples * c.target}
	}
	with, without := sampler(), sampler()
	return &compare.Plan{
		Name: "strangers", Title: fmt.Sprintf("8-byte latency over TCP with %d strangers a second at the port", strangersRate), Precision: precision,
		Sources: []compare.Source{
			{Name: overTCP, Sample: func(ctx context.Context) (float64, error) { return b.under(ctx, with.Sample) }},
			{Name: undisturbed, Sample: without.Sample},
		},
		Bounds: []compare.Bound{{ID: "B4-5", Over: undisturbed, Ratio: compare.OfTimes, Limit: 1.1}},
	}
}
