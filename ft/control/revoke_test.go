package control

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/ft/detect"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// revocationJob is a job in which some processes revoke one communicator while some fail.
type revocationJob struct {
	n        int
	seed     uint64
	revokers map[proc.ID]fabric.Time
	// steps: a revoking member fails so many steps after its first frame.
	steps map[proc.ID]uint64
	kills map[proc.ID]fabric.Time
	// late are the members that make the communicator later, and when.
	late map[proc.ID]fabric.Time
	// never are the members that do not make it.
	never map[proc.ID]bool
	// connected: connected members are notified before others; else the tree alone is used.
	connected bool
	// friends: each member is connected to so many that come after it.
	friends int
	// mutant names the part that is left out.
	mutant string

	notified []bool
	frames   int
	direct   int // frames from revoking members
	wrong    error
}

const jobContext = 5

// drawRevocationJob draws a job from a seed.
func drawRevocationJob(seed uint64) *revocationJob {
	rng := rand.New(rand.NewPCG(seed, 6))
	x := &revocationJob{
		n: 2 + rng.IntN(30), seed: seed, kills: map[proc.ID]fabric.Time{}, late: map[proc.ID]fabric.Time{},
		revokers: map[proc.ID]fabric.Time{}, steps: map[proc.ID]uint64{}, never: map[proc.ID]bool{},
	}
	some := func() proc.ID { return proc.ID(rng.IntN(x.n)) }
	calm := seed%4 == 0 // without failures, so without floods
	if x.connected = seed%8 < 4; x.connected {
		x.friends = rng.IntN(4)
	}
	for range 1 + rng.IntN(3) {
		r := some()
		x.revokers[r] = 10_000 + fabric.Time(rng.Int64N(2000))
		if !calm && rng.IntN(2) == 0 {
			x.steps[r] = rng.Uint64N(12)
		}
	}
	for range rng.IntN(1 + x.n/4) {
		if !calm {
			x.kills[some()] = fabric.Time(rng.Int64N(30_000))
		}
	}
	for range rng.IntN(1 + x.n/4) {
		if p := some(); x.revokers[p] == 0 {
			x.late[p] = fabric.Time(rng.Int64N(50_000))
		}
	}
	for range rng.IntN(1+x.n/2) * rng.IntN(2) {
		if p := some(); x.revokers[p] == 0 && x.late[p] == 0 {
			x.never[p] = true
		}
	}
	return x
}

func (x *revocationJob) run() error {
	x.notified = make([]bool, x.n)
	cfg := sim.DefaultConfig(x.n)
	cfg.Seed = x.seed
	cfg.Spikes = sim.Spikes{Chance: 0.5, Min: 100_000, Max: 100_000_000} // frames overtake each other
	s, err := sim.New(cfg)
	if err != nil {
		return err
	}
	for id := range proc.ID(x.n) {
		if err := s.Spawn(id, x.body); err != nil {
			return err
		}
	}
	for id, at := range x.kills {
		if err := s.Kill(id, at); err != nil {
			return err
		}
	}
	if err := s.Run(); err != nil {
		return err
	}
	first := -1
	for id := range x.n {
		if _, ended := s.Ended(proc.ID(id)); ended && x.dies(proc.ID(id)) {
			continue
		}
		if x.never[proc.ID(id)] {
			continue
		}
		if first < 0 {
			first = id
		}
		if x.notified[id] != x.notified[first] {
			return fmt.Errorf("one of %d and %d has not heard", first, id)
		}
		if _, revoked := x.revokers[proc.ID(id)]; revoked && !x.notified[id] {
			return fmt.Errorf("%d has not heard itself", id)
		}
	}
	return x.wrong
}

// dies reports whether a process may be killed.
func (x *revocationJob) dies(p proc.ID) bool {
	_, killed := x.kills[p]
	_, stepped := x.steps[p]
	return killed || stepped
}

