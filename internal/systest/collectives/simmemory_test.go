package collectives

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
)

// A simulated rank takes little memory while it waits, so that 10^6 of them fit into a machine of 24 GB: see
// decision 105. Stacks have powers of two; most are of 4 KB, and one of 8 KB doubles the memory of a rank.
func TestMemoryOfWaitingRanks(t *testing.T) {
	const ranks, heap, stack = 5000, 13 << 10, 6 << 10 // of 12.1 and 4.2 KB
	defer debug.SetGCPercent(debug.SetGCPercent(-1))   // a collection shrinks stacks
	for name, call := range map[string]func(*banyan.Comm) error{
		"agree":   func(c *banyan.Comm) error { _, err := c.Agree(1); return err },
		"barrier": (*banyan.Comm).Barrier,
	} {
		used := waitingMemory(t, ranks, call)
		t.Logf("%s: %d bytes of heap and %d of stack for each of %d ranks", name, used.heap, used.stack, ranks)
		require.Less(t, used.heap, heap, name)
		require.Less(t, used.stack, stack, name)
	}
}

// rankMemory is the memory of a simulated rank, in bytes.
type rankMemory struct{ heap, stack int }

// waitingMemory is the memory of each rank of a simulated job when the last has returned from a call.
func waitingMemory(t *testing.T, ranks int, call func(*banyan.Comm) error) (used rankMemory) {
	left := ranks
	memoryInUse() // frees the stacks of earlier tests
	before := memoryInUse()
	require.NoError(t, banyan.Simulate(ranks, banyan.Simulation{Options: []banyan.Option{banyan.WithTree(banyan.BinomialTree)}}, func(w *banyan.World) error {
		if err := call(w.Comm()); err != nil {
			return err
		}
		if left--; left == 0 {
			after := memoryInUse()
			used = rankMemory{(after.heap - before.heap) / ranks, (after.stack - before.stack) / ranks}
		}
		w.Sleep(time.Second - w.Now()) // until the last has returned
		return nil
	}))
	return used
}

// memoryInUse is a function of its own, since its frame is larger than the stack of a rank. Stacks are
// counted before the collection.
//
//go:noinline
func memoryInUse() rankMemory {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	stack := int(m.StackInuse)
	runtime.GC()
	runtime.ReadMemStats(&m)
	return rankMemory{int(m.HeapAlloc), stack}
}

// largeJob is a simulated job of one call.
type largeJob struct {
	name        string
	ranks, most int // most: GB
	tree        banyan.Tree
	call        func(*banyan.Comm) error
}

// Large simulated jobs end, in the memory of one machine. Sys never decreases, so
// smaller jobs come first. BANYAN_LONG=1 adds those that take minutes, and 6 GB; and, where there is room, 20 GB.
func TestLargeSimulations(t *testing.T) {
	agree := func(c *banyan.Comm) error { _, err := c.Agree(1); return err }
	jobs := []largeJob{
		{"agree", 16_384, 1, banyan.AutoTree, agree},
	}
	if os.Getenv("BANYAN_LONG") != "" {
		jobs = append(jobs, []largeJob{
			{"barrier", 16_384, 1, banyan.AutoTree, (*banyan.Comm).Barrier},
			{"agree", 100_000, 3, banyan.AutoTree, agree},
			{"tree barrier", 100_000, 3, banyan.BinomialTree, (*banyan.Comm).Barrier},
			{"barrier", 100_000, 6, banyan.AutoTree, (*banyan.Comm).Barrier},
			{"agree", 1_000_000, 23, banyan.AutoTree, agree},
			{"tree barrier", 1_000_000, 23, banyan.BinomialTree, (*banyan.Comm).Barrier},
		}...)
	}
	for _, c := range jobs {
		t.Run(fmt.Sprintf("%s %d", c.name, c.ranks), func(t *testing.T) {
			if left := availableGB(t); left < c.most {
				t.Logf("not run: %d GB are available, it may take %d", left, c.most)
				return
			}
			require.NoError(t, banyan.Simulate(c.ranks, banyan.Simulation{Options: []banyan.Option{banyan.WithTree(c.tree)}}, func(w *banyan.World) error {
				return c.call(w.Comm())
			}))
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			t.Logf("%.2f GB", float64(m.Sys)/1e9)
			require.Less(t, m.Sys, uint64(c.most)*1e9)
		})
	}
}

// availableGB is the memory that the machine has left, and that of this process, which the next job uses again.
func availableGB(t *testing.T) int {
	debug.FreeOSMemory()
	left := kilobytes(t, "/proc/meminfo", "MemAvailable:")
	return (left + kilobytes(t, "/proc/self/status", "VmRSS:")) / 1e6
}

// kilobytes reads a number from a file of the kernel.
func kilobytes(t *testing.T, file, name string) (kb int) {
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	_, after, _ := bytes.Cut(text, []byte(name))
	_, err = fmt.Sscan(string(after), &kb)
	require.NoError(t, err)
	return kb
}
