package progress

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/host"
)

// sharedHost is a host on which a yield takes 60 ns, and which yields for 100 ns at most.
type sharedHost struct {
	*host.Host
	now    fabric.Time
	yields int
	slept  func()
}

func (h *sharedHost) Patience() (spins, yields int, most fabric.Time) { return 0, 1000, 100 }
func (h *sharedHost) Now() fabric.Time                                { return h.now }
func (h *sharedHost) Relax()                                          { h.yields++; h.now += 60 }
func (h *sharedHost) Sleep(fabric.Time)                               { h.slept() }

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
