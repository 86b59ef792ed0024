package shm

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/banyan-hpc/banyan/internal/proc"
)

// BenchmarkDeath measures from kill(2) to Down at an observer that polls, or sleeps, for victims of
// some megabytes, with all methods of detection or the pidfd alone. An operation is a process that
// is started and killed, so:
//
//	go test -run - -bench Death -benchtime 100x ./fabric/shm
func BenchmarkDeath(b *testing.B) {
	for _, resident := range []int{10, 512} {
		for _, sleeps := range []bool{false, true} {
			for _, alone := range []bool{false, true} {
				name := fmt.Sprintf("%dMB/sleeps=%v/pidfd=%v", resident, sleeps, alone)
				b.Run(name, func(b *testing.B) { benchmarkDeath(b, resident, sleeps, alone) })
			}
		}
	}
}

func benchmarkDeath(b *testing.B, resident int, sleeps, alone bool) {
	var took []time.Duration
	known := 0
	for range b.N {
		p, err := Open(Config{Self: 0, MaxProcs: 2})
		if err != nil {
			b.Fatal(err)
		}
		v := spawn(b, role{Self: 1, MaxProcs: 2, Resident: resident})
		if c := v.connect(p); alone {
			p.stopWatcher(c, byWord)
		}
		e := newObserver()
		for len(e.got) == 0 {
			p.Poll(&e.Sink)
		}
		<-time.After(5 * time.Millisecond) // until the watchers sleep
		began := time.Now()
		killer := func() { began = time.Now(); v.kill() }
		if sleeps {
			time.AfterFunc(5*time.Millisecond, killer)
			e.end(p)
		} else {
			killer()
			for len(e.ends) == 0 {
				p.PollDeaths()
				p.Poll(&e.Sink)
			}
		}
		took = append(took, time.Since(began))
		if e.ends[0].Kind != proc.Unknown {
			known++
		}
		_ = v.cmd.Wait()
		if err := p.Close(); err != nil {
			b.Fatal(err)
		}
	}
	slices.Sort(took)
	at := func(q float64) float64 { return float64(took[int(q*float64(len(took)-1))].Nanoseconds()) / 1000 }
	b.ReportMetric(at(0.5), "p50-µs")
	b.ReportMetric(at(0.99), "p99-µs")
	b.ReportMetric(100*float64(known)/float64(b.N), "%cause")
	b.ReportMetric(0, "ns/op")
}
