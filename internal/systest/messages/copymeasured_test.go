package messages

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/banyan-hpc/banyan"
)

func init() { roles["copies, measured"] = measuredCopies }

// bareCopies are two C processes that take turns: each copies a block from the other's mapping into its own, and
// reports it by a word. They print the nanoseconds of a turn.
const bareCopies = `
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct word { _Alignas(128) _Atomic uint64_t turn; };

static void *shared(size_t n)
{
	void *m = mmap(0, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (m == MAP_FAILED)
		exit(1);
	madvise(m, n, MADV_HUGEPAGE);
	return m;
}

int main(int argc, char **argv)
{
	size_t n = strtoul(argv[1], 0, 10);
	uint64_t times = strtoul(argv[2], 0, 10), warm = times / 10 + 2;
	struct word *words = shared(2 * sizeof *words);
	char *blocks[2] = {shared(n), shared(n)};
	memset(blocks[0], 1, n);
	memset(blocks[1], 2, n);
	int me = fork() == 0;
	struct timespec a, b;
	for (uint64_t k = 1; k <= warm + times; k++) {
		if (k == warm + 1)
			clock_gettime(CLOCK_MONOTONIC, &a);
		if (me == 0)
			atomic_store_explicit(&words[0].turn, k, memory_order_release);
		while (atomic_load_explicit(&words[1 - me].turn, memory_order_acquire) != k)
			__builtin_ia32_pause();
		memcpy(blocks[me], blocks[1 - me], n);
		if (me == 1)
			atomic_store_explicit(&words[1].turn, k, memory_order_release);
	}
	clock_gettime(CLOCK_MONOTONIC, &b);
	if (me == 1)
		_exit(0);
	wait(0);
	printf("%.1f\n", ((b.tv_sec - a.tv_sec) * 1e9 + (b.tv_nsec - a.tv_nsec)) / times / 2);
	return 0;
}
`

// measuredCopies compares, in rounds, messages to and fro in registered memory with the C processes.
func measuredCopies(w *banyan.World) error {
	for size := 16 << 10; size <= 8<<20; size *= 2 {
		if err := measureCopies(w, size); err != nil {
			return err
		}
	}
	return nil
}

func measureCopies(w *banyan.World, size int) error {
	c, times := w.Comm(), max(20, 100_000_000/(2*(size/10+1000)))
	mem, err := banyan.Alloc[byte](w, size)
	if err != nil {
		return err
	}
	for i := range mem {
		mem[i] = byte(c.Rank() + i)
	}
	turn := func() error {
		if c.Rank() == 0 {
			return errors.Join(c.Send(mem, 1, 1), lastOf(c.Recv(mem, 1, 1)))
		}
		return errors.Join(lastOf(c.Recv(mem, 0, 1)), c.Send(mem, 0, 1))
	}
	var ratios, nanos []float64
	for range 9 {
		var took float64
		for k := range 2 { // the first is the warm-up
			start, n := time.Now(), times/10+2
			if k == 1 {
				n = times
			}
			for range n {
				if err := turn(); err != nil {
					return err
				}
			}
			took = float64(time.Since(start)) / float64(2*n)
		}
		if err := c.Barrier(); err != nil {
			return err
		}
		if c.Rank() == 1 { // rank 0 sleeps in the barrier
			bare, err := bareTime(size, times)
			if err != nil {
				return err
			}
			ratios, nanos = append(ratios, bare/took), append(nanos, took)
		}
		if err := c.Barrier(); err != nil {
			return err
		}
	}
	if c.Rank() == 1 {
		fmt.Fprintf(os.Stderr, "%d KiB: throughput over the bare copy %s; ns %s\n", size>>10, middle(ratios), middle(nanos))
	}
	return banyan.Free(w, mem)
}

// The measurement of B20-4 in docs/status.md.
func BenchmarkCopies(b *testing.B) { besideBare(b, bareCopies, "copies, measured") }
