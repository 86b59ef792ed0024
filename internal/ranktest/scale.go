package ranktest

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Long reports whether all seeds and sizes are asked for.
func Long() bool { return os.Getenv("BANYAN_LONG") != "" }

// Scaled is the number of repetitions: usual, or short with -short.
func Scaled(usual, short int) int {
	if testing.Short() {
		return short
	}
	return usual
}

// Often is the number of repetitions: usual, a quarter of it with -short, long with BANYAN_LONG.
func Often(usual, most int) int {
	if Long() {
		return most
	}
	return Scaled(usual, max(1, usual/4))
}

// InTurn is all of a list with BANYAN_LONG, else one element: that of the i-th of several cases, which take turns.
func InTurn[T any](i int, all ...T) []T {
	if Long() {
		return all
	}
	at := i % len(all)
	return all[at : at+1]
}

// Seeds is the number of seeds of a test in the simulator. One rank runs at a time there, so the
// race detector, the reason for -short, has nothing to find: two seeds show that the test works.
func Seeds(usual int) uint64 { return uint64(Scaled(usual, 2)) }

// JobSeeds are first and, with BANYAN_LONG, so many more.
func JobSeeds(first uint64, more int) []uint64 {
	out := []uint64{first}
	if Long() {
		for range more {
			out = append(out, out[len(out)-1]+1)
		}
	}
	return out
}

// SeedRange reads one seed, or the first and the last with a hyphen between them.
func SeedRange(t *testing.T, text string) (first, last uint64) {
	from, to, ranged := strings.Cut(text, "-")
	first, err := strconv.ParseUint(from, 10, 64)
	require.NoError(t, err)
	if !ranged {
		return first, first
	}
	last, err = strconv.ParseUint(to, 10, 64)
	require.NoError(t, err)
	return first, last
}

// Occurred checks that the subject of a simulated test came about in some of its runs. The few
// runs with -short may lack it.
func Occurred(t *testing.T, times int, otherwise string) {
	t.Helper()
	if !testing.Short() {
		require.NotZero(t, times, otherwise)
	}
}

// JoinedBy selects the fabrics that a test tries: with -short only those named mixed, where shared
// memory and sockets connect the ranks of one job.
func JoinedBy[T any](all map[string]T) map[string]T {
	if testing.Short() {
		return map[string]T{"mixed": all["mixed"]}
	}
	return all
}
