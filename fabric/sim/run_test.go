package sim

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// TestMain also checks that no test leaves a goroutine behind: however a run
// ends, every activity of every process is unwound.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// randomJob is a run with all sources of randomness: 24 processes that send to random peers,
// spikes, a partition, deaths by time and by step.
func randomJob(tb testing.TB, seed uint64) (trace []byte, hash uint64, now fabric.Time) {
	var out bytes.Buffer
	cfg := DefaultConfig(24)
	cfg.Topology = Topology{ProcsPerNode: 4, NodesPerSwitch: 2}
	cfg.Seed, cfg.Trace = seed, &out
	cfg.Credits = 4
	cfg.Spikes = Spikes{Chance: 0.05, Min: Microsecond, Max: Millisecond}
	s := newSim(tb, cfg)
	for id := range proc.ID(24) {
		spawn(tb, s, id, func(p *Proc) {
			n, rng := newNode(p), p.Rand()
			for i := range uint64(60) {
				n.send(n.connect(proc.ID(rng.IntN(24))), i, make([]byte, rng.IntN(300)))
				if rng.IntN(3) == 0 {
					n.pumpFor(n.host.Now() + fabric.Time(rng.IntN(3000)))
				}
			}
			n.pumpFor(2_000_000 + 100_000*fabric.Time(id))
			n.prov.Depart()
		})
	}
	for id := proc.ID(1); id < 6; id++ {
		require.NoError(tb, s.Kill(id, fabric.Time(id)*20_000))
		require.NoError(tb, s.KillAtStep(10+id, 40*uint64(id)))
	}
	require.NoError(tb, s.Partition(Partition{A: []proc.ID{6, 7}, B: []proc.ID{8, 9, 10}, From: 10_000, To: 900_000,
		Break: 500_000}))
	require.NoError(tb, s.Run())
	return out.Bytes(), s.TraceHash(), s.Now()
}

// TestReplay: the same seed gives the same trace, byte for byte; another seed
// another one.
func TestReplay(t *testing.T) {
	first, hash, now := randomJob(t, 1)
	require.Greater(t, bytes.Count(first, []byte("\n")), 3000)
	for _, event := range []string{"start", "send", "refuse", "arrive", "drop", "lose", "deliver", "depart", "end", "down",
		"departed", "break"} {
		require.True(t, bytes.Contains(first, []byte(" "+event+" ")), "the scenario is meant to have %s", event)
	}
	again, hashAgain, nowAgain := randomJob(t, 1)
	require.True(t, bytes.Equal(first, again))
	require.Equal(t, hash, hashAgain)
	require.Equal(t, now, nowAgain)
	other, hashOther, _ := randomJob(t, 2)
	require.False(t, bytes.Equal(first, other))
	require.NotEqual(t, hash, hashOther)
}

// TestTraceIsInOrderOfTime, and reads as it is documented.
func TestTraceIsInOrderOfTime(t *testing.T) {
	trace, _, _ := randomJob(t, 3)
	last := int64(-1)
	for line := range bytes.Lines(trace) {
		var ns, ps int64
		var event, whom string
		var who, class, size int
		_, err := fmt.Sscanf(string(line), "%d.%3d %s %d > %s class=%d size=%d", &ns, &ps, &event, &who, &whom, &class, &size)
		require.NoError(t, err, "%s", line)
		require.GreaterOrEqual(t, 1000*ns+ps, last, "%s", line)
		last = 1000*ns + ps
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestTraceWriterFails(t *testing.T) {
	cfg := plain(1)
	cfg.Trace = brokenWriter{}
	s := newSim(t, cfg)
	spawn(t, s, 0, func(*Proc) {})
	require.ErrorContains(t, s.Run(), "write trace: disk full")
}

// TestDeadlock: the error lists the waiting processes and their places.
func TestDeadlock(t *testing.T) {
	s := newSim(t, plain(4))
	spawn(t, s, 0, func(p *Proc) { p.Compute(Microsecond); p.Host().Sleep(fabric.Forever) })
	spawn(t, s, 2, func(p *Proc) {
		p.Host().Go(func() { newNode(p).pump(fabric.Forever) })
		p.Host().NewParker().Park()
	})
	spawn(t, s, 3, func(p *Proc) { p.Compute(3 * Microsecond) })
	err := s.Run()
	require.ErrorIs(t, err, ErrDeadlock)
	require.ErrorContains(t, err, "at 3000 ns")
	require.ErrorContains(t, err, "process 0: asleep since 1000 ns at "+
		"github.com/banyan-hpc/banyan/fabric/sim.TestDeadlock.func1")
	require.ErrorContains(t, err, "process 2: parked since 0 ns at "+
		"github.com/banyan-hpc/banyan/fabric/sim.TestDeadlock.func2")
	require.ErrorContains(t, err, "process 2: asleep since 5 ns at")
	require.NotContains(t, err.Error(), "process 3:")
}

func TestDeadlockOfManyIsReportedInShort(t *testing.T) {
	s := newSim(t, plain(100))
	for id := range proc.ID(100) {
		spawn(t, s, id, func(p *Proc) { p.Host().Sleep(fabric.Forever) })
	}
	require.ErrorContains(t, s.Run(), "and 84 more")
}

func TestLimits(t *testing.T) {
	cfg := plain(2)
	cfg.MaxTime, cfg.MaxSteps = 1_000_000, 500
	for name, c := range map[string]struct {
		body func(*Proc)
		want error
	}{
		"computes for ever": {func(p *Proc) { p.Compute(Second) }, ErrTimeLimit},
		"sleeps too long":   {func(p *Proc) { p.Host().Sleep(2_000_000) }, ErrTimeLimit},
		"asks for the time": {func(p *Proc) {
			for p.Host().Now() == 0 { /* time does not pass by asking */
			}
		}, ErrStepLimit},
		"polls": {func(p *Proc) {
			for p.Provider().Poll(&fabric.Sink{}) == 0 { /* nothing comes */
			}
		}, ErrStepLimit},
		"yields and returns": {func(p *Proc) { p.Host().Yield() }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSim(t, cfg)
			spawn(t, s, 0, c.body)
			err := s.Run()
			require.ErrorIs(t, err, c.want)
			if c.want != nil {
				require.ErrorContains(t, err, "process 0: ")
			}
		})
	}
}

// TestReportOfAnUnstartedActivity: the limit comes before its first turn.
func TestReportOfAnUnstartedActivity(t *testing.T) {
	cfg := plain(2)
	cfg.MaxSteps = 1
	s := newSim(t, cfg)
	spawn(t, s, 0, func(p *Proc) { p.Host().Arm(); p.Host().Arm() })
	spawn(t, s, 1, func(*Proc) { t.Error("it has its turn") })
	err := s.Run()
	require.ErrorIs(t, err, ErrStepLimit)
	require.ErrorContains(t, err, "process 1: about to run since 0 ns at its beginning")
}

// TestPanicNamesTheProcess and shows where.
func TestPanicNamesTheProcess(t *testing.T) {
	for name, start := range map[string]func(*Proc, func()){
		"body":     func(_ *Proc, fn func()) { fn() },
		"activity": func(p *Proc, fn func()) { p.Host().Go(fn); p.Host().Sleep(fabric.Forever) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSim(t, plain(2))
			spawn(t, s, 0, func(p *Proc) { p.Host().Sleep(fabric.Forever) })
			spawn(t, s, 1, func(p *Proc) { start(p, explode) })
			err := s.Run()
			var pe *PanicError
			require.ErrorAs(t, err, &pe)
			require.Equal(t, proc.ID(1), pe.Process)
			require.Equal(t, "bang", pe.Value)
			require.ErrorContains(t, err, "process 1 panicked: bang")
			require.Contains(t, string(pe.Stack), "sim.explode")
		})
	}
}

