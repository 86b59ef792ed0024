package progress

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// A sleeping sender without credit wakes when credit returns.
func TestStarvedSenderIsWoken(t *testing.T) {
	e := engines(t, false)
	frames := messages(1_000_000)
	payload := make([]byte, 3000)
	var wg sync.WaitGroup
	wg.Go(func() { k := count(e[1]); k.await(frames) })
	ep, err := e[0].Endpoint(1)
	require.NoError(t, err)
	left := frames
	var done Completion
	e[0].OnStall(func() int {
		n := 0
		for left > 0 && ep.TrySend(fabric.ClassTest, 0, payload) {
			left--
			n++
		}
		if left == 0 {
			done.Finish()
		}
		return n
	})
	e[0].Lock()
	e[0].Wait(&done)
	e[0].Unlock()
	wg.Wait()
}

// Frames of the control classes that wait for credit go before all others, however many there are.
func TestBacklogGoesFirst(t *testing.T) {
	const control = fabric.ClassDetect
	e := engines(t, true)
	ep, err := e[0].Endpoint(1)
	require.NoError(t, err)
	others, controls := 0, 0
	e[1].Handle(fabric.ClassTest, func(proc.ID, uint64, []byte) { others++ })
	e[1].Handle(control, func(proc.ID, uint64, []byte) { controls++ })
	accepted := 0
	e[0].OnStall(func() int {
		before := accepted
		for ep.TrySend(fabric.ClassTest, 0, nil) {
			accepted++
		}
		return accepted - before
	})
	e[0].OnBacklog(func() (sent int, left bool) {
		if ep.TrySend(control, 0, nil) {
			return 1, false
		}
		return 0, true
	})
	progress := func(e *Engine) {
		e.Lock()
		e.Progress()
		e.Unlock()
	}
	progress(e[0])
	e[0].Lock()
	e[0].Backlog()
	e[0].Unlock()
	for most := 2 * accepted; controls == 0; {
		progress(e[0])
		progress(e[1])
		require.LessOrEqual(t, others, most)
	}
	require.Equal(t, 1, controls)
}
