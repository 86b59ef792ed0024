package main

import (
	"context"
	"fmt"

	"github.com/banyan-hpc/banyan/bench/compare"
	"github.com/banyan-hpc/banyan/bench/peers"
)

// The measures and bounds of docs/status.md, B2-1 to B2-12. Their precisions are
// those of the issue: 3 %, and 0.3 % for what awareness costs.
const (
	precision      = 0.03
	precisionAware = 0.003
	// renewEvery is the number of pairs that share processes where fractions of a
	// percent count: two pairs of processes differ by more than that.
	renewEvery = 5
)

// plans returns the plans of the groups that were asked for.
func (c *contest) plans(groups []string) []*compare.Plan {
	var out []*compare.Plan
	for _, g := range groups {
		out = append(out, map[string]func() []*compare.Plan{
			groupLatency: c.latencyPlans, groupBandwidth: c.bandwidthPlans, groupAware: c.awarePlans,
		}[g]()...)
	}
	return out
}

// The groups of measures.
const (
	groupLatency   = "latency"
	groupBandwidth = "bw"
	groupAware     = "aware"
)

// participants are the implementations that a group needs.
var participants = map[string][]string{
	groupLatency:   {ours, ucx, openmpi, mpich},
	groupBandwidth: {ours, ucx, openmpi, mpich},
	groupAware:     {ours, unaware},
}

func (c *contest) latencyPlans() []*compare.Plan {
	sources := c.sources(peers.Job{Test: peers.Latency, Size: 8, Window: 1}, participants[groupLatency]...)
	return []*compare.Plan{{
		Name: "latency/8", Title: "8-byte tagged one-way latency", Precision: precision,
		Sources: append(sources, c.sources(peers.Job{Test: peers.Bare, Window: 1}, bare)...),
		Bounds: []compare.Bound{
			{ID: "B2-1", Over: ucx, Ratio: compare.OfTimes, Limit: 0.90},
			{ID: "B2-2", Over: openmpi, Ratio: compare.OfTimes, Limit: 1},
			{ID: "B2-3", Over: mpich, Ratio: compare.OfTimes, Limit: 1},
			{ID: "B2-4", Over: bare, Ratio: compare.OfTimes, Limit: 1.5, OnlyFast: true},
			{Over: compare.Control, Ratio: compare.OfTimes}, // for information
		},
	}}
}

// bandwidthPlans: "not below the best of them" is "not below any of them".
func (c *contest) bandwidthPlans() []*compare.Plan {
	var out []*compare.Plan
	for i, size := range []int{1, 64, 1 << 10, 8 << 10, 64 << 10, 1 << 20} {
		p := &compare.Plan{
			Name: fmt.Sprintf("bw/%d", size), Title: fmt.Sprintf("bandwidth, window 64, %d bytes", size), Precision: precision,
			Sources: c.sources(peers.Job{Test: peers.Bandwidth, Size: size, Window: 64}, participants[groupBandwidth]...),
		}
		limits := map[string]float64{ucx: 0.95, openmpi: 0.95, mpich: 0.95}
		if size == 1 {
			limits = map[string]float64{ucx: 1} // the others are an aim
		}
		for _, peer := range []string{ucx, openmpi, mpich} {
			p.Bounds = append(p.Bounds, compare.Bound{ID: fmt.Sprintf("B2-%d", 5+i), Over: peer, Ratio: compare.OfRates, Limit: limits[peer]})
		}
		out = append(out, p)
	}
	return out
}

// alternate renews two implementations, each first in turn: who starts first
// gets the memory that the last ones left, and that is worth a percent.
func (c *contest) alternate(a, b string) func(context.Context) error {
	return func(ctx context.Context) error {
		err := c.renew(ctx, a, b)
		a, b = b, a
		return err
	}
}

func (c *contest) awarePlans() []*compare.Plan {
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
