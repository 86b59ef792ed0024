package sm

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric/host"
	"github.com/banyan-hpc/banyan/fabric/shm"
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
	"github.com/banyan-hpc/banyan/p2p"
)

// member stands for a process.
type member struct {
	memory *Memory
	comm   *p2p.Comm // of collectives
}

// pair makes two ranks of one process over shared memory.
func pair(t *testing.T) (all [2]member) {
	var providers [2]*shm.Provider
	for i := range providers {
		var err error
		providers[i], err = shm.Open(shm.Config{Self: proc.ID(i), MaxProcs: 2})
		require.NoError(t, err)
	}
	for i, p := range providers {
		e := progress.New(progress.Config{
			Self: proc.ID(i), Host: host.New(host.Config{Bell: p.Bell(), Shared: true}), Shm: p,
			Resolve: func(_ string, peer proc.ID) ([]byte, error) { return providers[peer].Address(), nil },
		})
		m := p2p.New(e, true, p2p.Limits{})
		world, err := m.NewComm("world", p2p.WorldGroup(2), i, 1)
		require.NoError(t, err)
		all[i] = member{New(e, p.Boards(), func(proc.ID) int { return 0 }), world.Coll()}
		t.Cleanup(func() {
			m.Close()
			require.NoError(t, e.Close())
		})
	}
	return all
}

// Searches that end with an error use no memory up: there is room for about a thousand segments of two.
func TestFindThatFails(t *testing.T) {
	all := pair(t)
	require.NoError(t, all[0].comm.Revoke())
	for range 1100 {
		_, err := Find[p2p.Aware](all[0].memory, all[0].comm, []int{0, 1})
		require.ErrorIs(t, err, ft.ErrRevoked)
	}
	_, can := all[0].memory.offer(all[0].comm, []int{0, 1})
	require.True(t, can)
}

// After any answer of rank 0, another rank has a segment that it can look at, or none, or an error.
func FuzzFind(f *testing.F) {
	f.Add(binary.LittleEndian.AppendUint64(nil, 1))
	f.Add(binary.LittleEndian.AppendUint64(nil, 1<<63))
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0})
	f.Add([]byte{7})
	f.Add(make([]byte, 9))
	f.Fuzz(func(t *testing.T, answer []byte) {
		all := pair(t)
		wrong := make(chan error)
		go func() {
			c := all[0].comm
			_, err := p2p.Recv[p2p.Aware](c, make([]byte, 8), 1, tag)
			if err == nil {
				err = p2p.Send[p2p.Aware](c, answer[:min(len(answer), 64)], 1, tag)
			}
			wrong <- err
		}()
		segment, err := Find[p2p.Aware](all[1].memory, all[1].comm, []int{0, 1})
		require.NoError(t, <-wrong)
		switch {
		case len(answer) != 8:
			require.ErrorIs(t, err, ft.ErrArgument)
		case segment != nil:
			segment.phase.Brought(0)
		}
	})
}
