package host

import (
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/futex"
)

// alone makes Go run one goroutine at a time for the rest of a test, without garbage collections,
// which stop all goroutines and continue with any.
func alone(t *testing.T) {
	before, percent := runtime.GOMAXPROCS(1), debug.SetGCPercent(-1)
	t.Cleanup(func() {
		runtime.GOMAXPROCS(before)
		debug.SetGCPercent(percent)
	})
}

// forcedAfter is a time after which Go preempts a goroutine, or less.
const forcedAfter = fabric.Time(5_000_000)

// turns calls relax until another goroutine, which is always ready and has no processor, has run
// often, and returns for each of its turns the number of the call, and the number of calls since
// the last turn: for the turns that Go cannot have forced.
func turns(t *testing.T, h *Host, often int) (calls, since []int) {
	t.Helper()
	alone(t)
	var ran, over atomic.Int64
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for over.Load() == 0 {
			ran.Add(1)
			runtime.Gosched()
		}
	}()
	for ran.Load() == 0 {
		runtime.Gosched()
	}
	all := 0
	for range often {
		before, started, n := ran.Load(), h.Now(), 0
		for ran.Load() == before {
			h.Relax()
			if n++; n > 4*relaxStride {
				t.Fatal("a goroutine of this process waits for its turn")
			}
		}
		all += n
		if h.Now()-started < forcedAfter {
			calls, since = append(calls, all), append(since, n)
		}
	}
	over.Store(1)
	<-ended
	return calls, since
}

// Where processes share cores a polling process lets its goroutines without a processor run, but
// not at each turn if they may have one of their own.
func TestRelaxLetsGoroutinesRun(t *testing.T) {
	for _, c := range []struct {
		name       string
		shared     bool
		processors int
		every      int
	}{
		{"shared", true, 4, relaxStride},
		{"shared, one processor", true, 1, 1},
		{"a core each", false, 4, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := runtime.GOMAXPROCS(c.processors)
			defer runtime.GOMAXPROCS(before)
			h := New(Config{Shared: c.shared})
			calls, since := turns(t, h, 100)
			between := 0
			for i := range calls { // Go gives the yielding goroutine another turn now and then
				require.LessOrEqual(t, since[i], 3*c.every, "in calls %v", calls)
				if calls[i]%c.every != 0 {
					between++
				}
			}
			// Go takes the processor from a goroutine that has had it for 10 ms, which are few calls on busy cores.
			require.Less(t, between, len(calls)/2, "in calls %v", calls)
		})
	}
}

// switches is the number of preemptions of this thread by the kernel.
func switches(t *testing.T) int64 {
	var usage unix.Rusage
	assert.NoError(t, unix.Getrusage(unix.RUSAGE_THREAD, &usage))
	return usage.Nivcsw
}

// pin makes this goroutine, until it ends, run on a thread of its own, on one of the process's
// cores.
func pin(t *testing.T, core *unix.CPUSet) {
	runtime.LockOSThread()
	assert.NoError(t, unix.SchedSetaffinity(0, core))
}

// Where processes share cores a polling process lets a waiting process run at once, and not only
// when its time slice ends: that would take thousands of turns.
func TestRelaxLetsOthersRun(t *testing.T) {
	var all, core unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &all))
	for cpu := 0; core.Count() == 0; cpu++ {
		if all.IsSet(cpu) {
			core.Set(cpu)
		}
	}
	before := runtime.GOMAXPROCS(4)
	defer runtime.GOMAXPROCS(before)
	h := New(Config{Shared: true})
	const most = 10 * relaxStride // for 20 switches, which take some 40 turns
	for name, relax := range map[string]func(){"relax": h.Relax, "yield": h.Yield} {
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			pin(t, &core)
			var up, over atomic.Bool
			rivalEnded := make(chan struct{})
			go func() {
				defer close(rivalEnded)
				pin(t, &core)
				for up.Store(true); !over.Load(); {
				}
			}()
			for !up.Load() {
				runtime.Gosched()
			}
			begin, calls := switches(t), 0
			for ; switches(t) < begin+20 && calls < most; calls++ {
				relax()
			}
			over.Store(true)
			<-rivalEnded
			assert.Less(t, calls, most, name)
		}()
		<-ended
	}
}

// The number of polls and yields before a sleep depends on whether the process has a core, unless
// it is configured; a configured number of yields has no time limit.
func TestPatience(t *testing.T) {
	spins, yields := 3, 5
	for name, c := range map[string]struct {
		cfg           Config
		spins, yields int
		most          fabric.Time
	}{
		"a core each":      {Config{}, dedicatedSpins, dedicatedYields, fabric.Forever},
		"shared":           {Config{Shared: true}, 0, sharedYields, sharedMost},
		"few share a core": {Config{Shared: true, Ranks: 4 * runtime.NumCPU()}, 0, sharedYields, sharedMost},
		"many":             {Config{Shared: true, Ranks: 100 * runtime.NumCPU()}, 0, sharedYields, 4 * sharedMost},
		"spins chosen":     {Config{Shared: true, Spins: &spins}, 3, sharedYields, sharedMost},
		"yields chosen":    {Config{Shared: true, Yields: &yields}, 0, 5, fabric.Forever},
		"all are chosen":   {Config{Spins: &spins, Yields: &yields}, 3, 5, fabric.Forever},
	} {
		spins, yields, most := New(c.cfg).Patience()
		require.Equal(t, c.spins, spins, name)
		require.Equal(t, c.yields, yields, name)
		require.Equal(t, c.most, most, name)
	}
}

