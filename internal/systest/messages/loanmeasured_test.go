package messages

import (
	"errors"
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
	measuredTimes = 2000
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
// a C process that sums.
func measuredLoans(w *banyan.World) error {
	c := w.Comm()
	mem, err := banyan.Alloc[uint64](w, measuredBytes/8)
	if err != nil {
		return err
	}
	copy(banyan.Bytes(mem), ranktest.Pattern(1, measuredBytes))
	want, word := total(mem), make([]byte, 8)
	short := func() error {
		if c.Rank() == 0 {
			return errors.Join(c.Send(word, 1, 1), lastOf(c.Recv(word, 1, 1)))
		}
		return errors.Join(lastOf(c.Recv(word, 0, 1)), c.Send(word, 0, 1))
	}
	lent := func(read bool) func() error {
		return func() error {
			if c.Rank() == 0 {
				return c.Lend(banyan.Bytes(mem), 1, 2)
			}
			l, err := c.Borrow(0, 2)
			if err != nil {
				return err
			}
			if m, err := banyan.Borrowed[uint64](l); read && (err != nil || total(m) != want) {
				return fmt.Errorf("a wrong sum: %w", err)
			}
			return l.Return()
		}
	}
	var unread, summed []float64
	for range 9 {
		var took [3]float64 // of a message, and of loans until they are returned
		for k, fn := range []func() error{short, lent(false), lent(true)} {
			if err := c.Barrier(); err != nil {
				return err
			}
			start := time.Now()
			for range measuredTimes {
				if err := fn(); err != nil {
					return err
				}
			}
			took[k] = float64(time.Since(start)) / measuredTimes
		}
		if c.Rank() == 0 {
			continue
		}
		bare, err := bareTime(measuredBytes, measuredTimes)
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "ns: 8 bytes %.0f, loan and return %.0f, summed %.0f, bare sum %.0f\n", took[0]/2, took[1], took[2], bare)
		unread, summed = append(unread, took[1]/(took[0]/2)), append(summed, took[2]/bare)
	}
	if c.Rank() == 1 {
		fmt.Fprintf(os.Stderr, "unread over a message: %s; summed over the bare sum: %s\n", middle(unread), middle(summed))
	}
	return banyan.Free(w, mem)
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
