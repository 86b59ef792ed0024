package drill

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/pattern"
)

// Config bounds the runs that are drawn.
type Config struct {
	// Min and Max bound the ranks of a run, 2 … MaxRanks. Large runs are rare.
	Min, Max int
	// Fabrics are names of Fabrics, one of which a run has.
	Fabrics []string
	// Profiles are the rules that ranks follow after failures, one for each run.
	Profiles []banyan.Profile
}

// MaxRanks bounds Config.Max.
const MaxRanks = 64

// Fabrics are the ways to connect ranks: one fabric for all; mixed, with others for each rank; hosts,
// with several network namespaces.
func Fabrics() []string { return []string{"shm", "unix", "tcp", "mixed", Hosts} }

// Hosts is the fabric that needs the privilege to make network namespaces.
const Hosts = "hosts"

// Check returns an error for bounds that make no sense.
func (c *Config) Check() error {
	if c.Min < 2 || c.Max < c.Min || c.Max > MaxRanks {
		return fmt.Errorf("fault drill: %d-%d ranks: want 2-32, within 2-%d", c.Min, c.Max, MaxRanks)
	}
	if len(c.Fabrics) == 0 || len(c.Profiles) == 0 {
		return fmt.Errorf("fault drill: no fabric or no profile is left to draw from")
	}
	for _, f := range c.Fabrics {
		if !slices.Contains(Fabrics(), f) {
			return fmt.Errorf("fault drill: fabric %q: want some of %v", f, Fabrics())
		}
	}
	return nil
}

// script determines a run; every rank receives it.
type script struct {
	Config
	Seed  uint64
	Aim   Kind   // the operation of the first death; noKind: it is drawn
	Trace string // the file
}

// flatVariable allows short collectives in shared memory, which half of the runs do.
const (
	flatVariable = "BANYAN_COLL_FLAT"
	off          = "off"
)

func (s *script) flat() string {
	if s.Seed%2 == 0 {
		return off
	}
	return "on"
}

func (s *script) text() string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // everything in it can be encoded
	}
	return string(b)
}

// transfer is one message.
type transfer struct {
	src, dst, tag, size int
	send, recv          Kind
	back                bool // the second half of an exchange
	seed                byte
}

// fill returns the message's data.
func (t *transfer) fill() []byte {
	b := make([]byte, t.size)
	pattern.Fill(b, t.seed)
	return b
}

// anyTag messages have a communicator without other messages.
func (t *transfer) anyTag() bool { return t.recv == irecvAnyTag || t.recv == recvAnyTag }

func (t *transfer) wild() bool { return t.recv == irecvAny || t.recv == recvAny }

// takes reports whether this message may match the early receive on which the sender of another one
// blocks, and leave that one a receive that is posted late.
func (t *transfer) takes(o *transfer) bool {
	return t.dst == o.dst && t.recv == recvAny && o.recv == irecvAny && o.send > lastNonblocking
}

func (t *transfer) exchanged() bool { return t.send > lastSend }

// phase is a part of the program.
type phase struct {
	transfers  []transfer
	shared     shared
	waits      Kind // how requests are waited for
	ack        bool // failures are acknowledged at the end
	repair     *repair
	validation *validation
	interplay  *interplay
	// late is how long each rank waits at the start.
	late []time.Duration
}

// doom is how a rank dies.
type doom struct {
	op    int           // at its operation with this number; 0: by the driver's timer
	aim   Kind          // instead: at its operation of this kind; noKind: none
	in    int           // from this phase on
	delay time.Duration // from there, or from the rank's first report, to SIGKILL
	after bool          // after the success of that operation, not at its start
	last  bool          // instead: when it finalizes
	first bool          // instead: when it starts
	step  uint64        // instead: in place of this step of the simulator; 0: none
}

// byTimer reports whether the driver kills the rank.
func (d doom) byTimer() bool {
	return d.op == 0 && d.aim == noKind && !d.last && !d.first && d.step == 0
}

// plan is a whole run.
type plan struct {
	script
	n       int
	fabric  string   // a name of Fabrics
	words   []string // BANYAN_FABRIC of each rank
	hosts   int      // namespaces, 0: this one
	async   bool
	flooded bool // unauthenticated connections come to the ports meanwhile
	profile banyan.Profile
	phases  []phase
	doomed  map[int]doom
	naps    []nap
	// farewell is a recovery right before Finalize, after which some revoke the world.
	farewell *repair
	// lossy is set where frames in flight are lost with their sender: in some simulated runs.
	lossy bool
}

