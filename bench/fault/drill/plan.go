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

// Config is from what runs are drawn.
type Config struct {
	// Min and Max bound the ranks of a run, 2 … MaxRanks. Of the larger ones there are few.
	Min, Max int
	// Fabrics are names of Fabrics, one of which a run has.
	Fabrics []string
	// Profiles are the rules that ranks follow after failures, one for each run.
	Profiles []banyan.Profile
}

// MaxRanks bounds Config.Max.
const MaxRanks = 64

// Fabrics are by what ranks can be joined: one fabric for all; mixed, where each rank
// may use others; hosts, where they are in several network namespaces.
func Fabrics() []string { return []string{"shm", "unix", "tcp", "mixed", Hosts} }

// Hosts is the fabric that needs network namespaces, and the rights to make them.
const Hosts = "hosts"

// Check finds what makes no sense.
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

// script is what a rank is told: all of the run follows from it.
type script struct {
	Config
	Seed  uint64
	Aim   Kind   // the first to die does so within; noKind: it is drawn
	Trace string // the file
}

// flatVariable says whether collectives of few bytes may go in shared memory, which they do in half of the runs.
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
		panic(err) // nothing in it cannot be written
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

// fill gives the message's data.
func (t *transfer) fill() []byte {
	b := make([]byte, t.size)
	pattern.Fill(b, t.seed)
	return b
}

// anyTag messages have a communicator of their own, where no other message is.
func (t *transfer) anyTag() bool { return t.recv == irecvAnyTag || t.recv == recvAnyTag }

func (t *transfer) wild() bool { return t.recv == irecvAny || t.recv == recvAny }

// takes reports whether this message may take the early receive that a sender of another one blocks on, and leave it one that is posted late.
func (t *transfer) takes(o *transfer) bool {
	return t.dst == o.dst && t.recv == recvAny && o.recv == irecvAny && o.send > lastBegun
}

func (t *transfer) exchanged() bool { return t.send > lastSend }

// phase is what all ranks do before the next one.
type phase struct {
	transfers []transfer
	shared    shared
	waits     Kind // how requests are waited for
	ack       bool // failures are acknowledged at the end
	repair    *repair
	mend      *mend
	interplay *interplay
	// late is how long each rank does nothing at the begin.
	late []time.Duration
}

// doom is how a rank is to die.
type doom struct {
	op    int           // its own operation with this number begins the end; 0: the driver's timer does
	aim   Kind          // instead: its operation of this kind; noKind: none
	in    int           // from this phase on
	delay time.Duration // from there, or from the rank's first word, to SIGKILL
	after bool          // when its operation of that kind has succeeded, not when it begins
	last  bool          // instead: when it finalizes
	first bool          // instead: when it begins
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

// maxPhases bounds those of a run.
const maxPhases = 13

// The smallest tag of messages; 0 is an outcome that says nothing.
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
		case s.Aim > lastCollective && s.Aim <= lastMend && aimed: // another failure in the same operation
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

// untangle lets nobody block in a send to a receive from any source that may end without
// its message: by the rules of run-through stabilization at the death of anybody, else
// where a death has it taken back. It is received by name then, after all that the receiver
// waits for, which may wait for this sender.
func (p *plan) untangle() {
	for _, ph := range p.phases {
		for i := range ph.transfers {
			t := &ph.transfers[i]
			takenBack := slices.ContainsFunc(ph.transfers, func(o transfer) bool {
				return o.dst == t.dst && o.wild() && p.dies(o.src)
			})
			if t.recv == irecvAny && t.send > lastBegun && (takenBack || p.profile == banyan.RTS) {
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

// drawDoom draws a death that mostly comes before the rank's last operation.
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
		waits: between(r, waitEach, lastWait), shared: p.drawShared(r, noKind), ack: r.IntN(6) == 0, late: make([]time.Duration, p.n),
	}
	if r.IntN(4) == 0 {
		ph.shared.kind = between(r, barrier, lastCollective)
	}
	if r.IntN(3) == 0 {
		ph.repair = p.drawRepair(r)
	}
	if r.IntN(4) == 0 {
		ph.mend = p.drawMend(r)
	}
	if r.IntN(4) == 0 {
		ph.interplay = p.drawInterplay(r)
	}
	for range 1 + r.IntN(2*p.n) {
		t := transfer{src: r.IntN(p.n), dst: r.IntN(p.n), recv: between(r, irecv, lastReceive)}
		t.send = between(r, isend, lastBegun)
		if t.recv <= lastPosted && r.IntN(2) == 0 {
			t.send = between(r, lastBegun+1, lastExchange)
		}
		p.put(r, &ph, number, t, sizes[r.IntN(len(sizes)-r.IntN(6))])
	}
	return ph
}

// drawShared draws a collective of a kind.
func (p *plan) drawShared(r *rand.Rand, k Kind) shared {
	s := shared{
		kind: k, begun: between(r, barrier, begunCollective-1), rounds: 1 + r.IntN(maxRounds), root: r.IntN(p.n), elements: 1 + r.IntN(4)*2500,
		design: designs[r.IntN(len(designs))], tree: trees[r.IntN(len(trees))],
	}
	if r.IntN(3) == 0 {
		s.elements = 1
	}
	return s
}

// put adds a message to a phase, with the one that comes back of an exchange. Of those
// from any source or of any tag there is one between two ranks at most, so that what
// each must get is known. A receive from any source that is posted late may leave its message to one that is posted early; then the
// sender that counts on the early one waits for the late one: so none of them blocks.
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
		return o.src == t.src && o.dst == t.dst && (o.wild() && t.wild() || o.anyTag() && t.anyTag()) || o.takes(&t) || t.takes(&o)
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
