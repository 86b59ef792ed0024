package progress

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/host"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// sharedHost is a host on which a yield takes 60 ns, and which yields for 100 ns at most.
type sharedHost struct {
	*host.Host
	now    fabric.Time
	yields int
	slept  func()
	// relaxed, if not nil, is called in each yield.
	relaxed func()
}

func (h *sharedHost) Patience() (spins, yields int, most fabric.Time) { return 0, 1000, 100 }
func (h *sharedHost) Now() fabric.Time                                { return h.now }
func (h *sharedHost) Sleep(fabric.Time)                               { h.slept() }

func (h *sharedHost) Relax() {
	if h.relaxed != nil {
		h.relaxed()
	}
	h.yields++
	h.now += 60
}

// Where yields take long a process sleeps after few of them, and counts anew after a wake-up.
func TestYieldsAreBoundedByTime(t *testing.T) {
	h := &sharedHost{Host: host.New(host.Config{})}
	e := New(Config{Host: h})
	var done Completion
	var at []int
	h.slept = func() {
		if at = append(at, h.yields); len(at) == 3 {
			e.Lock()
			done.Finish()
			e.Unlock()
		}
	}
	e.Lock()
	e.Wait(&done)
	e.Unlock()
	require.Equal(t, []int{2, 4, 6}, at)
	require.NoError(t, e.Close())
}

// A process that is woken by a heartbeat sleeps again at once; by another frame it does not.
func TestBackgroundFramesAreNotWaitedFor(t *testing.T) {
	for class, yields := range map[fabric.Class]int{fabric.ClassDetect: 2, fabric.ClassAgree: 6} {
		h := &sharedHost{Host: host.New(host.Config{})}
		e := New(Config{Host: h})
		self, err := e.Endpoint(e.Self())
		require.NoError(t, err)
		frames, sleeps := 0, 0
		count := func(proc.ID, uint64, []byte) { frames++ }
		e.HandleBackground(fabric.ClassDetect, count)
		e.Handle(fabric.ClassAgree, count)
		var done Completion
		h.slept = func() {
			e.Lock()
			if sleeps++; sleeps == 3 {
				done.Finish()
			} else {
				require.True(t, self.Conn().TrySend(class, 0, nil))
			}
			e.Unlock()
		}
		e.Lock()
		e.Wait(&done)
		e.Unlock()
		require.Equal(t, 2, frames)
		require.Equal(t, yields, h.yields, class)
		require.NoError(t, e.Close())
	}
}

// computing is a host whose processors other goroutines want for a while.
type computing struct {
	*host.Host
	wanted func() bool
	paused func()
	slept  chan struct{} // the first sleep
}

func (h *computing) Wanted() bool { return h.wanted() }

func (h *computing) Pause(d fabric.Time) {
	h.paused()
	h.Host.Pause(d)
}

func (h *computing) Sleep(until fabric.Time) {
	select {
	case h.slept <- struct{}{}:
	default:
	}
	h.Host.Sleep(until)
}

// While goroutines of the application compute on all processors, the progress goroutine does not sleep in
// the kernel, where it would keep one of them. Nor does it sleep if another makes progress meanwhile.
func TestProgressLeavesTheProcessor(t *testing.T) {
	h := &computing{Host: host.New(host.Config{}), slept: make(chan struct{}, 1)}
	e := New(Config{Host: h})
	asked := 0
	setProgressing := func(progressing bool) {
		e.Lock()
		e.progressing = progressing
		e.Unlock()
	}
	h.wanted = func() bool {
		if asked++; asked == 6 {
			setProgressing(true)
		}
		return asked <= 5
	}
	h.paused = func() {
		if asked == 6 {
			require.Empty(t, h.slept)
			setProgressing(false)
		}
	}
	e.StartAsync()
	<-h.slept
	require.Equal(t, 7, asked)
	require.NoError(t, e.Close())
}

// Nor does it miss, while they compute, timers and what a provider finds only in some of its polls.
func TestComputingProcessMakesProgress(t *testing.T) {
	paused := make(chan struct{}, 1)
	h := &computing{Host: host.New(host.Config{}), slept: make(chan struct{}, 1), wanted: func() bool { return true }}
	h.paused = func() {
		select {
		case paused <- struct{}{}:
		default:
		}
	}
	e := New(Config{Host: h})
	rounds, fired := 0, false
	e.OnStall(func() int { rounds++; return 0 })
	e.Lock()
	e.After(1, func() { fired = true })
	e.Unlock()
	e.StartAsync()
	for range 3 {
		<-paused
	}
	e.Lock()
	require.True(t, fired)
	require.GreaterOrEqual(t, rounds, 3*idleRounds)
	e.Unlock()
	require.NoError(t, e.Close())
}
