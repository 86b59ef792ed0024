package shm

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

func TestCgroupLimits(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	v2 := fstest.MapFS{
		"proc/self/cgroup":                    file("0::/job/rank\n"),
		"sys/fs/cgroup/job/memory.max":        file("1000000\n"),
		"sys/fs/cgroup/job/memory.current":    file("900000\n"),
		"sys/fs/cgroup/job/memory.stat":       file("anon 5\ninactive_file 100000\n"),
		"sys/fs/cgroup/job/rank/memory.max":   file("max\n"),
		"sys/fs/cgroup/memory.current":        file("5000000\n"),
		"sys/fs/cgroup/job/rank/memory.other": file("1\n"),
	}
	v1 := fstest.MapFS{
		"proc/self/cgroup": file("5:cpu,cpuacct:/x\n4:memory:/job\n"),
		"sys/fs/cgroup/memory/job/memory.limit_in_bytes": file("1000000\n"),
		"sys/fs/cgroup/memory/job/memory.usage_in_bytes": file("800000\n"),
	}
	for _, c := range []struct {
		name string
		fs   fstest.MapFS
		n    int64
		ok   bool
	}{
		{"no cgroups", fstest.MapFS{}, 1 << 40, true},
		{"v2, fits when cache is given back", v2, 200_000, true},
		{"v2, the parent's limit", v2, 200_001, false},
		{"v1, fits", v1, 200_000, true},
		{"v1, too much", v1, 200_001, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := checkCgroup(c.fs, c.n)
			if c.ok {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, ErrNoSpace)
			require.ErrorContains(t, err, "cgroup /job")
		})
	}
}

func TestConfigIsChecked(t *testing.T) {
	for _, cfg := range []Config{
		{MaxProcs: 0}, {MaxProcs: 2, Self: 2}, {MaxProcs: 1, Lines: 100},
		{MaxProcs: 1, Lines: 32}, {MaxProcs: 1, BulkBytes: 1000}, {MaxProcs: 1, BulkBytes: 1 << 30},
	} {
		_, err := Open(cfg)
		require.Error(t, err, "%+v", cfg)
	}
}

// mountTmpfs makes a tmpfs of a few pages, or reports that this test may not mount: then only the
// machine's own errors can be checked.
func mountTmpfs(t *testing.T, size string) (dir string, ok bool) {
	dir = t.TempDir()
	err := unix.Mount("banyan-test", dir, "tmpfs", 0, "size="+size)
	if errors.Is(err, unix.EPERM) {
		return "", false
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, 0)) })
	return dir, true
}

// A full tmpfs is an error that names the remedy, at Open and when a peer connects, and nothing
// leaks.
func TestFullTmpfs(t *testing.T) {
	dir, ok := mountTmpfs(t, "4k")
	if ok {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "all"), make([]byte, pageBytes), 0o600))
	} else {
		t.Log("mounting is not permitted: only the error of a missing directory is tested")
		_, err := Open(Config{MaxProcs: 1, Dir: filepath.Join(t.TempDir(), "absent")})
		require.ErrorIs(t, err, os.ErrNotExist)
		return
	}
	_, err := Open(Config{MaxProcs: 2, Dir: dir})
	require.ErrorIs(t, err, ErrNoSpace)
	require.ErrorContains(t, err, "remount")

	roomy, _ := mountTmpfs(t, "8k")
	a, err := Open(Config{MaxProcs: 2, Dir: roomy})
	require.NoError(t, err)
	defer a.Close()
	b, err := Open(Config{Self: 1, MaxProcs: 2, Dir: roomy})
	require.NoError(t, err)
	defer b.Close()
	_, err = b.Dial(fabric.ConnectSpec{Peer: 0, Address: a.Address()})
	require.ErrorIs(t, err, ErrNoSpace)
	require.ErrorContains(t, err, "process 0")
	left, err := os.ReadDir(roomy)
	require.NoError(t, err)
	require.Empty(t, left)
}

// Segments in files carry the same traffic as memfds.
func TestFileBacking(t *testing.T) {
	_, b, ab, _ := pair(t, Config{Dir: t.TempDir()})
	sink := new(fabric.Sink)
	got := 0
	sink.Deliver[fabric.ClassTest] = func(_ proc.ID, _ uint64, p []byte) { got += len(p) }
	require.True(t, ab.TrySend(fabric.ClassTest, 0, make([]byte, 1000)))
	for got == 0 {
		b.Poll(sink)
	}
	require.Equal(t, 1000, got)
}

// A block that the machine has no memory for is refused before the OOM killer answers.
func TestMachineHasMemory(t *testing.T) {
	for text, most := range map[string]int64{
		"MemTotal: 9 kB\nMemAvailable:    100 kB\n": 100 << 10,
		"": math.MaxInt64, "MemAvailable: much kB\n": math.MaxInt64,
	} {
		root := fstest.MapFS{"proc/meminfo": {Data: []byte(text)}}
		require.NoError(t, checkMachine(root, most))
		if most < math.MaxInt64 {
			require.ErrorIs(t, checkMachine(root, most+1024), ErrNoSpace)
		}
	}
	require.NoError(t, checkMachine(fstest.MapFS{}, math.MaxInt64))
}