func explode() { panic("bang") }

// TestMisuseIsCaught: misuse from which a run cannot continue.
func TestMisuseIsCaught(t *testing.T) {
	for want, body := range map[string]func(p *Proc){
		"two activities of process 0 sleep at once": func(p *Proc) {
			p.Host().Go(func() { p.Host().Sleep(fabric.Forever) })
			p.Host().Yield()
			p.Host().Sleep(fabric.Forever)
		},
		"two activities of process 0 on one parker": func(p *Proc) {
			k := p.Host().NewParker()
			p.Host().Go(k.Park)
			k.Park()
		},
		"host or provider of process 1 called by another process": func(p *Proc) { p.Sim().procs[1].Host().Now() },
		"TrySend of class 0": func(p *Proc) { newNode(p).connect(1).TrySend(0, 0, nil) },
		"TrySend of class 32": func(p *Proc) {
			newNode(p).connect(1).TrySend(fabric.NumClasses, 0, nil)
		},
		"with 8193 bytes": func(p *Proc) { newNode(p).connect(1).TrySend(1, 0, make([]byte, 8193)) },
	} {
		s := newSim(t, plain(2))
		spawn(t, s, 0, body)
		spawn(t, s, 1, func(p *Proc) { p.Compute(Microsecond) })
		require.ErrorContains(t, s.Run(), want)
	}
}

// TestGoexit: a body that ends its goroutine, as testing.T.FailNow does, ends
// the caller of Run, and everything else is unwound.
func TestGoexit(t *testing.T) {
	s := newSim(t, plain(2))
	unwound := false
	spawn(t, s, 0, func(p *Proc) {
		defer func() { unwound = true }()
		p.Host().Sleep(fabric.Forever)
	})
	spawn(t, s, 1, func(*Proc) { runtime.Goexit() })
	returned, done := false, make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Run()
		returned = true
	}()
	<-done
	require.False(t, returned)
	require.True(t, unwound)
}

// TestScale: 1024 processes exchange a million messages.
func TestScale(t *testing.T) {
	const procs = 1024
	rounds := 98
	if testing.Short() {
		rounds = 1
	}
	s := exchange(t, procs, rounds)
	require.NoError(t, s.Run())
	delivered := uint64(0)
	for _, p := range s.procs {
		delivered += p.Counters().Delivered
	}
	require.Equal(t, uint64(procs*rounds*10), delivered)
	require.True(t, testing.Short() || delivered > 1_000_000)
}

// TestNoAllocations: after warm-up a message costs none, with sleeping on every
// wait on both sides.
func TestNoAllocations(t *testing.T) {
	s := newSim(t, DefaultConfig(2))
	var allocs float64
	for id := range proc.ID(2) {
		spawn(t, s, id, func(p *Proc) {
			n := newNode(p)
			conn, payload := n.connect(1-id), make([]byte, 100)
			next := uint64(0)
			arrived := func() bool { return n.got > next }
			roundTrip := func() {
				n.send(conn, next, payload)
				n.pumpUntil(arrived)
				next++
			}
			if id == 0 {
				for range 100 {
					roundTrip()
				}
				allocs = testing.AllocsPerRun(1000, roundTrip) // one more than 1000
				return
			}
			for range 1101 {
				n.pumpUntil(arrived)
				next++
				n.send(conn, next, payload)
			}
		})
	}
	require.NoError(t, s.Run())
	require.Zero(t, allocs)
}
