package shm

import (
	"bytes"
	"math"
	"math/big"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// Whatever /proc says of a process, what is read of it stands behind the name, which may be anything.
func FuzzStat(f *testing.F) {
	entry := "4711 (a b) c) S " + strings.Repeat("1 ", 18) + "99 " + strings.Repeat("2 ", 28) + "-1 9 3"
	f.Add([]byte(entry))
	f.Add([]byte("4711 (x) Z 1 2 3"))
	f.Add([]byte(")"))
	f.Fuzz(func(t *testing.T, entry []byte) {
		fields := statFields(entry)
		rest := entry[bytes.LastIndexByte(entry, ')')+1:]
		for _, field := range fields {
			require.NotEmpty(t, field)
			require.Contains(t, string(rest), string(field))
		}
		start, err := startIn(fields)
		require.True(t, err == nil || start == 0 || start == math.MaxUint64)
		if status, ok := statusIn(fields); ok {
			require.NotEmpty(t, causeOf(status).String())
		}
	})
}

// What a control group allows is computed without overflow, and nothing but numbers from zero on counts as a limit.
func FuzzLimits(f *testing.F) {
	f.Add("1000000\n", "900000\n", "anon 5\ninactive_file 100000\n", int64(200_000))
	f.Add("max\n", "5\n", "", int64(1)<<40)
	f.Add("9223372036854775807", "-9223372036854775808", "inactive_file -9223372036854775808", int64(1))
	f.Add("-1", "1", "inactive_file 1", int64(0))
	f.Fuzz(func(t *testing.T, limit, used, stat string, n int64) {
		file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
		root := fstest.MapFS{
			"proc/self/cgroup": file("0::/job\n"), "sys/fs/cgroup/job/memory.max": file(limit),
			"sys/fs/cgroup/job/memory.current": file(used), "sys/fs/cgroup/job/memory.stat": file(stat),
		}
		n &= math.MaxInt64
		err := checkCgroup(root, n)
		number := func(s string) *big.Int {
			v, ok := new(big.Int).SetString(strings.TrimSpace(s), 10)
			if !ok || v.Sign() < 0 || !v.IsInt64() {
				return nil
			}
			return v
		}
		most, now := number(limit), number(used)
		if err != nil {
			require.ErrorIs(t, err, ErrNoSpace)
			require.NotNil(t, most)
			require.NotNil(t, now)
			return
		}
		if most != nil && now != nil && !strings.Contains(stat, "inactive_file") {
			require.LessOrEqual(t, new(big.Int).Add(now, big.NewInt(n)).Cmp(most), 0)
		}
	})
}