// start makes the Revocations of a process, or a mutant of them.
func (x *revocationJob) start(p *sim.Proc, e *progress.Engine, out *Outbox,
	hear func(uint32) (known, news bool)) *Revocations {
	var r *Revocations
	if x.mutant == "no flood after an end" {
		r = &Revocations{e: e, out: out, onNotice: hear, records: make(map[uint32]*revocation)}
		r.catchUp = r.recordRecent
		if x.connected {
			r.flatSize = notifyAllMax
		}
		e.OnEnd(func(ep *progress.Endpoint, _ proc.Cause) { r.ended.Add(ep.Proc) })
	} else {
		r = StartRevocations(e, out, hear, func(uint32) {})
		if !x.connected {
			r.flatSize = 0
		}
		if x.mutant == "nothing is remembered" {
			r.catchUp = func() { r.recent = nil }
		}
	}
	e.Handle(fabric.ClassRevoke, func(from proc.ID, imm uint64, payload []byte) {
		x.frames++
		if x.revokers[from] > 0 {
			x.direct++
		}
		if x.mutant == "connected members count as notified" && x.connected {
			payload = slices.Clone(payload)
			payload[8+int(p.ID())/8] |= 0xff
		}
		if x.mutant == "no flood after two revocations" && r.records[jobContext] != nil {
			return
		}
		r.onFrame(from, imm, payload)
	})
	return r
}

func (x *revocationJob) body(p *sim.Proc) {
	e := progress.New(progress.Config{
		Self: p.ID(), Host: p.Host(), Others: []fabric.Provider{p.Provider()},
		Resolve: func(_ string, peer proc.ID) ([]byte, error) { return sim.Address(peer), nil },
	})
	out := NewOutbox(e, nil)
	var r *Revocations
	notify := func() {
		x.notified[p.ID()] = true
		if x.mutant == "no member forwards" && x.revokers[p.ID()] == 0 {
			return
		}
		r.Notify(jobContext, all(x.n))
	}
	made, early := x.late[p.ID()] == 0 && !x.never[p.ID()], false
	r = x.start(p, e, out, func(uint32) (known, news bool) {
		if early = true; made && !x.notified[p.ID()] {
			notify()
			return true, true
		}
		return made || x.mutant == "absent members do not answer", false
	})
	driver := Start(Config{
		Engine: e,
		Detect: detect.Config{Self: p.ID(), Procs: x.n, Period: DefaultPeriod, Timeout: DefaultTimeout, Seed: x.seed},
		Die:    func(why error) { x.wrong = fmt.Errorf("%v ends itself: %w", p.ID(), why) },
	})
	e.Lock()
	for i := range x.friends {
		out.Connect(proc.ID((int(p.ID()) + 1 + i) % x.n))
	}
	if !made && !x.never[p.ID()] {
		e.After(x.late[p.ID()], func() {
			if made = true; early && x.mutant == "late members do not notify" {
				x.notified[p.ID()] = true
			} else if early {
				notify()
			}
		})
	}
	if at := x.revokers[p.ID()]; at > 0 {
		e.After(at, func() { x.revoke(p, notify) })
	}
	var over progress.Completion
	e.After(3*DefaultTimeout, over.Finish)
	e.Wait(&over)
	r.Stop()
	out.Stop()
	e.Unlock()
	driver.Stop()
	e.Depart()
	_ = e.Close()
}

// revoke revokes at a process, which may fail some steps later.
func (x *revocationJob) revoke(p *sim.Proc, notify func()) {
	if n, ok := x.steps[p.ID()]; ok {
		if err := p.Sim().KillAtStep(p.ID(), p.Counters().Steps+1+n); err != nil {
			x.wrong = err
		}
	}
	if !x.notified[p.ID()] {
		notify()
	}
}

