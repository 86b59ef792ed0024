package sim

import (
	"testing"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// message is a message that a sink received.
type message struct {
	from  proc.ID
	class fabric.Class
	imm   uint64
	data  string
	at    fabric.Time
}

// end is evidence that a sink received.
type end struct {
	peer  proc.ID
	cause proc.Cause // Departed for Sink.Departed
}

// node is the smallest engine: it pumps one provider and waits as the contract
// demands.
type node struct {
	p    *Proc
	host fabric.Host
	prov fabric.Provider
	sink fabric.Sink
	got  uint64
	ends []end
	log  []message // only if keep
	keep bool
	// onFrame and onEnd get the sink's input first.
	onFrame func(message)
	onEnd   func()
}

func newNode(p *Proc) *node {
	n := &node{}
	n.init(p)
	return n
}

func (n *node) init(p *Proc) {
	n.p, n.host, n.prov = p, p.Host(), p.Provider()
	for c := range n.sink.Deliver {
		n.sink.Deliver[c] = func(from proc.ID, imm uint64, payload []byte) {
			n.got++
			if !n.keep {
				return
			}
			m := message{from, fabric.Class(c), imm, string(payload), n.host.Now()}
			if n.onFrame != nil {
				n.onFrame(m)
			}
			n.log = append(n.log, m)
		}
	}
	n.sink.Down = func(peer proc.ID, cause proc.Cause) { n.ended(end{peer, cause}) }
	n.sink.Departed = func(peer proc.ID) { n.ended(end{peer, proc.Cause{Kind: proc.Departed}}) }
}

func (n *node) ended(e end) {
	if n.onEnd != nil {
		n.onEnd()
	}
	n.ends = append(n.ends, e)
}

func (n *node) connect(peer proc.ID) fabric.Conn {
	c, err := n.prov.Connect(fabric.ConnectSpec{Peer: peer, Address: Address(peer)})
	if err != nil {
		panic(err)
	}
	return c
}

// pump makes progress, or sleeps until something may have changed.
func (n *node) pump(until fabric.Time) {
	if n.prov.Poll(&n.sink) > 0 {
		return
	}
	n.host.Arm()
	if n.prov.Ready() {
		n.host.Disarm()
		return
	}
	n.host.Sleep(until)
}

func (n *node) pumpUntil(done func() bool) {
	for !done() {
		n.pump(fabric.Forever)
	}
}

func (n *node) pumpFor(until fabric.Time) {
	for n.host.Now() < until {
		n.pump(until)
	}
}

func (n *node) send(c fabric.Conn, imm uint64, payload []byte) {
	for !c.TrySend(fabric.ClassTest, imm, payload) {
		n.pump(fabric.Forever)
	}
}

func newSim(tb testing.TB, cfg Config) *Sim {
	tb.Helper()
	s, err := New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func spawn(tb testing.TB, s *Sim, id proc.ID, body func(*Proc)) {
	tb.Helper()
	if err := s.Spawn(id, body); err != nil {
		tb.Fatal(err)
	}
}
