package progress

import (
	"os"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/host"
	"github.com/banyan-hpc/banyan/fabric/shm"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// sleepingHost is a host that sleeps whenever nothing has arrived.
type sleepingHost struct{ *host.Host }

func (sleepingHost) Patience() (spins, yields int, most fabric.Time) { return 0, 0, fabric.Forever }

// engines makes two engines in this process, connected by shared memory.
func engines(t testing.TB, patient bool) (e [2]*Engine) {
	var p [2]*shm.Provider
	for i := range p {
		var err error
		p[i], err = shm.Open(shm.Config{Self: proc.ID(i), MaxProcs: 2})
		require.NoError(t, err)
	}
	for i := range e {
		var h fabric.Host = host.New(host.Config{Bell: p[i].Bell()})
		if !patient {
			h = sleepingHost{h.(*host.Host)}
		}
		e[i] = New(Config{
			Self: proc.ID(i), Host: h, Shm: p[i],
			Resolve: func(_ string, peer proc.ID) ([]byte, error) { return p[peer].Address(), nil },
		})
		t.Cleanup(func() { require.NoError(t, e[i].Close()) })
	}
	return e
}

// counter counts frames and lets a goroutine wait for a number of them.
type counter struct {
	e    *Engine
	n    int
	want int
	c    Completion
}

func count(e *Engine) *counter {
	k := &counter{e: e}
	e.Handle(fabric.ClassTest, func(proc.ID, uint64, []byte) {
		k.n++
		if k.n == k.want {
			k.c.Finish()
		}
	})
	return k
}

// await waits for the n-th frame.
func (k *counter) await(n int) {
	k.e.Lock()
	defer k.e.Unlock()
	if k.n >= n {
		return
	}
	k.want = n
	k.c.Reset()
	k.e.Wait(&k.c)
}

func messages(long int) int {
	if os.Getenv("BANYAN_LONG") != "" {
		return long
	}
	return 20_000 // where others have the cores each may take milliseconds
}

// Two engines exchange a message back and forth and sleep at every wait: with one lost wake-up the
// test never ends.
func TestNoLostWakeUp(t *testing.T) {
	pingPong(t, engines(t, false), 0, messages(10_000_000)/2)
}

// pingPong exchanges a message back and forth; the first async engines have a progress goroutine.
func pingPong(t *testing.T, e [2]*Engine, attended, rounds int) {
	counters := [2]*counter{count(e[0]), count(e[1])}
	for i := range attended {
		e[i].StartAsync()
	}
	play := func(me int) {
		k := counters[me]
		ep, err := e[me].Endpoint(proc.ID(1 - me))
		require.NoError(t, err)
		for i := 1; i <= rounds; i++ {
			if me == 1 {
				k.await(i)
			}
			e[me].Lock()
			require.True(t, ep.TrySend(fabric.ClassTest, 0, nil))
			e[me].Unlock()
			if me == 0 {
				k.await(i)
			}
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() { play(1) })
	play(0)
	wg.Wait()
}

// The same with a progress goroutine at one side, or at both, and with spinning or without.
func TestNoLostWakeUpAsync(t *testing.T) {
	for _, patient := range []bool{true, false} {
		for attended := 1; attended <= 2; attended++ {
			pingPong(t, engines(t, patient), attended, messages(1_000_000)/20)
		}
	}
}

// A frame is answered by an engine without any call, repeatedly, and its frames to itself and its
// jobs are done.
func TestAsyncProgress(t *testing.T) {
	e := engines(t, true)
	k := count(e[0])
	self := e[1].Lookup(1)
	e[1].Handle(fabric.ClassTest, func(from proc.ID, imm uint64, _ []byte) {
		switch {
		case from == 0:
			self.TrySend(fabric.ClassTest, imm, nil)
		case imm%2 == 0:
			e[1].Submit(&Job{Run: func(*Job) {}, Done: func(*Job) { e[1].Lookup(0).TrySend(fabric.ClassTest, imm, nil) }})
		default:
			e[1].After(1000, func() { e[1].Lookup(0).TrySend(fabric.ClassTest, imm, nil) })
		}
	})
	e[1].StartAsync()
	ep, err := e[0].Endpoint(1)
	require.NoError(t, err)
	for i := 1; i <= 300; i++ {
		e[0].Lock()
		require.True(t, ep.TrySend(fabric.ClassTest, uint64(i), nil))
		e[0].Unlock()
		k.await(i)
	}
}

// Several goroutines wait at one engine; each gets its own frames.
func TestManyWaiters(t *testing.T) {
	for _, attended := range []bool{false, true} {
		manyWaiters(t, engines(t, false), attended)
	}
}

func manyWaiters(t *testing.T, e [2]*Engine, attended bool) {
	const waiters, rounds = 8, 500
	var done [waiters]Completion
	e[1].Handle(fabric.ClassTest, func(_ proc.ID, imm uint64, _ []byte) { done[imm].Finish() })
	if attended {
		e[1].StartAsync()
	}
	ep, err := e[0].Endpoint(1)
	require.NoError(t, err)
	acks := make(chan struct{}, waiters)
	var wg sync.WaitGroup
	for w := range waiters {
		wg.Go(func() {
			for range rounds {
				e[1].Lock()
				e[1].Wait(&done[w])
				done[w].Reset()
				e[1].Unlock()
				acks <- struct{}{}
			}
		})
	}
	for range rounds {
		for w := range waiters {
			e[0].Lock()
			require.True(t, ep.TrySend(fabric.ClassTest, uint64(w), nil))
			e[0].Unlock()
		}
		for range waiters {
			<-acks
		}
	}
	wg.Wait()
}

// A goroutine whose wait has ended runs before the polling goroutine stops spinning, also where
// both have one processor.
func TestWokenRunsFirst(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	e := engines(t, true)
	const rounds = 20
	var driver, parked Completion
	var at uint64
	e[1].Handle(fabric.ClassTest, func(_ proc.ID, imm uint64, _ []byte) {
		if imm == 0 {
			driver.Finish()
			return
		}
		at = e[1].rounds
		parked.Finish()
	})
	ep, err := e[0].Endpoint(1)
	require.NoError(t, err)
	send := func(imm uint64) {
		e[0].Lock()
		defer e[0].Unlock()
		require.True(t, ep.TrySend(fabric.ClassTest, imm, nil))
	}
	var wg sync.WaitGroup
	wait := func(c *Completion) {
		e[1].Lock()
		e[1].Wait(c)
		e[1].Unlock()
	}
	settled := func(what func() bool) {
		for ok := false; !ok; runtime.Gosched() {
			e[1].Lock()
			ok = what()
			e[1].Unlock()
		}
	}
	wg.Go(func() { wait(&driver) })
	settled(func() bool { return e[1].progressing })
	polls, most := make(chan uint64, 1), uint64(0)
	for range rounds {
		wg.Go(func() {
			wait(&parked)
			e[1].Lock()
			defer e[1].Unlock()
			parked.Reset()
			polls <- e[1].rounds - at
		})
		settled(func() bool { return e[1].parked != nil })
		send(1)
		most = max(most, <-polls)
	}
	send(0)
	wg.Wait()
	require.Less(t, most, uint64(100), "polls between the end of a wait and its return")
	require.Zero(t, e[1].woken)
}

func TestJobsRunWithoutTheLock(t *testing.T) {
	e := engines(t, false)[0]
	var done Completion
	ran := false
	e.Lock()
	e.Submit(&Job{
		Run:  func(*Job) { e.Lock(); ran = true; e.Unlock() },
		Done: func(*Job) { done.Finish() },
	})
	e.Wait(&done)
	e.Unlock()
	require.True(t, ran)
}

// A peer's end is reported once, and after it nothing from the peer is delivered.
func TestEndIsReportedOnce(t *testing.T) {
	e := engines(t, false)
	_, err := e[0].Endpoint(1)
	require.NoError(t, err)
	_, err = e[1].Endpoint(0)
	require.NoError(t, err)
	var told []proc.Cause
	var done Completion
	e[0].OnEnd(func(ep *Endpoint, c proc.Cause) {
		require.EqualValues(t, 1, ep.Proc)
		told = append(told, c)
		done.Finish()
	})
	require.NoError(t, e[1].Close()) // without departing
	e[0].Lock()
	e[0].Wait(&done)
	e[0].down(e[0].shm, 1, proc.Cause{})
	e[0].departed(e[0].shm, 1)
	e[0].Unlock()
	require.Equal(t, []proc.Cause{{Kind: proc.Connection}}, told)
	require.True(t, e[0].View().Failed(1))
	require.EqualValues(t, 1, e[0].View().Epoch())
}

// A goroutine that sleeps in its wait is woken by another goroutine's frame to this process itself.
func TestLoopbackWakes(t *testing.T) {
	e := engines(t, false)[0]
	k := count(e)
	rounds := 2000
	var wg sync.WaitGroup
	turn := make(chan struct{})
	wg.Go(func() {
		for range turn {
			e.Lock()
			for !e.asleep { // until the other goroutine sleeps
				e.Unlock()
				runtime.Gosched()
				e.Lock()
			}
			require.True(t, e.Lookup(0).TrySend(fabric.ClassTest, 0, nil))
			e.Unlock()
		}
	})
	for i := 1; i <= rounds; i++ {
		turn <- struct{}{}
		k.await(i)
	}
	close(turn)
	wg.Wait()
}

func TestLoopbackOrderAndCredit(t *testing.T) {
	e := engines(t, true)[0]
	var got []uint64
	e.Handle(fabric.ClassTest, func(_ proc.ID, imm uint64, p []byte) {
		require.Len(t, p, int(imm))
		got = append(got, imm)
	})
	e.Lock()
	defer e.Unlock()
	self := e.Lookup(0)
	n := uint64(0)
	for self.TrySend(fabric.ClassTest, n, make([]byte, n)) {
		n++
	}
	require.EqualValues(t, loopbackFrames, n)
	for e.Progress() {
	}
	require.Len(t, got, loopbackFrames)
	require.True(t, self.TrySend(fabric.ClassTest, 0, nil))
}

// BenchmarkLock measures the cost of thread safety for an uncontended call.
func BenchmarkLock(b *testing.B) {
	e := engines(b, true)[0]
	held := 0
	for b.Loop() {
		e.Lock()
		held++
		e.Unlock()
	}
}

// Deferred functions run before anything is polled, once, and not in the round that deferred them.
func TestDefer(t *testing.T) {
	e := engines(t, true)[0]
	e.Lock()
	defer e.Unlock()
	var done []string
	e.Watch(&Watcher{Look: func() int {
		if done = append(done, "look"); len(done) == 1 {
			e.Defer(func() { done = append(done, "later") })
		}
		return 0
	}})
	for range 3 {
		e.Progress()
	}
	require.Equal(t, []string{"look", "later", "look", "look"}, done)
}
