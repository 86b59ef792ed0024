package messages

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/launch"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

func init() { roles["loans, measured"] = measuredLoans }

// bareSum is a C process that sums a mapped segment, which another process has written, and prints the
// nanoseconds of a sum.
const bareSum = `
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	size_t n = strtoul(argv[1], 0, 10) / 8;
	int times = atoi(argv[2]);
	volatile uint64_t sink;
	uint64_t *m = mmap(0, 8 * n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (m == MAP_FAILED)
		return 1;
	if (fork() == 0) {
		for (size_t i = 0; i < n; i++)
			m[i] = i;
		_exit(0);
	}
	wait(0);
	struct timespec a, b;
	for (int k = -2; k < times; k++) {
		if (k == 0)
			clock_gettime(CLOCK_MONOTONIC, &a);
		uint64_t sum = 0;
		for (size_t i = 0; i < n; i++)
			sum += m[i];
		sink = sum;
	}
	clock_gettime(CLOCK_MONOTONIC, &b);
	printf("%.1f\n", ((b.tv_sec - a.tv_sec) * 1e9 + (b.tv_nsec - a.tv_nsec)) / times);
	return sink == 0;
}
`

const (
	bareEnv       = "BANYAN_TEST_BARE"
	measuredBytes = 1 << 20
	measuredTimes = 2000 // of the bare sum
)

// total adds numbers in four chains, as a core adds four at a time.
func total(m []uint64) uint64 {
	var a, b, c, d uint64
	for ; len(m) >= 4; m = m[4:] {
		a, b, c, d = a+m[0], b+m[1], c+m[2], d+m[3]
	}
	return a + b + c + d
}

// measuredLoans compares, in rounds, a loan that is not read with a message of 8 bytes, and one that is summed with
// a C process that sums. One way is half of a ping-pong, for loans as for messages.
func measuredLoans(w *banyan.World) error {
	c := w.Comm()
	mem, err := banyan.Alloc[uint64](w, measuredBytes/8)
	if err != nil {
		return err
	}
	copy(banyan.Bytes(mem), ranktest.Pattern(1, measuredBytes))
	want, word, peer := total(mem), make([]byte, 8), 1-c.Rank()
	short := exchange(c, func() error { return c.Send(word, peer, 1) }, func() error { return lastOf(c.Recv(word, peer, 1)) })
	lend := func() error { return c.Lend(banyan.Bytes(mem), peer, 2) }
	borrow := func(read bool) func() error {
		return func() error {
			l, err := c.Borrow(peer, 2)
			if err != nil {
				return err
			}
			if m, err := banyan.Borrowed[uint64](l); read && (err != nil || total(m) != want) {
				return fmt.Errorf("a wrong sum: %w", err)
			}
			return l.Return()
		}
	}
	oneSided := func(read bool) func() error {
		if c.Rank() == 0 {
			return lend
		}
		return borrow(read)
	}
	var oneWay, returned, summed []float64
	for range 9 {
		var took [4]float64 // of messages and loans to and fro, of loans until they are returned
		if err := inTurn(c, took[:], short, exchange(c, lend, borrow(false)), oneSided(false), oneSided(true)); err != nil {
			return err
		}
		if c.Rank() == 0 {
			continue
		}
		bare, err := bareTime(measuredBytes, measuredTimes)
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "ns: 8 bytes %.0f, loan one way %.0f, loan and return %.0f, summed %.0f, bare sum %.0f\n",
			took[0]/2, took[1]/2, took[2], took[3], bare)
		oneWay, returned = append(oneWay, took[1]/took[0]), append(returned, took[2]/(took[0]/2))
		summed = append(summed, took[3]/bare)
	}
	if c.Rank() == 1 {
		fmt.Fprintf(os.Stderr, "unread over a message: one way %s, until its return %s; summed over the bare sum: %s\n",
			middle(oneWay), middle(returned), middle(summed))
	}
	return banyan.Free(w, mem)
}

// exchange is one message of each rank, rank 0's first.
func exchange(c *banyan.Comm, send, recv func() error) func() error {
	first, second := send, recv
	if c.Rank() == 1 {
		first, second = recv, send
	}
	return func() error {
		if err := first(); err != nil {
			return err
		}
		return second()
	}
}

// inTurn gives the median time of each call in nanoseconds. They take turns, so that all meet the same disturbances.
func inTurn(c *banyan.Comm, took []float64, calls ...func() error) error {
	const turns, times = 40, 50
	all := make([][]float64, len(calls))
	for range turns {
		for k, call := range calls {
			if err := c.Barrier(); err != nil {
				return err
			}
			start := time.Now()
			for range times {
				if err := call(); err != nil {
					return err
				}
			}
			all[k] = append(all[k], float64(time.Since(start))/times)
		}
	}
	for k := range calls {
		slices.Sort(all[k])
		took[k] = all[k][turns/2]
	}
	return nil
}

// bareTime is the output of the C program.
func bareTime(size, times int) (float64, error) {
	out, err := exec.Command(os.Getenv(bareEnv), strconv.Itoa(size), strconv.Itoa(times)).Output()
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
}

// middle is the median of 9 ratios, with all but the least and the largest.
func middle(of []float64) string {
	slices.Sort(of)
	return fmt.Sprintf("%.2f (%.2f to %.2f)", of[4], of[1], of[7])
}

// The measurement of B20-5 in docs/status.md.
func BenchmarkLoans(b *testing.B) { besideBare(b, bareSum, "loans, measured") }

// besideBare builds a program in C and runs a role of two ranks that starts it.
func besideBare(b *testing.B, program, role string) {
	bare := filepath.Join(b.TempDir(), "bare")
	build := exec.Command("cc", "-O2", "-march=native", "-x", "c", "-o", bare, "-")
	build.Stdin = strings.NewReader(program)
	out, err := build.CombinedOutput()
	require.NoError(b, err, string(out))
	for b.Loop() {
		res, said := ranktest.Job(b, launch.Continue, 2, role, bareEnv+"="+bare, "BANYAN_DEBUG=off")
		require.False(b, res.Ends[0].Failed() || res.Ends[1].Failed(), said)
		b.Log(said)
	}
}
