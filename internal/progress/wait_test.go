package progress

import (
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/host"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// until returns with the lock held once cond is true; others run meanwhile.
func (e *Engine) until(cond func() bool) {
	e.Lock()
	for !cond() {
		e.Unlock()
		runtime.Gosched()
		e.Lock()
	}
}

// Finishing the progressing goroutine's completion wakes it, also by way of another Completion.
func TestFinishWakesSleeper(t *testing.T) {
	for range 200 {
		e := engines(t, false)[0]
		var below, c Completion
		below.Then(c.Finish)
		var wg sync.WaitGroup
		wg.Go(func() {
			e.Lock()
			e.Wait(&c)
			e.Unlock()
		})
		e.until(func() bool { return e.asleep })
		below.Finish()
		e.Unlock()
		wg.Wait()
	}
}

// A goroutine that parked while another one polled once takes over from it.
func TestProgressHandsOver(t *testing.T) {
	for _, attended := range []bool{false, true} {
		e := engines(t, false)[0]
		running, release := make(chan struct{}), make(chan struct{})
		var wg sync.WaitGroup
		e.Lock()
		e.Submit(&Job{Run: func(*Job) { close(running); <-release }, Done: func(*Job) {}})
		e.Unlock()
		wg.Go(func() {
			e.Lock()
			e.Progress()
			e.Unlock()
		})
		<-running
		if attended {
			e.StartAsync()
		}
		var c Completion
		wg.Go(func() {
			e.Lock()
			e.Wait(&c)
			e.Unlock()
		})
		e.until(func() bool { return c.in != nil })
		e.After(20_000_000, func() { c.Finish() }) // the progressing goroutine calls it then
		e.Unlock()
		close(release)
		wg.Wait()
	}
}

// A timer that finishes the caller's completion keeps it from sleeping.
func TestSleepSeesItsTimers(t *testing.T) {
	e := engines(t, false)[0]
	called := false
	e.Lock()
	defer e.Unlock()
	e.After(0, func() { called = true })
	e.sleep() // nothing would wake it
	require.True(t, called)
}

// busy is a provider that has something at each poll.
type busy struct {
	*loopback
	poll func()
}

func (b *busy) Name() string                                    { return "busy" }
func (b *busy) Lookup(proc.ID) fabric.Conn                      { return nil }
func (b *busy) Inform(proc.ID, proc.Cause)                      {}
func (b *busy) Connect(fabric.ConnectSpec) (fabric.Conn, error) { return nil, fabric.ErrUnsupported }
func (b *busy) Ready() bool                                     { return true }

func (b *busy) Poll(*fabric.Sink) int {
	b.poll()
	return 1
}

// A progressing goroutine releases the lock to others, also while traffic never ends.
func TestTrafficReleasesTheLock(t *testing.T) {
	b := &busy{loopback: newLoopback(0, func() {})}
	e := New(Config{Host: host.New(host.Config{}), Others: []fabric.Provider{b}})
	var c Completion
	polls, taken := 0, 0
	b.poll = func() {
		if polls++; polls == 2_000_000_000 { // ends the test if no goroutine gets the lock
			c.Finish()
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		e.until(func() bool { return polls > 0 })
		e.Unlock()
		for range 10 {
			e.Lock()
			if !c.done {
				taken++
			}
			e.Unlock()
		}
		e.Lock()
		c.Finish()
		e.Unlock()
	})
	e.Lock()
	e.Wait(&c)
	e.Unlock()
	wg.Wait()
	require.Equal(t, 10, taken)
}

// A goroutine that receives one peer's frames by the shortcut polls the others too.
func TestAwaitYieldsToOthers(t *testing.T) {
	e := engines(t, true)
	ep, err := e[0].Endpoint(1)
	require.NoError(t, err)
	back, err := e[1].Endpoint(0)
	require.NoError(t, err)
	turns := 0
	var buf [8]byte
	for range 10 * awaitFrames {
		e[1].Lock()
		require.True(t, back.TrySend(fabric.ClassTest, 1, buf[:]))
		e[1].Unlock()
		e[0].Lock()
		if n := e[0].Await(ep, fabric.ClassTest, 1, buf[:]); n < 0 {
			for !e[0].Progress() {
			}
			turns++
		}
		e[0].Unlock()
	}
	require.GreaterOrEqual(t, turns, 10)
}

// A process departs after its jobs: one may write to memory of a peer.
func TestDepartWaitsForJobs(t *testing.T) {
	e := engines(t, true)[0]
	running, release := make(chan int), make(chan int)
	var c Completion
	waited := make(chan int)
	go func() {
		e.Lock()
		e.Submit(&Job{Run: func(*Job) { close(running); <-release }, Done: func(*Job) { c.Finish() }})
		e.Wait(&c)
		e.Unlock()
		close(waited)
	}()
	<-running
	departed := make(chan bool, 1)
	go func() {
		e.Depart()
		e.Lock()
		departed <- c.Done()
		e.Unlock()
	}()
	for range 1000 { // so that it departs if it does not wait
		runtime.Gosched()
	}
	close(release)
	done := <-departed
	<-waited
	require.True(t, done)
}
