package sim

// NodePort is a network port that all processes of a node share. Its one engine handles frames in
// both directions, one after another: g for each, and n·G in addition for frames that leave, on
// [fabric.LinkSwitch] and [fabric.LinkAcross]. So processes of a node that send at once wait for
// each other, and a node with many senders falls behind. The zero value gives each process a port
// of its own, which ignores arrivals.
type NodePort struct {
	Shared bool
	// AckEvery is the number of frames that may arrive over a connection, without a frame in the
	// other direction that could carry the acknowledgement, before a separate acknowledgement; 0:
	// never. It passes the engines of both nodes, g at each, and uses no core. TCP acknowledges at
	// least every second segment (RFC 1122, 4.2.3.2).
	AckEvery int
}

// engine is the port of a node.
type engine struct{ free Picos }

// take keeps the engine busy for d, from now or from when it is free, and returns the beginning.
func (e *engine) take(now, d Picos) Picos {
	from := max(now, e.free)
	e.free = from + d
	return from
}

// engineOf is the engine that a flow's frames pass at a process, nil if there is none: then they
// pass the port of the process.
func (s *Sim) engineOf(f *flow, at *Proc) *engine {
	if !s.cfg.NodePort.Shared || portOf[f.class] != portNet {
		return nil
	}
	return &s.engines[int(at.id)/s.cfg.Topology.ProcsPerNode]
}

// pass makes a frame pass the engine of the receiver's node, and reports whether there is one.
func (f *flow) pass(fr *frame, s *Sim) bool {
	e := s.engineOf(f, f.to)
	if e == nil || fr.passed {
		return false
	}
	fr.passed = true
	s.push(e.take(s.present(), f.link.Gap)+f.link.Gap, fr)
	if every := s.cfg.NodePort.AckEvery; every > 0 {
		if f.unacked++; int(f.unacked) == every {
			f.unacked = 0
			left := e.take(s.present(), f.link.Gap)
			s.push(left+f.link.Latency, (*acknowledgement)(f))
		}
	}
	return true
}

// acknowledgement is a flow as an event: an acknowledgement reaches the sender's node.
type acknowledgement flow

func (a *acknowledgement) happen(s *Sim) *task {
	f := (*flow)(a)
	s.engineOf(f, f.from).take(s.present(), f.link.Gap)
	return nil
}

// numEngines is the number of nodes, if their ports are shared.
func (c *Config) numEngines() int {
	if !c.NodePort.Shared {
		return 0
	}
	return (c.Procs + c.Topology.ProcsPerNode - 1) / c.Topology.ProcsPerNode
}
