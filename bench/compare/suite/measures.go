package suite

import (
	"context"
	"fmt"

	"github.com/banyan-hpc/banyan/bench/compare"
	"github.com/banyan-hpc/banyan/bench/peers"
)

// The measures and bounds of docs/status.md, B2-1 to B2-12, B3-2 to B3-7, B4-1 to B4-5, B6-2, B6-4, B7-10 to B7-12,
// B20-2, B20-3, B20-6 and B21-1 to B21-3. A ratio must be known to 3 %, and to 0.3 % for the cost of awareness: its
// bounds are a percent away from nothing.
const (
	precision      = 0.03
	precisionAware = 0.003
	// precisionRuns is for jobs that are started for each sample, and for queues: such times spread
	// more.
	precisionRuns = 0.05
	// precisionStart is that of starts, where a scheduler places hundreds of threads.
	precisionStart = 0.1
	// precisionRemote is for operations on memory: where code and data lie is a large part of some ten nanoseconds.
	precisionRemote = 0.1
	// renewEvery is the number of pairs that share processes where fractions of a percent count:
	// two pairs of processes differ by more than that.
	renewEvery = 5
)

// The groups of measures.
const (
	groupLatency    = "latency"
	groupBandwidth  = "bw"
	groupAware      = "aware"
	groupNetpipe    = "netpipe"
	groupTCP        = "tcp"
	groupUnix       = "unix"
	groupFlood      = "unauthenticated"
	groupMatch      = "match"
	groupStartup    = "startup"
	groupCollective = "coll"
	groupCrowd      = "crowd"
	groupHosts      = "hosts"
	groupULFM       = "ulfm"
	groupMany       = "many"
	groupRMA        = "rma"
	groupMemory     = "memory"
	groupVerbs      = "verbs"
)

// participants are the implementations that a group needs.
var participants = map[string][]string{
	groupLatency:    {ours, ucx, openmpi, mpich},
	groupBandwidth:  {ours, ucx, openmpi, mpich},
	groupAware:      {ours, unaware},
	groupNetpipe:    {groupNetpipe},
	groupTCP:        {groupTCP},
	groupUnix:       {groupUnix},
	groupMemory:     {groupMemory},
	groupFlood:      {overTCP},
	groupMatch:      {roomy, openmpi, mpich},
	groupStartup:    {startups},
	groupCollective: {collectives},
	groupCrowd:      {collectives},
	groupHosts:      {groupHosts},
	groupULFM:       {recoveries},
	groupMany:       {messages},
	groupRMA:        {oursRMA, openmpiRMA, mpichRMA},
	groupVerbs:      {oursVerbs, sendLatency, writeLatency, writeAlone, readLatency, sendRate, writeRate, readRate},
}

// plans returns the plans of a group; that of the flood is made when the rank has reported its
// port, see siege.
func (c *Comparison) plans(group string) []*compare.Plan {
	switch group {
	case groupLatency:
		return c.latencyPlans()
	case groupBandwidth:
		return c.bandwidthPlans()
	case groupAware:
		return c.awarePlans()
	case groupMatch:
		return c.matchPlans()
	case groupRMA:
		return c.remotePlans()
	case groupVerbs:
		return c.verbsPlans()
	}
	return nil
}

// sweeps returns the sweeps of a group.
func (c *Comparison) sweeps(group string) []*compare.Sweep {
	if g := netpipeGroups[group]; g != nil {
		return []*compare.Sweep{c.netpipeSweep(g)}
	}
	switch group {
	case groupStartup:
		return []*compare.Sweep{c.startupSweep(c.Ranks)}
	case groupCollective:
		return c.pairCollectives()
	case groupCrowd:
		return c.crowdCollectives()
	case groupHosts:
		return c.hostCollectives()
	case groupMany:
		return c.manySweeps()
	case groupULFM:
		return c.recoverySweeps()
	}
	return nil
}

func (c *Comparison) latencyPlans() []*compare.Plan {
	sources := c.sources(peers.Job{Test: peers.Latency, Size: 8, Window: 1}, participants[groupLatency]...)
	return []*compare.Plan{{
		Name: "latency/8", Title: "8-byte tagged one-way latency", Precision: precision,
		Sources: append(sources, c.sources(peers.Job{Test: peers.Bare, Window: 1}, bare)...),
		Bounds: []compare.Bound{
			{ID: "B2-1", Over: ucx, Ratio: compare.OfTimes, Limit: 0.90},
			{ID: "B2-2", Over: openmpi, Ratio: compare.OfTimes, Limit: 1},
			{ID: "B2-3", Over: mpich, Ratio: compare.OfTimes, Limit: 1},
			{ID: "B2-4", Over: bare, Ratio: compare.OfTimes, Limit: 1.5, OnlyNear: true},
			{Over: compare.Control, Ratio: compare.OfTimes}, // for information
		},
	}}
}

