package predict

import (
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/sim"
)

// shared reports whether an edge's frames pass ports that nodes share.
func (m *machine) shared(edge int32) bool {
	return m.job.Machine.NodePort.Shared && m.ranks[edge].link >= fabric.LinkSwitch
}

// take occupies the engine of a node for d as soon as it is free, and returns the start.
func (m *machine) take(node int32, d sim.Picos) sim.Picos {
	from := max(m.now, m.engines[node])
	m.engines[node] = from + d
	return from
}

// transmit puts a frame on the wire at this instant.
func (m *machine) transmit(edge int32, down bool, v int32) {
	r, l := &m.ranks[v], m.link(edge)
	transfer := l.GapPerByte * sim.Picos(m.ranks[edge].bytes)
	m.flow(edge, !down).unacked = 0
	var start sim.Picos
	switch {
	case m.shared(edge):
		start = m.take(r.node, l.Gap+transfer)
		m.push(start+l.Latency+transfer, lands, edge, down)
		return
	case m.ranks[edge].link == fabric.LinkNode:
		start = max(m.now, r.near)
		r.near = start + l.Gap + transfer
	default:
		start = max(m.now, r.free)
		r.free = start + l.Gap + transfer
	}
	m.push(start+l.Latency+transfer, arrives, edge, down)
}

// land has a frame pass the engine of its receiver's node.
func (m *machine) land(edge int32, down bool) {
	node, l := m.ranks[m.receiver(edge, down)].node, m.link(edge)
	m.push(m.take(node, l.Gap)+l.Gap, arrives, edge, down)
	f := m.flow(edge, down)
	if f.unacked++; int(f.unacked) == m.job.Machine.NodePort.AckEvery {
		f.unacked = 0
		m.push(m.take(node, l.Gap)+l.Latency, acked, edge, down)
	}
}
