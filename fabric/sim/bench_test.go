package sim

import (
	"fmt"
	"testing"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// BenchmarkSwitch measures one switch from a process to the scheduler's choice
// and back: two processes that yield in turn.
func BenchmarkSwitch(b *testing.B) {
	s := newSim(b, DefaultConfig(2))
	for id := range proc.ID(2) {
		spawn(b, s, id, func(p *Proc) {
			for range b.N {
				p.Host().Yield()
			}
		})
	}
	b.ReportAllocs()
	b.ResetTimer()
	if err := s.Run(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkPingPong measures one message each way between two processes that
// sleep for every message.
func BenchmarkPingPong(b *testing.B) {
	s := newSim(b, DefaultConfig(2))
	for id := range proc.ID(2) {
		spawn(b, s, id, func(p *Proc) {
			n := newNode(p)
			c := n.connect(1 - id)
			for i := range uint64(b.N) {
				if id == 0 {
					n.send(c, i, nil)
				}
				n.pumpUntil(func() bool { return n.got > i })
				if id == 1 {
					n.send(c, i, nil)
				}
			}
		})
	}
	b.ReportAllocs()
	b.ResetTimer()
	if err := s.Run(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkExchange measures a message among many processes, each of which
// talks to ten others.
func BenchmarkExchange(b *testing.B) {
	for _, procs := range []int{64, 1024, 16384} {
		b.Run(fmt.Sprint(procs), func(b *testing.B) {
			rounds := max(b.N/(procs*10), 1)
			b.ReportAllocs()
			s := exchange(b, procs, rounds)
			if err := s.Run(); err != nil {
				b.Fatal(err)
			}
			messages := float64(rounds * procs * 10)
			b.ReportMetric(messages/b.Elapsed().Seconds(), "msgs/s")
			b.ReportMetric(float64(s.Events())/b.Elapsed().Seconds(), "events/s")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/messages, "ns/msg")
		})
	}
}

// exchange makes every process send in each round one message to each of ten peers, at distances 1,
// 2, 4 … 512, and wait for ten.
func exchange(tb testing.TB, procs, rounds int) *Sim {
	s := newSim(tb, DefaultConfig(procs))
	for id := range proc.ID(procs) {
		spawn(tb, s, id, func(p *Proc) {
			n := newNode(p)
			var conns [10]fabric.Conn
			for i := range conns {
				conns[i] = n.connect((id + 1<<i) % proc.ID(procs))
			}
			payload := make([]byte, 64)
			for r := range uint64(rounds) {
				for _, c := range conns {
					n.send(c, r, payload)
				}
				n.pumpUntil(func() bool { return n.got >= 10*(r+1) })
			}
			p.Provider().Depart()
		})
	}
	return s
}
