package p2p

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric/host"
	"github.com/banyan-hpc/banyan/fabric/shm"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// connectedPair makes two engines in this process, connected by shared memory.
func connectedPair(t *testing.T) (e [2]*Engine, c [2]*Comm) {
	_, e, c = connectedProviders(t, true)
	return e, c
}

// connectedProviders is connectedPair with the providers, which share their cores or not.
func connectedProviders(t *testing.T, crowded bool) (p [2]*shm.Provider, e [2]*Engine, c [2]*Comm) {
	for i := range p {
		var err error
		p[i], err = shm.Open(shm.Config{Self: proc.ID(i), MaxProcs: 2})
		require.NoError(t, err)
	}
	for i := range p {
		pe := progress.New(progress.Config{
			Self: proc.ID(i), Host: host.New(host.Config{Bell: p[i].Bell(), Shared: crowded}), Shm: p[i],
			Resolve: func(_ string, peer proc.ID) ([]byte, error) { return p[peer].Address(), nil },
		})
		t.Cleanup(func() { require.NoError(t, pe.Close()) })
		e[i] = New(pe, true, Limits{})
		var err error
		c[i], err = e[i].NewComm("world", WorldGroup(2), i, 1)
		require.NoError(t, err)
	}
	return p, e, c
}

// A link knows whether the peer has sent anything since the last call; a notice that the peer has
// pulled a message does not count.
func TestHasReplied(t *testing.T) {
	e, c := connectedPair(t)
	send := func(from, bytes int) {
		h := Isend[Aware](c[from], make([]byte, bytes), 1-from, 1)
		done := make(chan error)
		go func() {
			_, err := Recv[Aware](c[1-from], make([]byte, bytes), from, 1)
			done <- err
		}()
		_, err := e[from].Wait(h)
		require.NoError(t, err)
		require.NoError(t, <-done)
	}
	answered := func() bool {
		e[0].Lock()
		defer e[0].Unlock()
		return e[0].findLink(1).hasReplied()
	}
	send(0, 8)
	require.False(t, answered())
	for range 3 {
		send(0, 100_000) // announced, and answered by Fin
		require.False(t, answered())
		send(1, 8)
		require.True(t, answered())
		require.False(t, answered())
	}
}
