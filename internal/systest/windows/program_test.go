package windows

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// program is a random program of one rank on a window, with an oracle. The memory of each rank has, in
// elements of 8 bytes, a cell for each rank that this rank alone writes, with the number of the phase; a
// counter, to which rank r adds 1<<(8*r); a number that is incremented under the exclusive lock; and three
// cells for each rank by which the ranks compare notes.
type program struct {
	w      *banyan.World
	c      *banyan.Comm
	win    *banyan.Window
	mem    []byte // of this rank
	base   int    // where it begins for operations, in elements: the same at all ranks
	seed   uint64
	step   atomic.Int64 // phases so far
	phases uint64
	next   uint64 // phase
	// By target: the sum of this rank's additions, the increments that it has tried, and those that
	// succeeded.
	added, tried, locked []uint64
}

// The cells of a rank's memory, and their number.
func (p *program) own(rank int) int     { return rank }
func (p *program) counter() int         { return p.c.Size() }
func (p *program) guarded() int         { return p.c.Size() + 1 }
func (p *program) note(rank, k int) int { return p.c.Size() + 2 + 3*rank + k }

func newProgram(w *banyan.World, seed uint64) (*program, error) {
	c := w.Comm()
	n := c.Size()
	if err := c.SetUniformity(banyan.UniformCreation); err != nil {
		return nil, err
	}
	p := &program{
		w: w, c: c, phases: 6, next: 1, seed: seed,
		added: make([]uint64, n), tried: make([]uint64, n), locked: make([]uint64, n),
	}
	return p, p.makeWindow(8 * (4*n + 2))
}

// makeWindow makes a window of a random kind: of its own memory, of allocated memory, or dynamic.
func (p *program) makeWindow(bytes int) (err error) {
	kind := p.seed / uint64(len(reaches)) % 3
	if kind == 0 {
		if p.win, err = p.c.AllocWindow(bytes); err == nil {
			p.mem = p.win.Bytes()
		}
		return err
	}
	if p.mem, err = banyan.Alloc[byte](p.w, bytes); err != nil {
		return err
	}
	if kind == 1 {
		p.win, err = p.c.NewWindow(p.mem)
		return err
	}
	if p.win, err = p.c.NewDynamicWindow(); err != nil {
		return err
	}
	at, err := p.win.Attach(p.mem)
	p.base = at / 8
	return err
}

// run runs all phases and compares notes. A failure is followed by Validate, after which the living ranks
// go on with the furthest phase. They end together: a rank that had left could not take part in a further
// Validate.
func (p *program) run() error {
	for err := p.win.Fence(); ; { // all have attached their memory
		for err == nil && p.next <= p.phases {
			p.step.Add(1)
			if err = p.phase(p.next); err == nil {
				p.next++
			}
		}
		if err == nil {
			err = p.compare()
		}
		if err != nil && !errors.Is(err, banyan.ErrProcFailed) {
			return err
		}
		all, agreed := p.c.Agree(flag(err == nil))
		if agreed != nil && !errors.Is(agreed, banyan.ErrProcFailed) {
			return fmt.Errorf("agree: %w", agreed)
		}
		if all == 1 {
			return nil
		}
		if _, err = p.win.Validate(); err == nil {
			err = p.meet()
		}
	}
}

func flag(ok bool) uint64 {
	if ok {
		return 1
	}
	return 0
}

// meet makes the furthest phase of the living ranks the next one of all.
func (p *program) meet() error {
	if err := p.win.Fence(); err != nil {
		return err
	}
	for _, rank := range p.living() {
		if err := banyan.Put(p.win, []uint64{p.next}, rank, p.base+p.note(p.c.Rank(), 0)); err != nil {
			return err
		}
	}
	if err := p.win.Fence(); err != nil {
		return err
	}
	for _, rank := range p.living() {
		p.next = max(p.next, p.cell(p.note(rank, 0)))
	}
	return p.win.Fence()
}