// A deadline ends a sleep and a wait, a ring or an unpark does so before it, and an earlier one is
// not lost.
func TestSleepAndPark(t *testing.T) {
	for name, h := range map[string]*Host{"own bell": New(Config{}), "given bell": New(Config{Bell: futex.NewPull(nil)})} {
		const short = fabric.Time(2_000_000)
		p := h.NewParker()
		for what, wait := range map[string]func(until fabric.Time){
			"sleep": func(until fabric.Time) { h.Arm(); h.Sleep(until) },
			"park":  p.ParkUntil,
		} {
			for range 2 { // the timer is used again
				until := h.Now() + short
				wait(until)
				require.GreaterOrEqual(t, h.Now(), until, "%s, %s", name, what)
			}
			wait(h.Now() - 1) // a deadline that has passed
		}
		h.Arm()
		h.Ring()
		h.Sleep(fabric.Forever)
		p.Unpark()
		p.Unpark() // one is kept
		p.ParkUntil(fabric.Forever)
		until := h.Now() + short
		p.ParkUntil(until)
		require.GreaterOrEqual(t, h.Now(), until, "the second token")
		var woken atomic.Bool
		h.Go(func() { woken.Store(true); p.Unpark() })
		p.Park()
		require.True(t, woken.Swap(false), "%s: no call has unparked", name)
		h.Go(func() { woken.Store(true); p.Unpark() })
		p.ParkUntil(fabric.Forever)
		require.True(t, woken.Swap(false), "%s: no call has unparked", name)
		h.Arm()
		h.Go(func() { woken.Store(true); h.Ring() })
		h.Sleep(fabric.Forever)
		require.True(t, woken.Load(), "%s: no call has rung", name)
	}
}

// A goroutine that computes without a pause keeps the only processor.
func TestWanted(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	h := New(Config{})
	for h.Wanted() { // on a busy machine another process may have had the core
	}
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		for !stop.Load() {
		}
		close(done)
	}()
	require.True(t, h.Wanted())
	stop.Store(true)
	<-done
}

// longNap is a nap that no test lasts.
const longNap = 10 * time.Minute

// napping is a host on shared cores whose goroutine naps in Sleep until the test ends it.
func napping(t *testing.T) (h *Host, end func()) {
	before := runtime.GOMAXPROCS(2)
	h = New(Config{Shared: true, Ranks: 4})
	require.Equal(t, napMost, h.nap)
	h.nap = longNap
	var over atomic.Bool
	asleep, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		close(asleep)
		for !over.Load() {
			h.Arm()
			h.Sleep(fabric.Forever)
		}
	}()
	<-asleep
	return h, func() {
		over.Store(true)
		for done := false; !done; {
			h.Ring() // lost where it comes before Arm
			select {
			case <-ended:
				done = true
			default:
				runtime.Gosched()
			}
		}
		runtime.GOMAXPROCS(before)
	}
}

// A goroutine that naps holds up neither collections nor timers nor other goroutines, and wakes at a
// ring and at its deadline.
func TestNapHoldsUpNothing(t *testing.T) {
	_, end := napping(t)
	defer end()
	for range 20 {
		runtime.GC()
		fired := make(chan struct{})
		time.AfterFunc(time.Millisecond, func() { close(fired) })
		<-fired
	}
}

func TestNapEnds(t *testing.T) {
	before := runtime.GOMAXPROCS(2)
	defer runtime.GOMAXPROCS(before)
	h := New(Config{Shared: true, Ranks: 4})
	h.nap = longNap
	h.Arm()
	started := h.Now()
	h.Sleep(started + 3_000_000)
	assert.GreaterOrEqual(t, h.Now()-started, fabric.Time(3_000_000))
	h.Arm()
	h.Ring()
	h.Sleep(fabric.Forever)
	h.Arm()
	go h.Ring()
	h.Sleep(fabric.Forever)
}

// A nap needs a second processor, and signals that stop goroutines.
func TestNapsOnSharedCoresOnly(t *testing.T) {
	before := runtime.GOMAXPROCS(2)
	defer runtime.GOMAXPROCS(before)
	assert.Zero(t, New(Config{}).nap)
	t.Setenv("GODEBUG", "x=1,asyncpreemptoff=1")
	assert.Zero(t, New(Config{Shared: true, Ranks: 4}).nap)
	t.Setenv("GODEBUG", "")
	runtime.GOMAXPROCS(1)
	assert.Zero(t, New(Config{Shared: true, Ranks: 4}).nap)
}
