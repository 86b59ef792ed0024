package netns

import (
	"fmt"

	"github.com/vishvananda/netlink"
)

// shape limits a host's link. The rate holds at both ends, so it bounds the data that the host sends and
// those that all others send to it. The delay applies to frames that the host sends, so a round trip
// takes it twice.
func (n *Net) shape(host int) error {
	inner, outer := n.hosts[host].route, n.bridge.route
	if n.cfg.DelayUs > 0 {
		if err := inner.QdiscReplace(netem(n.eth0[host], n.cfg)); err != nil {
			return fmt.Errorf("netns: delay host %d: %w", host, needs(err, "CONFIG_NET_SCH_NETEM", "sch_netem"))
		}
	}
	if n.cfg.RateMbit == 0 {
		return nil
	}
	err := outer.QdiscReplace(tokenBucket(firstPort+host, n.cfg))
	if err == nil && n.cfg.DelayUs == 0 { // otherwise netem keeps the rate
		err = inner.QdiscReplace(tokenBucket(n.eth0[host], n.cfg))
	}
	if err != nil {
		return fmt.Errorf("netns: limit the rate of host %d: %w", host, needs(err, "CONFIG_NET_SCH_TBF", "sch_tbf"))
	}
	return nil
}

// bytesPerSecond is the rate in the kernel's unit.
func (c Config) bytesPerSecond() uint64 { return uint64(c.RateMbit) * 1_000_000 / 8 }

func root(index int) netlink.QdiscAttrs {
	return netlink.QdiscAttrs{LinkIndex: index, Parent: netlink.HANDLE_ROOT, Handle: netlink.MakeHandle(1, 0)}
}

// tokenBucket lets bursts of a millisecond pass, which keeps the cost per frame low at high rates, and
// queues 50 ms before it drops, as switches do.
func tokenBucket(index int, c Config) *netlink.Tbf {
	rate := c.bytesPerSecond()
	burst := uint32(max(rate/1000, 2*uint64(c.MTU), 16<<10))
	return &netlink.Tbf{
		QdiscAttrs: root(index), Rate: rate,
		Limit:  uint32(min(max(rate/20, 256<<10), 1<<31)),
		Buffer: netlink.Xmittime(rate, burst),
	}
}

// netem delays frames. It also keeps the rate, since an interface has one discipline.
func netem(index int, c Config) *netlink.Netem {
	const frames = 1 << 20 // in flight at most: more than any delay and rate here need
	return netlink.NewNetem(root(index), netlink.NetemQdiscAttrs{
		Latency: uint32(c.DelayUs), Limit: frames, Rate64: c.bytesPerSecond(),
	})
}
