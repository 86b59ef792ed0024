package drill

import (
	"math/rand/v2"
	"time"

	"github.com/banyan-hpc/banyan/internal/pattern"
)

// How a message is sent. From sendNow on the sender blocks.
type sendKind int

const (
	isend sendKind = iota
	issend
	sendInit
	ssendInit
	sendNow
	ssendNow
	exchange // Sendrecv, with the transfer after this one that comes back
	sendKinds
)

// How a message is received. Up to irecvAny the receive is posted at the begin of the
// phase; up to irecvAnyTag its sender may block.
type recvKind int

const (
	irecv recvKind = iota
	recvInit
	irecvAnyTag
	irecvAny // from any source
	recvNow
	recvAnyTag
	recvAny
	probeRecv
	mprobeRecv
	iprobeRecv
	improbeRecv
	recvKinds
)

// transfer is one message.
type transfer struct {
	src, dst, tag, size int
	send                sendKind
	recv                recvKind
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

type collective int

const (
	none collective = iota
	barrier
	bcast
	allreduce
	collectives
)

// phase is what all ranks do before the next one.
type phase struct {
	transfers  []transfer
	collective collective
	root       int
	elements   int // of a broadcast or sum
	// waits says how requests are waited for.
	waits int
}

// doom is how a rank is to die.
type doom struct {
	op    int           // its own operation with this number begins the end; 0: the driver's timer does
	delay time.Duration // from there, or from the rank's first word, to SIGKILL
	last  bool          // instead: when it finalizes
	first bool          // instead: when it begins
}

// plan is a whole run.
type plan struct {
	seed   uint64
	n      int
	fabric string   // a name of fabrics
	words  []string // BANYAN_FABRIC of each rank
	hosts  int      // namespaces, 0: this one
	async  bool
	phases []phase
	doomed map[int]doom
}

// dies reports whether a rank may die. If some die while the job starts all may: who
// finds the start failed leaves.
func (p *plan) dies(rank int) bool {
	for _, d := range p.doomed {
		if d.first {
			return true
		}
	}
	_, doomed := p.doomed[rank]
	return doomed
}

// The smallest tag of messages; 0 is an outcome that says nothing.
const firstTag = 1

// newPlan draws the run of a seed. The same seed gives the same plan in every process.
func newPlan(seed uint64) *plan {
	r := rand.New(rand.NewPCG(seed, 1))
	p := &plan{seed: seed, n: 2 + r.IntN(5), doomed: map[int]doom{}, async: r.IntN(4) == 0}
	switch r.IntN(40) { // a run of 32 ranks on two cores takes as long as twenty of three
	case 0:
		p.n = 16 + r.IntN(17)
	case 1, 2:
		p.n = 7 + r.IntN(9)
	}
	p.drawFabrics(r)
	for range 2 + r.IntN(12) {
		p.phases = append(p.phases, p.drawPhase(r, len(p.phases)))
	}
	deaths := 1 + r.IntN(min(3, p.n-1))
	if r.IntN(6) == 0 {
		deaths = r.IntN(p.n)
	}
	begin := r.IntN(8) == 0
	for _, rank := range r.Perm(p.n)[:deaths] {
		p.doomed[rank] = p.drawDoom(r)
		if begin {
			p.doomed[rank] = doom{first: true, delay: time.Duration(r.IntN(12*p.n)) * time.Millisecond}
		}
	}
	return p
}

// The names of the fabrics' draw.
var fabricDraws = []string{"shm", "unix", "tcp", "mixed", "hosts"}

func (p *plan) drawFabrics(r *rand.Rand) {
	p.fabric = fabricDraws[r.IntN(4)]
	if r.IntN(12) == 0 && p.n <= 8 {
		p.fabric, p.hosts = "hosts", min(p.n, 2+r.IntN(2))
	}
	p.words = make([]string, p.n)
	for i := range p.words {
		p.words[i] = p.fabric
		switch p.fabric {
		case "mixed":
			p.words[i] = []string{"shm,tcp", "shm,unix,tcp", "unix,tcp", "tcp"}[r.IntN(4)]
		case "hosts":
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
	d := doom{delay: time.Duration(r.IntN(300)) * time.Microsecond}
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

func (p *plan) drawPhase(r *rand.Rand, number int) phase {
	ph := phase{waits: r.IntN(waits), root: r.IntN(p.n), elements: 1 + r.IntN(4)*2500}
	if r.IntN(4) == 0 {
		ph.collective = barrier + collective(r.IntN(int(collectives-barrier)))
	}
	// Those between whom there are such messages: one of a phase at most, so that what
	// each must get is known.
	type pair struct {
		src, dst int
		wild     bool
	}
	special := map[pair]bool{}
	for range 1 + r.IntN(2*p.n) {
		t := transfer{
			src: r.IntN(p.n), dst: r.IntN(p.n), size: sizes[r.IntN(len(sizes)-r.IntN(6))],
			recv: recvKind(r.IntN(int(recvKinds))), seed: byte(r.IntN(256)),
			tag: firstTag + number*1000 + len(ph.transfers),
		}
		t.send = sendKind(r.IntN(int(sendNow)))
		if t.recv <= irecvAnyTag && r.IntN(2) == 0 {
			t.send = sendNow + sendKind(r.IntN(int(sendKinds-sendNow)))
		}
		if t.wild() {
			t.tag = firstTag + number*1000 + 999 // all of a phase
		}
		if t.wild() || t.anyTag() {
			between := pair{t.src, t.dst, t.wild()}
			if special[between] {
				continue
			}
			special[between] = true
		}
		if t.send == exchange {
			p.drawExchange(r, &ph, t)
			continue
		}
		ph.transfers = append(ph.transfers, t)
	}
	return ph
}

// drawExchange adds a message and the one that comes back in the same call.
func (p *plan) drawExchange(r *rand.Rand, ph *phase, t transfer) {
	if t.src == t.dst {
		t.dst = (t.src + 1) % p.n
	}
	t.recv = irecv
	back := t
	back.back = true
	back.src, back.dst, back.tag, back.seed, back.size = t.dst, t.src, t.tag+1, t.seed+1, sizes[r.IntN(len(sizes))]
	ph.transfers = append(ph.transfers, t, back)
}