func (p *program) living() (ranks []int) {
	failed := p.win.FailedRanks()
	for rank := range p.c.Size() {
		if !slices.Contains(failed, rank) {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

func (p *program) cell(i int) uint64 { return binary.NativeEndian.Uint64(p.mem[8*i:]) }

// phase does one phase: operations in an epoch of a random kind, and a fence, after which each rank's
// own memory is checked, and another.
func (p *program) phase(number uint64) error {
	me := p.c.Rank()
	kind := rand.New(rand.NewPCG(p.seed, number)).IntN(3) // the same at all ranks
	var err error
	switch kind {
	case 0:
		if err = p.win.Fence(); err == nil {
			err = p.putAndAdd(number)
		}
	case 1:
		if err = p.win.LockAll(); err == nil {
			err = errors.Join(p.putAndAdd(number), p.win.UnlockAll())
		}
	default:
		for _, rank := range p.living() {
			if err == nil {
				err = p.increment((rank + me) % p.c.Size())
			}
		}
	}
	if err == nil {
		err = p.win.Fence()
	}
	if err != nil {
		return err
	}
	for rank := range p.c.Size() {
		got, failed, most := p.cell(p.own(rank)), slices.Contains(p.win.FailedRanks(), rank), number
		if failed { // after a fence that failed here, as it died in the next phase: LockAll needs no other rank
			most++
		}
		if kind < 2 && !failed && got != number || got > most {
			return fmt.Errorf("phase %d of kind %d: rank %d has written %d", number, kind, rank, got)
		}
	}
	return p.win.Fence()
}

// putAndAdd writes this rank's cell and adds to the counter at each living rank.
func (p *program) putAndAdd(number uint64) error {
	me := p.c.Rank()
	for _, rank := range p.living() {
		if err := banyan.Put(p.win, []uint64{number}, rank, p.base+p.own(me)); err != nil {
			return err
		}
		if err := banyan.Accumulate(p.win, []uint64{1 << (8 * me)}, rank, p.base+p.counter(), banyan.AccSum); err != nil {
			return err
		}
		p.added[rank]++
	}
	return nil
}

// increment increments a number under the lock.
func (p *program) increment(rank int) error {
	if slices.Contains(p.win.FailedRanks(), rank) {
		return nil
	}
	v := make([]uint64, 1)
	err := p.win.Lock(banyan.LockExclusive, rank)
	if err != nil {
		return err
	}
	p.tried[rank]++
	if err = banyan.Get(p.win, v, rank, p.base+p.guarded()); err == nil {
		err = p.win.Flush(rank)
	}
	if err == nil {
		v[0]++
		err = banyan.Put(p.win, v, rank, p.base+p.guarded())
	}
	if err != nil {
		return err
	}
	if err = p.win.Unlock(rank); err == nil {
		p.locked[rank]++
	}
	return err
}

// compare checks each rank's memory against the operations of the living ranks. Those of dead ranks may
// have been done from none to all of the program.
func (p *program) compare() error {
	me := p.c.Rank()
	if err := p.win.Fence(); err != nil {
		return err
	}
	for _, rank := range p.living() {
		notes := []uint64{p.added[rank], p.tried[rank], p.locked[rank]}
		if err := banyan.Put(p.win, notes, rank, p.base+p.note(me, 0)); err != nil {
			return err
		}
	}
	if err := p.win.Fence(); err != nil {
		return err
	}
	living := p.living()
	least, most := uint64(0), uint64(0)
	for rank := range p.c.Size() {
		added, done := p.cell(p.counter())>>(8*rank)&0xff, p.cell(p.note(rank, 0))
		switch {
		case !slices.Contains(living, rank):
			most += 100
		case added != done:
			return fmt.Errorf("rank %d has added %d times, here are %d", rank, done, added)
		default:
			least, most = least+p.cell(p.note(rank, 2)), most+p.cell(p.note(rank, 1))
		}
	}
	if got := p.cell(p.guarded()); got < least || got > most {
		return fmt.Errorf("%d increments under the lock, want %d … %d", got, least, most)
	}
	return p.win.Fence()
}

// reaches are the machines: no rank reaches the memory of another one, all do, those of a node do; adapters do, also
// with paths that fail, and those of other nodes do.
var reaches = []func(*sim.Config){
	nil,
	func(c *sim.Config) { c.Blocks = true },
	func(c *sim.Config) { c.Blocks, c.Topology.ProcsPerNode = true, 2 },
	func(c *sim.Config) { c.Moves = true },
	func(c *sim.Config) { c.Moves, c.MoveLoss = true, 0.05 },
	func(c *sim.Config) { c.Blocks, c.Topology.ProcsPerNode, c.Moves, c.MoveLoss = true, 2, true, 0.01 },
}

// Random programs, whose ranks are killed at random steps, give results that the oracle allows: no call
// hangs, no living rank loses an operation, and every lock can be taken again.
func TestRandomPrograms(t *testing.T) {
	failures := 0
	seeds := ranktest.Scaled(1000, 20)
	if os.Getenv("BANYAN_LONG") != "" {
		seeds = 100_000
	}
	for seed := range uint64(seeds) {
		rng := rand.New(rand.NewPCG(seed, 7))
		n := 2 + rng.IntN(4)
		var faults []banyan.Fault
		for range rng.IntN(min(n, 3)) {
			faults = append(faults, banyan.KillAtStep(1+rng.IntN(n-1), 20+rng.Uint64N(3000)))
		}
		reach := reaches[seed%uint64(len(reaches))]
		err := banyan.Simulate(n, banyan.Simulation{Seed: seed, Configure: reach, Faults: banyan.Faults(faults...),
			Options: []banyan.Option{banyan.WithDetection(200*time.Millisecond, time.Second)}}, func(w *banyan.World) error {
			p, err := newProgram(w, seed)
			if errors.Is(err, banyan.ErrProcFailed) {
				return nil // at all ranks
			}
			if err == nil {
				err = p.run()
				failures += len(p.win.FailedRanks())
			}
			return err
		})
		require.NoError(t, err, "seed %d, %d ranks", seed, n)
	}
	ranktest.Occurred(t, failures, "no rank was seen to fail")
}

// randomProgram is the program of a process; one or two of them kill themselves in the middle of it.
func randomProgram(w *banyan.World) error {
	seed, err := ranktest.JobSeed()
	if err != nil {
		return err
	}
	p, err := newProgram(w, seed)
	if err != nil {
		return err
	}
	p.phases = 100
	rng := rand.New(rand.NewPCG(seed, 7))
	dies := false
	for range 2 {
		victim, at, looks := 1+rng.IntN(w.Comm().Size()-1), 1+rng.IntN(90), rng.IntN(400_000)
		if victim == w.Comm().Rank() {
			ranktest.KillSelfAt(&p.step, at, looks)
			dies = true
		}
	}
	if err := p.run(); err != nil || !dies {
		return err
	}
	select {} // the program was faster than its end
}

func TestRandomProgramsOfProcesses(t *testing.T) {
	ranktest.JobsWithDeaths(t, "random program", 6, 2, ranktest.JobSeeds(1, 100)...)
}
