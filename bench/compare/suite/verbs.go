package suite

import (
	"context"
	"fmt"

	"github.com/banyan-hpc/banyan/bench/compare"
	"github.com/banyan-hpc/banyan/bench/peers"
	"github.com/banyan-hpc/banyan/internal/job"
)

// oursVerbs is Banyan over RDMA alone, with messages from registered memory.
const oursVerbs = "banyan-verbs"

// The programs of perftest, through the same port. Alone is ib_write_bw with one write at a time: the time of a
// write with its completion, like a put with its flush. ib_write_lat measures half of a ping-pong of two writes.
const (
	sendLatency  = "ib_send_lat"
	writeLatency = "ib_write_lat"
	writeAlone   = "ib_write_bw -t 1"
	readLatency  = "ib_read_lat"
	sendRate     = "ib_send_bw"
	writeRate    = "ib_write_bw"
	readRate     = "ib_read_bw"
)

// perftests are the programs by name.
var perftests = map[string]peers.Perftest{
	sendLatency: {Program: sendLatency}, writeLatency: {Program: writeLatency}, readLatency: {Program: readLatency},
	writeAlone: {Program: writeRate, Alone: true},
	sendRate:   {Program: sendRate}, writeRate: {Program: writeRate}, readRate: {Program: readRate},
}

// adapterWindow is the number of messages on their way in the measures of bandwidth: a megabyte each takes a while over
// devices made of software.
const adapterWindow = 8

// addPerftest finds a program of perftest.
func (c *Comparison) addPerftest(ctx context.Context, name string) error {
	ports, err := job.AdapterPorts(nil)
	if err != nil {
		return err
	}
	p := perftests[name]
	port := ports[0]
	p.Device, p.Port, p.GID, p.CPUs = port.Device, port.Number, port.GID, c.cpus
	if err := p.Find(); err != nil {
		return err
	}
	c.runners[name], c.words[name], c.commands[name] = &p, p.Words(ctx), p.Command()
	return nil
}

// adapter is the error where no rank can use one.
func adapter() error {
	if _, err := job.AdapterPorts(nil); err != nil {
		return fmt.Errorf("group %s needs an RDMA adapter; a virtual machine can have one made of software, see "+
			"docs/clusters.md: %w", groupVerbs, err)
	}
	return nil
}

// verbsPlans are B21-1 to B21-3. "At least 0.9 of the better one" is "at least 0.9 of each".
func (c *Comparison) verbsPlans() []*compare.Plan {
	over := func(peer, id string, limit float64) compare.Bound {
		return compare.Bound{ID: id, Over: peer, Ratio: compare.OfTimes, Limit: limit}
	}
	plans := []*compare.Plan{
		c.verbsPlan("verbs/latency/8", "8-byte tagged one-way latency over RDMA", peers.Job{Test: peers.Latency, Size: 8, Window: 1},
			over(sendLatency, "B21-1", 1.25)),
		c.verbsPlan("verbs/pingput/8", "put of 8 bytes over RDMA, one way of a ping-pong through memory",
			peers.Job{Test: peers.PutPingPong, Size: 8, Window: 1}, over(writeLatency, "B21-3", 1.25)),
		c.verbsPlan("verbs/put/8", "put of 8 bytes and flush over RDMA", peers.Job{Test: peers.Put, Size: 8, Window: 1},
			over(writeLatency, "", 0), over(writeAlone, "", 0)),
		c.verbsPlan("verbs/get/8", "get of 8 bytes and flush over RDMA", peers.Job{Test: peers.Get, Size: 8, Window: 1},
			over(readLatency, "B21-3", 1.25)),
	}
	for _, size := range []int{64 << 10, 1 << 20} {
		rate := func(peer, id string, limit float64) compare.Bound {
			return compare.Bound{ID: id, Over: peer, Ratio: compare.OfRates, Limit: limit}
		}
		plans = append(plans, c.verbsPlan(fmt.Sprintf("verbs/bw/%d", size),
			fmt.Sprintf("bandwidth over RDMA, registered memory, window %d, %d bytes", adapterWindow, size),
			peers.Job{Test: peers.Bandwidth, Size: size, Window: adapterWindow},
			rate(writeRate, "B21-2", 0.9), rate(readRate, "B21-2", 0.9), rate(sendRate, "", 0)))
	}
	return plans
}

// verbsPlan is a plan of Banyan and the peers of the bounds.
func (c *Comparison) verbsPlan(name, title string, j peers.Job, bounds ...compare.Bound) *compare.Plan {
	p := &compare.Plan{Name: name, Title: title, Precision: precisionRemote, Sources: c.sources(j, oursVerbs), Bounds: bounds}
	for _, b := range bounds {
		if c.runners[b.Over] != nil {
			p.Sources = append(p.Sources, c.perftestSource(b.Over, j))
		}
	}
	return p
}

// noControl is in place of the control: messages of an adapter do not follow the distance of the cores. Where the device is made of
// software and the machine emulated, a control of cores changes from sample to sample, and most would be dropped.
func noControl(context.Context) (float64, error) { return 1e-6, nil }

// perftestSource runs a program with a fixed number of messages: its start takes longer than they do, so none is run
// to find out how many fit a sample.
func (c *Comparison) perftestSource(name string, j peers.Job) compare.Source {
	const bytes, most = 16 << 20, 1000
	j.Iters = max(1, min(most, bytes/j.Size)/j.Window)
	return compare.Source{Name: name, Sample: func(ctx context.Context) (float64, error) {
		d, err := c.runners[name].Run(ctx, j)
		return d.Seconds() / j.Messages(), err
	}}
}
