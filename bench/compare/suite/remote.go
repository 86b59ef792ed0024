package suite

import (
	"github.com/banyan-hpc/banyan/bench/compare"
	"github.com/banyan-hpc/banyan/bench/peers"
)

// remotePlans are B20-2, a part of B20-6, and locks: operations on the memory of the other rank. "At most 0.8 of
// the better one" is "at most 0.8 of each", and so for the bandwidth.
func (c *Comparison) remotePlans() (plans []*compare.Plan) {
	for _, m := range []struct {
		name, title string
		job         peers.Job
		bound       compare.Bound
	}{
		{"rma/put/8", "put of 8 bytes and flush", peers.Job{Test: peers.Put, Size: 8, Window: 1}, remoteTimes},
		{"rma/get/8", "get of 8 bytes and flush", peers.Job{Test: peers.Get, Size: 8, Window: 1}, remoteTimes},
		{"rma/fop/8", "fetch-and-add of 8 bytes and flush",
			peers.Job{Test: peers.FetchAdd, Size: peers.FetchAddSize, Window: 1}, remoteTimes},
		{"rma/putbw/1048576", "bandwidth of puts, window 64, 1048576 bytes",
			peers.Job{Test: peers.PutBandwidth, Size: 1 << 20, Window: 64}, remoteRates},
		{"rma/lock/shared", "shared lock and unlock", peers.Job{Test: peers.LockShared, Window: 1}, lockTimes},
		{"rma/lock/exclusive", "exclusive lock and unlock", peers.Job{Test: peers.LockExclusive, Window: 1}, lockTimes},
	} {
		p := &compare.Plan{Name: m.name, Title: m.title, Precision: precisionRemote,
			Sources: c.sources(m.job, participants[groupRMA]...)}
		for _, peer := range participants[groupRMA][1:] {
			m.bound.Over = peer
			p.Bounds = append(p.Bounds, m.bound)
		}
		plans = append(plans, p)
	}
	return plans
}

// The bounds of operations on memory.
var (
	remoteTimes = compare.Bound{ID: "B20-2", Ratio: compare.OfTimes, Limit: 0.8}
	remoteRates = compare.Bound{ID: "B20-6", Ratio: compare.OfRates, Limit: 1}
	lockTimes   = compare.Bound{Ratio: compare.OfTimes} // B20-9 has no limit
)
