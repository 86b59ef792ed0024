package route

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"slices"
)

// Topology maps the ranks of a job to nodes. Its memory grows with the number of blocks of ranks
// that share a node.
type Topology struct {
	// Apart: some two ranks do not share memory, or may not, so sockets are needed.
	Apart bool
	// Differs is the lowest rank that differs from rank 0 in a setting that all have alike, In; 0: none does.
	Differs int
	In      Setting
	size    int
	nodes   int
	runs    []run
	crowded []bool // of each node
}

// Setting is one that all ranks have alike.
type Setting uint8

// The settings.
const (
	InDebug      Setting = iota // Card.Debug
	InAlgorithms                // Card.Algorithms
	settings
)

// run is a block of ranks from first on that share one node.
type run struct{ first, node int }

// Survey reads the cards of all ranks, in the order of ranks; it calls card once for each. Nodes
// are numbered from 0 by their lowest ranks.
func Survey(size int, card func(rank int) (*Card, error)) (*Topology, error) {
	s := survey{
		t:      &Topology{size: size},
		nodes:  make(map[Node]int),
		places: make(map[machine]*coreShare),
	}
	for rank := range size {
		c, err := card(rank)
		if err != nil {
			return nil, err
		}
		s.add(rank, c)
	}
	s.t.Apart = s.t.Apart || s.t.nodes > 1
	s.judge()
	return s.t, nil
}

type survey struct {
	t      *Topology
	nodes  map[Node]int
	quotas []coreShare // of each node: ranks, and the least quota
	boots  [][16]byte
	places map[machine]*coreShare
	first  *Card // of rank 0
}

// machine identifies a machine: all its processes share its cores, in all namespaces.
type machine [16]byte

// coreShare is a number of ranks and the cores that they share.
type coreShare struct {
	ranks int
	quota uint32 // in thousandths; 0: none
	cores []byte
}

func (s *survey) add(rank int, c *Card) {
	t := s.t
	key := c.Node.group()
	node, known := s.nodes[key]
	if !known || key.Hidden { // a hidden process shares memory with none
		node = t.nodes
		s.nodes[key] = node
		t.nodes++
		s.quotas = append(s.quotas, coreShare{})
		s.boots = append(s.boots, c.Node.Boot)
	}
	if n := len(t.runs); n == 0 || t.runs[n-1].node != node {
		t.runs = append(t.runs, run{rank, node})
	}
	t.Apart = t.Apart || !c.Allowed.Has(Shm)
	switch {
	case rank == 0:
		s.first = c
	case t.Differs > 0:
	case c.Debug != s.first.Debug:
		t.Differs, t.In = rank, InDebug
	case c.Algorithms != s.first.Algorithms:
		t.Differs, t.In = rank, InAlgorithms
	}
	q := &s.quotas[node]
	q.ranks++
	if c.Quota != 0 && (q.quota == 0 || c.Quota < q.quota) {
		q.quota = c.Quota
	}
	m := s.places[c.Node.Boot]
	if m == nil {
		m = new(coreShare)
		s.places[c.Node.Boot] = m
	}
	m.ranks++
	m.take(c.Cores)
}

func (m *coreShare) take(cores []byte) {
	if n := len(cores) - len(m.cores); n > 0 {
		m.cores = append(m.cores, make([]byte, n)...)
	}
	for i, b := range cores {
		m.cores[i] |= b
	}
}

// judge finds the nodes whose ranks must share cores: there are more ranks than cores on which they
// may run, or than their control group permits. This counts bound ranks correctly, bound by any
// program.
func (s *survey) judge() {
	for node, q := range s.quotas {
		m, cores := s.places[s.boots[node]], 0
		for _, b := range m.cores {
			cores += bits.OnesCount8(b)
		}
		s.t.crowded = append(s.t.crowded, m.ranks > cores || q.quota != 0 && 1000*q.ranks > int(q.quota))
	}
}

// Size is the number of ranks.
func (t *Topology) Size() int { return t.size }

// Nodes is the number of nodes.
func (t *Topology) Nodes() int { return t.nodes }

// Node is the number of a rank's node. Precondition: 0 ≤ rank < Size.
func (t *Topology) Node(rank int) int {
	i, found := slices.BinarySearchFunc(t.runs, rank, func(r run, rank int) int { return r.first - rank })
	if !found {
		i--
	}
	return t.runs[i].node
}

// Ranks is the number of ranks of a node.
func (t *Topology) Ranks(node int) int {
	n := 0
	for rank := range t.size {
		if t.Node(rank) == node {
			n++
		}
	}
	return n
}

// Crowded reports whether the ranks of a node must share cores.
func (t *Topology) Crowded(node int) bool { return t.crowded[node] }

// One is the topology of ranks that all share one node.
func One(size int) *Topology {
	return &Topology{size: size, nodes: 1, runs: []run{{}}, crowded: []bool{false}}
}

const (
	topologyVersion = 3
	// maxRuns bounds the decoded number: a job has at most as many ranks.
	maxRuns = 1 << 20
)

// Encode returns the published form: version, Apart, In, Differs, the number of nodes, a bit for each that is
// crowded, and the runs, each as its length and its node. Runs of one rank that alternate between
// nodes are the worst case: two to four bytes per rank.
func (t *Topology) Encode() []byte {
	b := []byte{topologyVersion, flag(t.Apart), byte(t.In)}
	b = binary.AppendUvarint(b, uint64(t.Differs))
	b = binary.AppendUvarint(b, uint64(t.nodes))
	crowded := make([]byte, (t.nodes+7)/8)
	for i, c := range t.crowded {
		crowded[i/8] |= flag(c) << (i % 8)
	}
	b = append(b, crowded...)
	for i, r := range t.runs {
		end := t.size
		if i+1 < len(t.runs) {
			end = t.runs[i+1].first
		}
		b = binary.AppendUvarint(b, uint64(end-r.first))
		b = binary.AppendUvarint(b, uint64(r.node))
	}
	return b
}

var errTopology = errors.New("route: not the topology of this job: start all ranks from one build")

// DecodeTopology reads the result of Encode for a job of that size.
func DecodeTopology(b []byte, size int) (*Topology, error) {
	r := reader{rest: b}
	version, apart, in, differs, nodes := r.uint(1), r.uint(1), Setting(r.uint(1)), r.uvarint(), r.uvarint()
	if version != topologyVersion || in >= settings || differs >= size || nodes < 1 || nodes > min(size, maxRuns) {
		return nil, errTopology
	}
	t := &Topology{Apart: apart != 0, Differs: differs, In: in, size: size, nodes: nodes}
	for i, bytes := 0, r.bytes((nodes+7)/8); i < nodes && !r.short; i++ {
		t.crowded = append(t.crowded, bytes[i/8]>>(i%8)&1 != 0)
	}
	rank := 0
	for rank < size && !r.short {
		length, node := r.uvarint(), r.uvarint()
		if length < 1 || length > size-rank || node >= nodes {
			return nil, errTopology
		}
		t.runs = append(t.runs, run{rank, node})
		rank += length
	}
	if r.short || len(r.rest) != 0 {
		return nil, errTopology
	}
	return t, nil
}
