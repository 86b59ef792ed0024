package predict

import (
	"errors"

	"github.com/banyan-hpc/banyan/coll/tree"
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/sim"
)

// Run follows every message of a job and returns its time. The same job gives the same time.
func Run(j Job) (Result, error) {
	if err := j.check(); err != nil {
		return Result{}, err
	}
	a := tree.Except(j.Ranks, j.Dead...)
	net, err := newShape(&j, a)
	if err != nil {
		return Result{}, err
	}
	m := newMachine(&j, net, a)
	for v := range m.ranks {
		m.queue.push(event{rank: int32(v), what: goesOn})
	}
	for len(m.queue.heap) > 0 {
		e := m.queue.pop()
		m.now = e.at
		m.happen(e)
	}
	if m.over < len(m.ranks) {
		return Result{}, errors.New("predict: the operation does not end") // a tree whose edges do not agree
	}
	return Result{Time: m.last, Rounds: j.Rounds, Messages: j.messages(net), Depth: net.depth, Degree: net.degree}, nil
}

// messages is how many there are in a round.
func (j *Job) messages(net *shapeOf) int {
	ways := 0
	if j.Op.up() {
		ways++
	}
	if j.Op.down() {
		ways++
	}
	return ways * (len(net.parent) - 1)
}

// flow is one direction of the edge between a rank and its parent.
type flow struct {
	got     int32 // messages handled, not yet waited for
	used    int32 // credits
	unacked int32
}

// rank is the progress of a rank, and the frames that have arrived.
type rank struct {
	round   int32
	step    int32
	node    int32
	waits   bool    // for a frame or a credit
	inbox   []int32 // senders of arrived frames, in order: a child, or none for the parent
	head    int
	handles int32     // the sender of the frame that is being handled
	near    sim.Picos // when its port to the node is free
	free    sim.Picos // and that to the network
	each    sim.Picos // cost of the design for a message
	begin   sim.Picos // and to a round
	started bool
	link    fabric.LinkClass // to the parent
	bytes   int              // of messages over the edge to the parent
}

// machine is all that changes while a job runs.
type machine struct {
	job      *Job
	net      *shapeOf
	queue    queue
	now      sim.Picos
	ranks    []rank
	up, down []flow
	engines  []sim.Picos // of the nodes: when each is free
	over     int
	last     sim.Picos
}

func newMachine(j *Job, net *shapeOf, a *tree.Alive) *machine {
	n := len(net.parent)
	m := &machine{job: j, net: net, ranks: make([]rank, n), up: make([]flow, n), down: make([]flow, n)}
	perNode := j.Machine.Topology.ProcsPerNode
	m.engines = make([]sim.Picos, (j.Machine.Procs+perNode-1)/perNode)
	for v := range m.ranks {
		r := &m.ranks[v]
		r.node = int32(j.node(a.Rank(v)))
		r.bytes = j.length(net.subtree[v])
		r.each, r.begin = j.awareness(net, int32(v))
	}
	for v := range m.ranks {
		if up := net.parent[v]; up != none {
			m.ranks[v].link = m.class(m.ranks[v].node, m.ranks[up].node)
		}
	}
	return m
}

func (m *machine) class(a, b int32) fabric.LinkClass {
	perSwitch := int32(m.job.Machine.Topology.NodesPerSwitch)
	switch {
	case a == b:
		return fabric.LinkNode
	case a/perSwitch == b/perSwitch:
		return fabric.LinkSwitch
	default:
		return fabric.LinkAcross
	}
}

// push queues an event after a while.
func (m *machine) push(at sim.Picos, what happening, rank int32, down bool) {
	m.queue.push(event{at: at, what: what, rank: rank, down: down})
}

func (m *machine) happen(e event) {
	switch e.what {
	case goesOn:
		m.goOn(e.rank)
	case leaves:
		m.leave(e.rank)
	case received:
		m.receive(e.rank)
	case lands:
		m.land(e.rank, e.down)
	case arrives:
		m.arrive(e.rank, e.down)
	case credited:
		m.credit(e.rank, e.down)
	case acked:
		m.take(m.ranks[m.sender(e.rank, e.down)].node, m.link(e.rank).Gap)
	}
}

func (m *machine) link(edge int32) *sim.Link { return &m.job.Machine.Links[m.ranks[edge].link] }

// sender is the sender over an edge, down or up.
func (m *machine) sender(edge int32, down bool) int32 {
	if down {
		return m.net.parent[edge]
	}
	return edge
}

func (m *machine) receiver(edge int32, down bool) int32 { return m.sender(edge, !down) }

func (m *machine) flow(edge int32, down bool) *flow {
	if down {
		return &m.down[edge]
	}
	return &m.up[edge]
}
