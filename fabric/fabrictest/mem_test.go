package fabrictest

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// memNet is a minimal network that keeps the contract: one lock, one queue per process, time that
// advances when all processes sleep. Processes are goroutines. When all of them wait and nothing
// can wake them, the job hangs.
type memNet struct {
	job        Job
	mu         sync.Mutex
	cond       sync.Cond
	procs      []*memProc
	seen       map[signal]bool
	now        fabric.Time
	activities int // goroutines of live processes
	waiting    int // of them, those in wait since the last change
	deadlines  map[*fabric.Time]bool
	stuck      bool
	places     []string // where each process was when the job got stuck
	steps      int
	bend       func(*memProc) (fabric.Provider, fabric.Host) // nil for no fault
}

// memDriver runs each job on a fresh memNet, with a mutant's fault if there is one.
type memDriver struct {
	bend func(*memProc) (fabric.Provider, fabric.Host)
}

func (memDriver) Isolated() bool { return false }

var errHang = errors.New("the job hangs")

func (d memDriver) Run(job Job) ([]Outcome, error) {
	n := &memNet{job: job, seen: make(map[signal]bool), deadlines: make(map[*fabric.Time]bool), bend: d.bend}
	n.cond.L = &n.mu
	rng := rand.New(rand.NewPCG(job.Seed, 2))
	for i := range job.N {
		p := &memProc{net: n, id: proc.ID(i), out: make(map[proc.ID]*memConn), barred: make(map[proc.ID]bool)}
		p.outcome.ID = p.id
		if slices.Contains(job.Victims, p.id) {
			const most = 5000
			p.deathStep = 1 + int(math.Exp(rng.Float64()*math.Log(most)))
		}
		n.procs = append(n.procs, p)
	}
	var all sync.WaitGroup
	n.activities = 1 // this one, until all have started
	for _, p := range n.procs {
		p.all = &all
		p.start(p.play)
	}
	n.remove()
	all.Wait()
	outs := make([]Outcome, job.N)
	for i, p := range n.procs {
		outs[i] = p.outcome
	}
	if n.stuck {
		return outs, fmt.Errorf("%w after %d steps, process by process: %q", errHang, n.steps, n.places)
	}
	return outs, nil
}

// changed makes all waiters check again. The lock is held.
func (n *memNet) changed() {
	n.waiting = 0
	n.cond.Broadcast()
}

// wait waits, with the lock held, until cond holds or the deadline has passed.
func (n *memNet) wait(p *memProc, deadline fabric.Time, cond func() bool) {
	if deadline != fabric.Forever {
		n.deadlines[&deadline] = true
		defer delete(n.deadlines, &deadline)
	}
	for !cond() && n.now < deadline {
		if p.over || n.stuck {
			n.mu.Unlock()
			defer n.mu.Lock() // for deferred functions above
			runtime.Goexit()
		}
		if n.waiting++; n.waiting == n.activities {
			n.idle()
			continue
		}
		n.cond.Wait()
	}
}

// idle finds the next event when all processes wait.
func (n *memNet) idle() {
	next := fabric.Forever
	for d := range n.deadlines {
		next = min(next, *d)
	}
	victim := slices.IndexFunc(n.procs, func(p *memProc) bool { return p.deathStep > 0 && !p.over })
	switch {
	case next != fabric.Forever:
		n.now = max(n.now, next)
	case victim >= 0:
		n.procs[victim].end(proc.Cause{Kind: proc.Signaled, Code: 9})
	default:
		n.abort()
	}
	n.changed()
}

// abort ends the job. The lock is held.
func (n *memNet) abort() {
	n.stuck = true
	for _, p := range n.procs {
		if p.env != nil {
			n.places = append(n.places, p.env.Where())
		}
	}
}

// memProc is one process: its provider, its host and its Control.
type memProc struct {
	net       *memNet
	id        proc.ID
	env       *Env
	all       *sync.WaitGroup
	outcome   Outcome
	over      bool // it has ended; its goroutines end where they next come by
	deathStep int
	steps     int
	noise     atomic.Uint64
	armed     bool
	rung      bool

	out      map[proc.ID]*memConn
	barred   map[proc.ID]bool
	inbox    []memItem
	regions  [][]byte
	departed bool
	closed   bool
}

func (p *memProc) start(fn func()) {
	p.net.mu.Lock()
	p.net.activities++
	p.net.mu.Unlock()
	p.all.Go(func() {
		defer p.net.remove()
		fn()
	})
}

// remove ends an activity.
func (n *memNet) remove() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.activities--
	n.changed()
}

func (p *memProc) play() {
	addrs := make([][]byte, p.net.job.N)
	for i := range addrs {
		addrs[i] = memAddress(proc.ID(i))
	}
	var prov fabric.Provider = p
	var host fabric.Host = memHost{p}
	if p.net.bend != nil {
		prov, host = p.net.bend(p)
	}
	e := NewEnv(Setup{Job: p.net.job, ID: p.id, Provider: prov, Host: host, Addrs: addrs, Control: p})
	p.net.mu.Lock()
	p.env = e
	p.net.mu.Unlock()
	kind := proc.Exited
	if e.Play() {
		kind = proc.Departed
	}
	p.step()
	defer p.net.mu.Unlock()
	p.end(proc.Cause{Kind: kind})
}