// dies reports whether a rank may die. If some die while the job starts all may: a rank whose start
// fails exits.
func (p *plan) dies(rank int) bool {
	_, doomed := p.doomed[rank]
	return doomed || p.diesAtStart()
}

// diesAtStart reports whether a rank dies while the job starts.
func (p *plan) diesAtStart() bool {
	for _, d := range p.doomed {
		if d.first {
			return true
		}
	}
	return false
}

// maxPhases bounds the phases of a run.
const maxPhases = 13

// firstTag is the smallest tag of messages.
const firstTag = 1

// newPlan draws a run. The same script gives the same plan in every process.
func newPlan(s script) *plan {
	r := rand.New(rand.NewPCG(s.Seed, 2))
	p := &plan{script: s, doomed: map[int]doom{}, async: r.IntN(4) == 0, flooded: r.IntN(3) == 0}
	p.profile = s.Profiles[r.IntN(len(s.Profiles))]
	p.n = s.Min + r.IntN(min(5, s.Max-s.Min+1))
	switch r.IntN(40) { // a run of 32 ranks on two cores takes as long as twenty of three
	case 0:
		p.n = max(s.Min, s.Max-r.IntN(17))
	case 1, 2:
		p.n = min(s.Max, s.Min+5+r.IntN(9))
	}
	p.drawFabrics(r)
	for range 2 + r.IntN(maxPhases-1) {
		p.phases = append(p.phases, p.drawPhase(r, len(p.phases)))
	}
	deaths := 1 + r.IntN(min(3, p.n-1))
	if r.IntN(6) == 0 {
		deaths = r.IntN(p.n)
	}
	if r.IntN(3) == 0 {
		p.farewell = p.drawRepair(r)
	}
	begin := s.Aim == noKind && r.IntN(8) == 0
	var first doom
	if s.Aim != noKind {
		deaths = max(1, deaths)
	}
	for i, rank := range r.Perm(p.n)[:deaths] {
		switch aimed := r.IntN(2) == 0; {
		case begin:
			p.doomed[rank] = doom{aim: noKind, first: true, delay: time.Duration(r.IntN(12*p.n)) * time.Millisecond}
		case i == 0 && s.Aim != noKind:
			p.doomed[rank] = p.aim(r, rank, s.Aim)
			first = p.doomed[rank]
		case s.Aim > lastCollective && s.Aim <= lastValidation && aimed: // another failure in the same operation
			p.doomed[rank] = doom{aim: s.Aim, in: first.in, delay: time.Duration(r.IntN(400)) * time.Microsecond}
		case aimed:
			p.doomed[rank] = p.aim(r, rank, Kind(r.IntN(int(kinds))))
		default:
			p.doomed[rank] = p.drawDoom(r)
		}
	}
	p.untangle()
	p.drawNaps(r)
	return p
}

// untangle prevents blocking sends to a receive from any source that may end without their message:
// under run-through stabilization at any death, otherwise if a death makes the receiver cancel it.
// The message would be received by name, after other waits of the receiver, which may wait for this
// sender.
func (p *plan) untangle() {
	for _, ph := range p.phases {
		for i := range ph.transfers {
			t := &ph.transfers[i]
			takenBack := slices.ContainsFunc(ph.transfers, func(o transfer) bool {
				return o.dst == t.dst && o.wild() && p.dies(o.src)
			})
			if t.recv == irecvAny && t.send > lastNonblocking && (takenBack || p.profile == banyan.RTS) {
				t.recv = irecv
			}
		}
	}
}

func (p *plan) drawFabrics(r *rand.Rand) {
	p.fabric = p.Fabrics[r.IntN(len(p.Fabrics))]
	if len(p.Fabrics) > 1 && p.fabric == Hosts && (r.IntN(3) > 0 || p.n > 8) {
		p.fabric = p.Fabrics[0] // they are slow
	}
	if p.fabric == Hosts {
		p.hosts = min(p.n, 2+r.IntN(2))
	}
	p.words = make([]string, p.n)
	for i := range p.words {
		p.words[i] = p.fabric
		switch p.fabric {
		case "mixed":
			p.words[i] = []string{"shm,tcp", "shm,unix,tcp", "unix,tcp", "tcp"}[r.IntN(4)]
		case Hosts:
			p.words[i] = "shm,unix,tcp"
		}
	}
}

