package netns

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Attributes of queueing disciplines, from linux/pkt_sched.h.
const (
	tcaTbfParms       = 1
	tcaTbfRate64      = 4
	tcaTbfBurst       = 6
	tcaNetemRate      = 6
	tcaNetemRate64    = 8
	tcaNetemLatency64 = 10
	linkLayerEthernet = 1
	qdiscRoot         = 0xffffffff
)

// shape slows a host's link down. The rate holds at both ends, so that it bounds
// what the host sends and what all others together send to it. The delay is on
// what the host sends, so a round trip takes it twice.
func (n *Net) shape(host int) error {
	out := n.hosts[host].route
	if n.cfg.DelayUs > 0 {
		if err := out.ask(netem(eth0Index, n.cfg)); err != nil {
			return fmt.Errorf("netns: delay host %d: %w", host, needs(err, "CONFIG_NET_SCH_NETEM", "sch_netem"))
		}
	}
	if n.cfg.RateMbit == 0 {
		return nil
	}
	err := n.bridge.route.ask(tokenBucket(firstPort+host, n.cfg))
	if err == nil && n.cfg.DelayUs == 0 { // else netem keeps the rate
		err = out.ask(tokenBucket(eth0Index, n.cfg))
	}
	if err != nil {
		return fmt.Errorf("netns: limit the rate of host %d: %w", host, needs(err, "CONFIG_NET_SCH_TBF", "sch_tbf"))
	}
	return nil
}

// bytesPerSecond is the rate in the kernel's unit.
func (c Config) bytesPerSecond() uint64 { return uint64(c.RateMbit) * 1_000_000 / 8 }

// queue begins a message that gives an interface its queueing discipline.
func queue(index int, kind string) *message {
	header := make([]byte, 4, 20) // struct tcmsg
	for _, v := range []uint32{uint32(index), 0, qdiscRoot, 0} {
		header = native.AppendUint32(header, v)
	}
	m := request(unix.RTM_NEWQDISC, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, header)
	m.putString(unix.TCA_KIND, kind)
	return m
}

// tokenBucket lets bursts of a millisecond pass, which keeps the cost per frame
// low at high rates, and queues 50 ms before it drops, as switches do.
func tokenBucket(index int, c Config) *message {
	rate := c.bytesPerSecond()
	burst := uint32(max(rate/1000, 2*uint64(c.MTU), 16<<10))
	params := make([]byte, 0, 36) // struct tc_tbf_qopt
	params = append(params, 0, linkLayerEthernet, 0, 0, 0, 0, 0, 0)
	params = native.AppendUint32(params, uint32(min(rate, 1<<32-1)))
	params = append(params, make([]byte, 12)...) // no peak rate
	params = native.AppendUint32(params, uint32(min(max(rate/20, 256<<10), 1<<31)))
	params = append(params, make([]byte, 8)...) // the burst has an attribute
	m := queue(index, "tbf")
	m.nest(unix.TCA_OPTIONS, func() {
		m.put(tcaTbfParms, params)
		m.putU32(tcaTbfBurst, burst)
		if rate >= 1<<32 {
			m.putU64(tcaTbfRate64, rate)
		}
	})
	return m
}

// netem delays frames, and keeps the rate since an interface has one discipline.
func netem(index int, c Config) *message {
	const frames = 1 << 20 // on their way at most: more than any delay and rate here need
	m := queue(index, "netem")
	m.nest(unix.TCA_OPTIONS, func() {
		m.b = append(m.b, make([]byte, 24)...) // struct tc_netem_qopt
		native.PutUint32(m.b[len(m.b)-20:], frames)
		m.putU64(tcaNetemLatency64, uint64(c.DelayUs)*1000)
		if rate := c.bytesPerSecond(); rate > 0 {
			params := native.AppendUint32(nil, uint32(min(rate, 1<<32-1))) // struct tc_netem_rate
			m.put(tcaNetemRate, append(params, make([]byte, 12)...))
			m.putU64(tcaNetemRate64, rate)
		}
	})
	return m
}
