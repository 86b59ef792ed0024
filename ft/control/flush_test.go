package control

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/proc"
	"github.com/banyan-hpc/banyan/progress"
)

// Who flushes before it leaves has told everybody, strangers too, also where a frame goes in pieces and there is no
// credit for them; the dead keep nobody.
func TestFlush(t *testing.T) {
	const n, frames, dead = 7, 300, 3
	payload := make([]byte, 100_000)
	heard := make([]int, n)
	s, err := sim.New(sim.DefaultConfig(n))
	require.NoError(t, err)
	for id := range proc.ID(n) {
		require.NoError(t, s.Spawn(id, func(p *sim.Proc) {
			e := progress.New(progress.Config{
				Self: p.ID(), Host: p.Host(), Others: []fabric.Provider{p.Provider()},
				Resolve: func(_ string, peer proc.ID) ([]byte, error) { return sim.Address(peer), nil },
			})
			in := inbox{most: len(payload)}
			var left progress.Completion
			e.Handle(fabric.ClassAgree, func(from proc.ID, imm uint64, piece []byte) {
				if frame, ok := in.take(from, imm, piece); ok && len(frame) == len(payload) {
					heard[p.ID()]++
				}
			})
			e.OnEnd(func(*progress.Endpoint, proc.Cause) { left.Finish() })
			e.Lock()
			if p.ID() == 0 {
				out := NewOutbox(e, nil)
				for peer := proc.ID(1); peer < n; peer++ {
					for range frames / int(peer) {
						out.Send(peer, fabric.ClassAgree, payload)
					}
				}
				out.Flush()
				out.Stop()
			} else {
				e.Wait(&left)
			}
			e.Unlock()
			e.Depart()
			_ = e.Close()
		}))
	}
	require.NoError(t, s.KillAtStep(dead, 5))
	require.NoError(t, s.Run())
	for peer := 1; peer < n; peer++ {
		if peer != dead {
			require.Equal(t, frames/peer, heard[peer], "process %d", peer)
		}
	}
}