// drawDoom draws a death, mostly before the rank's last operation.
func (p *plan) drawDoom(r *rand.Rand) doom {
	operations := p.n
	for _, ph := range p.phases {
		operations += 2*len(ph.transfers)/p.n + 2
	}
	d := doom{aim: noKind, delay: time.Duration(r.IntN(300)) * time.Microsecond}
	switch r.IntN(8) {
	case 0:
		d.last, d.delay = true, 10*d.delay
	case 1, 2, 3:
		d.delay = time.Duration(r.IntN(60*operations)) * time.Microsecond
	default:
		d.op = 1 + r.IntN(operations)
		if r.IntN(2) == 0 {
			d.delay = 0
		}
	}
	return d
}

// sizes lie around every threshold: a line, frames, eager limits, fragments.
var sizes = []int{0, 1, 8, 40, 48, 49, 200, 500, 4000, 5000, 9000, 20_000, 70_000, 300_000, 900_000}

func between(r *rand.Rand, first, last Kind) Kind { return first + Kind(r.IntN(int(last-first)+1)) }

func (p *plan) drawPhase(r *rand.Rand, number int) phase {
	ph := phase{
		waits: between(r, waitEach, lastWait), shared: p.drawShared(r, noKind), ack: r.IntN(6) == 0,
		late: make([]time.Duration, p.n),
	}
	if r.IntN(4) == 0 {
		ph.shared.kind = between(r, barrier, lastCollective)
	}
	if r.IntN(3) == 0 {
		ph.repair = p.drawRepair(r)
	}
	if r.IntN(4) == 0 {
		ph.validation = p.drawValidation(r)
	}
	if r.IntN(4) == 0 {
		ph.interplay = p.drawInterplay(r)
	}
	for range 1 + r.IntN(2*p.n) {
		t := transfer{src: r.IntN(p.n), dst: r.IntN(p.n), recv: between(r, irecv, lastReceive)}
		t.send = between(r, isend, lastNonblocking)
		if t.recv <= lastPosted && r.IntN(2) == 0 {
			t.send = between(r, lastNonblocking+1, lastExchange)
		}
		p.put(r, &ph, number, t, sizes[r.IntN(len(sizes)-r.IntN(6))])
	}
	return ph
}

// drawShared draws a collective of a kind.
func (p *plan) drawShared(r *rand.Rand, k Kind) shared {
	s := shared{
		kind: k, nonblocking: between(r, barrier, nonblockingCollective-1),
		rounds: 1 + r.IntN(maxRounds), root: r.IntN(p.n),
		elements: 1 + r.IntN(4)*2500,
		design:   designs[r.IntN(len(designs))], tree: trees[r.IntN(len(trees))],
	}
	if r.IntN(3) == 0 {
		s.elements = 1
	}
	return s
}

// put adds a message to a phase, and the reply of an exchange. Two ranks have at most one message from
// any source or of any tag, so that every match is known. An early receive from any source may take the
// message of a late one; a sender that relies on the early one would then wait for the late one, so
// none of them blocks.
func (p *plan) put(r *rand.Rand, ph *phase, number int, t transfer, size int) {
	t.size, t.seed = size, byte(r.IntN(256))
	if t.exchanged() {
		t.recv = irecv // with a tag of its own
	}
	t.tag = firstTag + number*1000 + len(ph.transfers)
	if t.wild() {
		t.tag = firstTag + number*1000 + 999 // all of a phase
	}
	if slices.ContainsFunc(ph.transfers, func(o transfer) bool {
		return o.src == t.src && o.dst == t.dst && (o.wild() && t.wild() || o.anyTag() && t.anyTag()) ||
			o.takes(&t) || t.takes(&o)
	}) {
		return
	}
	if !t.exchanged() {
		ph.transfers = append(ph.transfers, t)
		return
	}
	if t.src == t.dst {
		t.dst = (t.src + 1) % p.n
	}
	back := t
	back.back = true
	back.src, back.dst, back.tag, back.seed, back.size = t.dst, t.src, t.tag+1, t.seed+1, sizes[r.IntN(len(sizes))]
	ph.transfers = append(ph.transfers, t, back)
}