// bandwidthPlans: "not below the best of them" is "not below any of them".
func (c *Comparison) bandwidthPlans() []*compare.Plan {
	var out []*compare.Plan
	for i, size := range []int{1, 64, 1 << 10, 8 << 10, 64 << 10, 1 << 20} {
		p := &compare.Plan{
			Name: fmt.Sprintf("bw/%d", size), Title: fmt.Sprintf("bandwidth, window 64, %d bytes", size),
			Precision: precision,
			Sources: c.sources(peers.Job{Test: peers.Bandwidth, Size: size, Window: 64},
				participants[groupBandwidth]...),
		}
		limits := map[string]float64{ucx: 0.95, openmpi: 0.95, mpich: 0.95}
		if size == 1 {
			limits = map[string]float64{ucx: 1} // the others are an aim
		}
		for _, peer := range []string{ucx, openmpi, mpich} {
			p.Bounds = append(p.Bounds, compare.Bound{ID: fmt.Sprintf("B2-%d", 5+i), Over: peer,
				Ratio: compare.OfRates, Limit: limits[peer]})
		}
		out = append(out, p)
	}
	return out
}

// alternate renews two implementations, each first in turn: the one that starts first gets the
// memory that the last ones left, and that is worth a percent.
func (c *Comparison) alternate(a, b string) func(context.Context) error {
	return func(ctx context.Context) error {
		err := c.renew(ctx, a, b)
		a, b = b, a
		return err
	}
}

func (c *Comparison) awarePlans() []*compare.Plan {
	plan := func(id, name, title string, limit float64, job peers.Job) *compare.Plan {
		return &compare.Plan{
			Name: name, Title: title, Precision: precisionAware,
			Sources: c.sources(job, ours, unaware), RenewEvery: renewEvery,
			Renew:  c.alternate(ours, unaware),
			Bounds: []compare.Bound{{ID: id, Over: unaware, Ratio: compare.OfTimes, Limit: limit}},
		}
	}
	return []*compare.Plan{
		plan("B2-11", "aware/latency/8", "aware over unaware, 8-byte latency", 1.012,
			peers.Job{Test: peers.Latency, Size: 8, Window: 1}),
		plan("B2-12", "aware/bw/1048576", "aware over unaware, time of 1 MiB at bandwidth", 1.004,
			peers.Job{Test: peers.Bandwidth, Size: 1 << 20, Window: 64}),
	}
}

// matchPlans: the time of a match with the last entry of a queue, and for the longest queue in a
// bound the increase over the shortest.
func (c *Comparison) matchPlans() []*compare.Plan {
	var out []*compare.Plan
	for _, m := range []struct {
		id   string
		test peers.Test
	}{{"B3-5", peers.Posted}, {"B3-6", peers.Unexpected}} {
		for _, n := range c.Entries {
			p := &compare.Plan{
				Name:      fmt.Sprintf("match/%s/%d", m.test, n),
				Title:     fmt.Sprintf("match with the last of %d %s", n, matchWords[m.test]),
				Precision: precisionRuns,
				Sources:   c.sources(peers.Job{Test: m.test, Size: n, Window: 1}, participants[groupMatch]...),
				Bounds: []compare.Bound{{Over: openmpi, Ratio: compare.OfTimes},
					{Over: mpich, Ratio: compare.OfTimes}},
			}
			if n == MatchLong {
				short := c.sources(peers.Job{Test: m.test, Size: MatchShort, Window: 1}, roomy)
				short[0].Name = fmt.Sprintf("itself, %d", MatchShort)
				p.Sources = append(p.Sources, short...)
				p.Bounds = append(p.Bounds, compare.Bound{ID: m.id, Over: short[0].Name, Ratio: compare.OfTimes,
					Limit: MatchLimit})
			}
			out = append(out, p)
		}
	}
	return out
}

var matchWords = map[peers.Test]string{peers.Posted: "posted receives", peers.Unexpected: "unexpected messages"}

// The bounds B3-5 and B3-6: with MatchLong entries a match takes at most MatchLimit times as long
// as with MatchShort.
const (
	MatchLong  = 10_000
	MatchShort = 10
	MatchLimit = 3.0
)

// Awareness measures the latency of messages of a size, aware over unaware. Each observation is of
// renewEvery pairs that share processes.
func (c *Comparison) Awareness(ctx context.Context, size, renewEvery int, l compare.Limits) (*compare.Result, error) {
	r := compare.Runner{Measure: c.control.Measure, Limits: l}
	return r.Run(ctx, &compare.Plan{
		Name: fmt.Sprintf("aware/latency/%d", size), Precision: precisionAware,
		Sources:    c.sources(peers.Job{Test: peers.Latency, Size: size, Window: 1}, ours, unaware),
		RenewEvery: renewEvery, Renew: c.alternate(ours, unaware),
		Bounds: []compare.Bound{{Over: unaware, Ratio: compare.OfTimes}},
	})
}