// If one living member knows of a revocation all do, also if members fail between any two of the
// frames that notify the others (ULFM 17.3.1).
func TestRevocationReachesAll(t *testing.T) {
	seeds := uint64(300)
	if os.Getenv("BANYAN_LONG") != "" {
		seeds = 30_000
	}
	if testing.Short() {
		seeds = 60
	}
	for seed := uint64(1); seed <= seeds; seed++ {
		x := drawRevocationJob(seed)
		require.NoError(t, x.run(), "seed %d: %+v", seed, x)
	}
}

// The test finds the absence of any part of the protocol.
func TestRevocationFindsMutants(t *testing.T) {
	for _, mutant := range []string{
		"nothing is remembered",
		"no member forwards", "no flood after an end", "no flood after two revocations", "connected members count as notified",
		"absent members do not answer", "late members do not notify",
	} {
		var err error
		seed := uint64(0)
		for seed = 2; seed <= 3000 && err == nil; seed += 2 {
			x := drawRevocationJob(seed)
			x.mutant = mutant
			err = x.run()
		}
		require.Error(t, err, mutant)
		t.Logf("%s: found with seed %d: %v", mutant, seed-2, err)
	}
}

// Without failures and with one revoking member each member gets one frame; when all revoke at once
// each sends at most one to each child and each neighbour.
func TestRevocationFrames(t *testing.T) {
	for i, n := range []int{2, 3, 8, 31, 64, 2, 3, 8, 31, 64} {
		x := &revocationJob{n: n, connected: i >= 5, seed: 1, revokers: map[proc.ID]fabric.Time{proc.ID(n / 2): 1000}}
		require.NoError(t, x.run())
		require.True(t, x.notified[0])
		require.Equal(t, n-1, x.frames, "%d processes", n)

		x = &revocationJob{n: n, connected: x.connected, seed: 1, revokers: map[proc.ID]fabric.Time{}}
		log := 0
		for p := range n {
			x.revokers[proc.ID(p)] = 1000
			if 1<<log < n {
				log++
			}
		}
		require.NoError(t, x.run())
		require.LessOrEqual(t, x.frames, 3*log*n, "%d processes", n)

		// Some notify the same process, since each is connected to others; no member floods because
		// of that.
		x = &revocationJob{n: n, connected: true, friends: 4, seed: 1,
			revokers: map[proc.ID]fabric.Time{proc.ID(n / 2): 1_000_000}}
		require.NoError(t, x.run())
		require.LessOrEqual(t, x.frames, 5*n)
	}
}

// In a small group the revoking member notifies all connected ones, and no other member notifies
// them again.
func TestRevocationNotifiesTheConnected(t *testing.T) {
	const n = 23
	x := &revocationJob{n: n, seed: 1, connected: true, friends: n - 1,
		revokers: map[proc.ID]fabric.Time{7: 10_000_000}}
	require.NoError(t, x.run())
	require.Equal(t, n-1, x.direct)
	require.Equal(t, n-1, x.frames)
}

// The records of revocations are bounded.
func TestRevocationsAreBounded(t *testing.T) {
	cfg := sim.DefaultConfig(2)
	s, err := sim.New(cfg)
	require.NoError(t, err)
	body := func(p *sim.Proc) {
		e := progress.New(progress.Config{Self: p.ID(), Host: p.Host(), Others: []fabric.Provider{p.Provider()}})
		e.Lock()
		defer e.Unlock()
		heard := 0
		r := StartRevocations(e, NewOutbox(e, nil), func(uint32) (known, news bool) {
			heard++
			return true, false
		}, nil)
		r.flatSize = 0
		for i := range uint32(3 * maxRevocations) {
			r.Notify(i, all(1))
			frame := notice{context: 1_000_000 + i}.append(nil)
			r.onFrame(1, 0, notice{context: i, root: rootFlood}.append(frame)) // notified, and not made here
			r.onFrame(1, 0, frame[:5])
		}
		require.Len(t, r.records, maxRevocations)
		require.Len(t, r.order, maxRevocations)
		require.Equal(t, 2*3*maxRevocations, heard)
	}
	require.NoError(t, s.Spawn(0, body))
	require.NoError(t, s.Run())
}
