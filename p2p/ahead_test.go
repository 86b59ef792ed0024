package p2p

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/internal/proc"
)

// A message that the receiver takes late leaves in frames where processes share cores, up to a limit, and is announced
// elsewhere. It arrives whole either way.
func TestIsendAhead(t *testing.T) {
	const n, beyond = 100_000, 200_000
	for _, crowded := range []bool{false, true} {
		_, e, c := connectedProviders(t, crowded)
		send := func(n int) (announced bool) {
			from, to := make([]byte, n), make([]byte, n)
			for i := range from {
				from[i] = byte(i%251 + 1)
			}
			before := e[0].announcedTo(1)
			h := IsendAhead[Aware](c[0], from, 1, 5)
			received := make(chan error)
			go func() {
				_, err := Recv[Aware](c[1], to, 0, 5)
				received <- err
			}()
			_, err := e[0].Wait(h)
			require.NoError(t, err)
			require.NoError(t, <-received)
			require.Equal(t, from, to)
			return e[0].announcedTo(1) > before
		}
		announced := 0
		for range 40 { // the first ones, until the pair has a long ring
			if send(n) {
				announced++
			}
		}
		if crowded {
			require.Less(t, announced, 20)
		} else {
			require.Equal(t, 40, announced)
		}
		require.True(t, send(beyond), "beyond the limit")
		e[0].findLink(1).limit = n - 1
		require.True(t, send(n), "beyond the user's limit")
	}
}

func (e *Engine) announcedTo(peer int) uint64 {
	e.Lock()
	defer e.Unlock()
	if l := e.findLink(proc.ID(peer)); l != nil {
		return l.announcedEver.Messages
	}
	return 0
}
