package sim

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// alone runs one process and expects an orderly end of the run.
func alone(t *testing.T, body func(*Proc, fabric.Host)) {
	t.Helper()
	s := newSim(t, plain(2))
	spawn(t, s, 0, func(p *Proc) { body(p, p.Host()) })
	require.NoError(t, s.Run())
}

func TestSleepEndsAtTheDeadline(t *testing.T) {
	alone(t, func(p *Proc, h fabric.Host) {
		for _, until := range []fabric.Time{500, 300, 2000, 1000, 2500} {
			want := max(h.Now(), until)
			h.Arm()
			h.Sleep(until)
			require.Equal(t, want, h.Now())
		}
	})
}

func TestRingEndsSleep(t *testing.T) {
	alone(t, func(p *Proc, h fabric.Host) {
		ringAt := func(at fabric.Time) {
			h.Go(func() {
				p.Compute(Picos(at-h.Now()) * Nanosecond)
				h.Ring()
			})
		}
		ringAt(100)
		h.Arm()
		h.Sleep(5000)
		require.Equal(t, fabric.Time(100), h.Now())

		h.Arm()
		h.Ring() // between Arm and Sleep
		h.Sleep(fabric.Forever)
		require.Equal(t, fabric.Time(100), h.Now())

		h.Ring() // before Arm: does not count
		h.Arm()
		h.Sleep(200)
		require.Equal(t, fabric.Time(200), h.Now())

		h.Arm()
		h.Ring()
		h.Disarm() // forgets it
		h.Sleep(300)
		require.Equal(t, fabric.Time(300), h.Now())

		// A stale alarm (5000, from the first sleep) ends nothing early.
		h.Sleep(9000)
		require.Equal(t, fabric.Time(9000), h.Now())

		// Nor does one that no earlier one has replaced.
		ringAt(9100)
		h.Sleep(9500)
		require.Equal(t, fabric.Time(9100), h.Now())
		h.Sleep(9900)
		require.Equal(t, fabric.Time(9900), h.Now())
	})
}

// TestArrivalRingsOnlyTheArmed: Ready finds arrivals before Arm, later ones end the sleep.
func TestArrivalRingsOnlyTheArmed(t *testing.T) {
	s := newSim(t, plain(2))
	spawn(t, s, 0, func(p *Proc) {
		conn := newNode(p).connect(1)
		conn.TrySend(fabric.ClassTest, 0, nil) // arrives at 1010
		p.Compute(3 * Microsecond)
		conn.TrySend(fabric.ClassTest, 0, nil) // arrives at 4020
	})
	spawn(t, s, 1, func(p *Proc) {
		h, n := p.Host(), newNode(p)
		p.Compute(2 * Microsecond)
		h.Arm()
		require.True(t, n.prov.Ready())
		h.Disarm()
		require.Equal(t, 1, n.prov.Poll(&n.sink))
		h.Arm()
		require.False(t, n.prov.Ready())
		h.Sleep(fabric.Forever)
		require.Equal(t, fabric.Time(4020), h.Now())
	})
	require.NoError(t, s.Run())
}

func TestParker(t *testing.T) {
	alone(t, func(p *Proc, h fabric.Host) {
		k := h.NewParker()
		k.Unpark()
		k.Unpark() // one is kept
		k.Park()
		h.Go(func() { p.Compute(70 * Nanosecond); k.Unpark() })
		k.Park()
		require.Equal(t, fabric.Time(70), h.Now())
	})
}

// TestOneCore: activities of one process share its core, so two that compute
// 100 ns each take 200.
func TestOneCore(t *testing.T) {
	alone(t, func(p *Proc, h fabric.Host) {
		k := h.NewParker()
		h.Go(func() { p.Compute(100 * Nanosecond); k.Unpark() })
		p.Compute(100 * Nanosecond)
		k.Park()
		require.Equal(t, fabric.Time(200), h.Now())
	})
}

// TestNoActivityStarves: an activity that only polls lets the others have their turns.
func TestNoActivityStarves(t *testing.T) {
	alone(t, func(p *Proc, h fabric.Host) {
		turns, last := 0, 0
		for id := range 3 {
			h.Go(func() {
				for range 100 {
					p.Provider().Poll(&fabric.Sink{})
					require.NotEqual(t, 1+id, last, "two turns in a row")
					last = 1 + id
					turns++
				}
			})
		}
		for turns < 300 {
			p.Provider().Poll(&fabric.Sink{})
			last = 0
		}
		require.Equal(t, fabric.Time(2000), h.Now()-h.Now()%500)
	})
}

func TestYieldLetsOthersRun(t *testing.T) {
	alone(t, func(p *Proc, h fabric.Host) {
		ran := false
		h.Go(func() { ran = true })
		require.False(t, ran)
		h.Yield()
		require.True(t, ran)
		require.Equal(t, fabric.Time(7), h.Now())
		spins, yields, _ := h.Patience()
		require.Zero(t, spins+yields)
	})
}

// TestSpawnLater: a replacement starts at the present of its parent.
func TestSpawnLater(t *testing.T) {
	var began fabric.Time
	alone(t, func(p *Proc, h fabric.Host) {
		p.Compute(400 * Nanosecond)
		require.NoError(t, p.Sim().Spawn(1, func(q *Proc) { began = q.Host().Now() }))
	})
	require.Equal(t, fabric.Time(400), began)
}

// TestBodiesDrawFromTheirOwnSource, the same in each run.
func TestBodiesDrawFromTheirOwnSource(t *testing.T) {
	drawn := func(seed uint64) (x [2]uint64) {
		cfg := plain(2)
		cfg.Seed = seed
		s := newSim(t, cfg)
		for id := range proc.ID(2) {
			spawn(t, s, id, func(p *Proc) { x[id] = p.Rand().Uint64() })
		}
		require.NoError(t, s.Run())
		return x
	}
	require.Equal(t, drawn(1), drawn(1))
	require.NotEqual(t, drawn(1), drawn(2))
	require.NotEqual(t, drawn(1)[0], drawn(1)[1])
}

// mark is an event that does nothing.
type mark int

func (mark) happen(*Sim) *task { return nil }

// TestQueueOrder: by time, then in the order of pushing, under random pushes
// and pops.
func TestQueueOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var q queue
	last := event{at: -1}
	for range 20000 {
		if len(q.heap) == 0 || rng.IntN(5) < 3 {
			q.push(max(last.at, 0)+Picos(rng.IntN(50)), mark(0))
			continue
		}
		soonest := q.soonest()
		e := q.pop()
		require.Equal(t, soonest, e.at)
		require.True(t, last.before(&e), "%v before %v", last, e)
		last = e
	}
	for len(q.heap) > 0 {
		e := q.pop()
		require.True(t, last.before(&e))
		last = e
	}
	require.Equal(t, never, q.soonest())
}

func TestOctaves(t *testing.T) {
	var perOctave [4]int
	for i := range uint64(40000) {
		d := octaves(mix(i), 100, 900) // 100-200, 200-400, 400-800, 800-900
		require.GreaterOrEqual(t, d, Picos(100))
		require.Less(t, d, Picos(900))
		switch {
		case d < 200:
			perOctave[0]++
		case d < 400:
			perOctave[1]++
		case d < 800:
			perOctave[2]++
		default:
			perOctave[3]++
		}
	}
	for _, n := range perOctave {
		require.InDelta(t, 10000, n, 500)
	}
}
