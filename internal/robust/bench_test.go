package robust

import (
	"slices"
	"testing"
	"time"
)

// BenchmarkDeath measures from kill(2) to the mark in the word, polled, and to the
// report of a Watch. An operation is a process that is started and killed.
func BenchmarkDeath(b *testing.B) {
	var marked, told []time.Duration
	for range b.N {
		v := spawn(b, 1)
		ch := make(chan time.Time, 1)
		w := NewWatch(func(int32) { ch <- time.Now() })
		w.Add(1, &v.words[0], v.seen)
		<-time.After(2 * time.Millisecond) // until the watch sleeps
		began := time.Now()
		_ = v.cmd.Process.Kill()
		for v.words[0].v.Load()&diedBit == 0 {
		}
		marked = append(marked, time.Since(began))
		told = append(told, (<-ch).Sub(began))
		w.Close()
		_ = v.cmd.Wait()
	}
	for name, took := range map[string][]time.Duration{"marked": marked, "told": told} {
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1000, name+"-p50-µs")
		b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1000, name+"-p99-µs")
	}
	b.ReportMetric(0, "ns/op")
}
