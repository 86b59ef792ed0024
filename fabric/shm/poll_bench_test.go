package shm

import (
	"fmt"
	"testing"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// BenchmarkIdlePoll measures a Poll that finds nothing, with so many peers.
func BenchmarkIdlePoll(b *testing.B) {
	for _, peers := range []int{1, 31, 127} {
		b.Run(fmt.Sprint(peers), func(b *testing.B) {
			cfg := Config{MaxProcs: peers + 1, Lines: 64, BulkBytes: 16 << 10}
			p := open(b, cfg)
			e := newObserver()
			for i := range peers {
				cfg.Self = proc.ID(i + 1)
				peer := open(b, cfg)
				if _, err := peer.Dial(fabric.ConnectSpec{Peer: 0, Address: p.Address()}); err != nil {
					b.Fatal(err)
				}
				p.Poll(&e.Sink)
				peer.Poll(&e.Sink)
			}
			for b.Loop() {
				p.Poll(&e.Sink)
			}
		})
	}
}
