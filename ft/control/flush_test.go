package control

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// A process that flushes before it leaves has notified all, unconnected processes too, even if a
// frame goes in pieces and without credit; failed receivers do not delay it.
func TestFlush(t *testing.T) {
	const n, frames, victims = 7, 300, 3
	payload := make([]byte, 100_000)
	received := make([]int, n)
	var left []proc.ID
	s, err := sim.New(sim.DefaultConfig(n))
	require.NoError(t, err)
	for id := range proc.ID(n) {
		require.NoError(t, s.Spawn(id, func(p *sim.Proc) {
			e := progress.New(progress.Config{
				Self: p.ID(), Host: p.Host(), Others: []fabric.Provider{p.Provider()},
				Resolve: func(_ string, peer proc.ID) ([]byte, error) { return sim.Address(peer), nil },
			})
			in := inbox{longest: len(payload)}
			var ended progress.Completion
			e.Handle(fabric.ClassAgree, func(from proc.ID, imm uint64, piece []byte) {
				if frame, ok := in.take(from, imm, piece); ok && len(frame) == len(payload) {
					received[p.ID()]++
				}
			})
			e.OnEnd(func(*progress.Endpoint, proc.Cause) { ended.Finish() })
			e.Lock()
			if p.ID() == 0 {
				out := NewOutbox(e, nil)
				for peer := proc.ID(1); peer < n; peer++ {
					for range frames / int(peer) {
						out.Send(peer, fabric.ClassAgree, payload)
					}
				}
				left = out.Flush(fabric.Forever / 2)
				out.Stop()
			} else {
				e.Wait(&ended)
			}
			e.Unlock()
			e.Depart()
			_ = e.Close()
		}))
	}
	require.NoError(t, s.KillAtStep(victims, 5))
	require.NoError(t, s.Run())
	require.Empty(t, left)
	for peer := 1; peer < n; peer++ {
		if peer != victims {
			require.Equal(t, frames/peer, received[peer], "process %d", peer)
		}
	}
}

// Flush gives up a living receiver that accepts nothing any more, but not one that accepts
// something now and then.
func TestFlushGivesUp(t *testing.T) {
	const second = fabric.Time(1_000_000_000)
	const slow, stuck, frames = 1, 2, 1000
	received := 0
	var left []proc.ID
	var took fabric.Time
	cfg := sim.DefaultConfig(3)
	cfg.MaxTime = 2000 * second
	s, err := sim.New(cfg)
	require.NoError(t, err)
	for id := range proc.ID(3) {
		require.NoError(t, s.Spawn(id, func(p *sim.Proc) {
			e := progress.New(progress.Config{
				Self: p.ID(), Host: p.Host(), Others: []fabric.Provider{p.Provider()},
				Resolve: func(_ string, peer proc.ID) ([]byte, error) { return sim.Address(peer), nil },
			})
			e.Handle(fabric.ClassAgree, func(proc.ID, uint64, []byte) { received++ })
			e.Lock()
			switch p.ID() {
			case 0:
				out := NewOutbox(e, nil)
				for range frames {
					out.Send(slow, fabric.ClassAgree, nil)
					out.Send(stuck, fabric.ClassAgree, nil)
				}
				left, took = out.Flush(10*second), p.Host().Now()
				out.Stop()
			case slow:
				for received < frames {
					p.Host().Pause(8 * second)
					e.ProgressUntilIdle(second)
				}
			case stuck:
				p.Host().Pause(1000 * second)
			}
			e.Unlock()
			e.Depart()
			_ = e.Close()
		}))
	}
	require.NoError(t, s.Run())
	require.Equal(t, frames, received)
	require.Equal(t, []proc.ID{stuck}, left)
	require.Less(t, took, 1000*second) // virtual
}