// step takes the lock for one call; it is where a killed process ends.
func (p *memProc) step() {
	const tooMany = 3_000_000
	n := p.net
	if mix(p.noise.Add(1)^uint64(p.id)<<32)&3 == 0 {
		runtime.Gosched() // interleavings that the lock alone would not make
	}
	n.mu.Lock()
	p.steps++
	n.steps++
	n.now++
	for _, v := range n.job.Victims {
		// A sleeping process takes no steps of its own.
		if v := n.procs[v]; v.steps == v.deathStep || n.steps > 8*v.deathStep {
			v.end(proc.Cause{Kind: proc.Signaled, Code: 9})
		}
	}
	if n.steps > tooMany && !n.stuck {
		n.abort()
		n.changed()
	}
	if p.over || n.stuck {
		n.mu.Unlock()
		runtime.Goexit()
	}
}

// end ends the process. The lock is held.
func (p *memProc) end(c proc.Cause) {
	if p.over {
		return
	}
	p.over = true
	p.outcome.End = End{c.Kind, int(c.Code)}
	if c.Failed() && !p.departed {
		p.notifyPeers(memItem{kind: memDown, cause: c})
	}
	p.enqueue(SignalEnded)
}

func (p *memProc) enqueue(name string) {
	p.net.seen[signal{p.id, name}] = true
	for _, q := range p.net.procs {
		q.ring()
	}
	p.net.changed()
}

// Signal implements [Control], as do the next five.
func (p *memProc) Signal(name string) {
	p.step()
	defer p.net.mu.Unlock()
	p.enqueue(name)
}

func (p *memProc) Seen(peer proc.ID, name string) bool {
	p.step()
	defer p.net.mu.Unlock()
	return p.net.seen[signal{peer, name}]
}

func (p *memProc) Await(peer proc.ID, name string) {
	p.step()
	defer p.net.mu.Unlock()
	p.net.wait(p, fabric.Forever, func() bool {
		return p.net.seen[signal{peer, name}] || p.net.seen[signal{peer, SignalEnded}]
	})
}

func (p *memProc) Record(r Record) {
	p.net.mu.Lock()
	defer p.net.mu.Unlock()
	p.outcome.Records = append(p.outcome.Records, r)
}

func (p *memProc) Die() { p.departedPeer(proc.Cause{Kind: proc.Signaled, Code: 9}) }

func (p *memProc) Exit(code int) { p.departedPeer(proc.Cause{Kind: proc.Exited, Code: int32(code)}) }

func (p *memProc) departedPeer(c proc.Cause) {
	p.step()
	p.end(c)
	p.net.mu.Unlock()
	runtime.Goexit()
}

// memHost is fabric.Host in a type of its own: Provider and Host share no names.
type memHost struct{ p *memProc }

func (h memHost) Now() fabric.Time {
	h.p.step()
	defer h.p.net.mu.Unlock()
	return h.p.net.now
}

func (h memHost) Go(fn func()) { h.p.start(fn) }

func (h memHost) Patience() (spins, yields int, most fabric.Time) { return 1, 1, fabric.Forever }

func (h memHost) Yield() {
	h.p.step()
	h.p.net.mu.Unlock()
	runtime.Gosched()
}

func (h memHost) Relax() { h.Yield() }

func (h memHost) Wanted() bool { return false }

func (h memHost) Arm() {
	h.p.step()
	defer h.p.net.mu.Unlock()
	h.p.armed, h.p.rung = true, false
}

func (h memHost) Disarm() {
	h.p.step()
	defer h.p.net.mu.Unlock()
	h.p.armed = false
}

func (h memHost) Sleep(until fabric.Time) {
	h.p.step()
	defer h.p.net.mu.Unlock()
	h.p.net.wait(h.p, until, func() bool { return h.p.rung })
	h.p.armed = false
}

func (h memHost) Pause(d fabric.Time) {
	h.p.step()
	defer h.p.net.mu.Unlock()
	h.p.net.wait(h.p, h.p.net.now+d, func() bool { return false })
}

func (h memHost) Ring() {
	h.p.net.mu.Lock()
	defer h.p.net.mu.Unlock()
	h.p.ring()
}

func (p *memProc) ring() {
	if p.armed {
		p.rung = true
		p.net.changed()
	}
}

type memParker struct {
	p     *memProc
	token atomic.Bool
}

func (h memHost) NewParker() fabric.Parker { return &memParker{p: h.p} }

func (k *memParker) Park() { k.ParkUntil(fabric.Forever) }

func (k *memParker) ParkUntil(deadline fabric.Time) {
	k.p.step()
	defer k.p.net.mu.Unlock()
	k.p.net.wait(k.p, deadline, k.token.Load)
	k.token.Store(false)
}

func (k *memParker) Unpark() {
	k.p.step()
	defer k.p.net.mu.Unlock()
	k.token.Store(true)
	k.p.net.changed()
}
