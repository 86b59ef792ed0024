package report

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMachine(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s + "\n")} }
	e := machine(fstest.MapFS{
		"proc/sys/kernel/osrelease":                            file("6.18.1"),
		"proc/sys/kernel/version":                              file("#1 SMP"),
		"sys/devices/system/cpu/online":                        file("0-1"),
		"sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": file("performance"),
		"sys/kernel/mm/transparent_hugepage/enabled":           file("always [madvise] never"),
		"proc/meminfo":                                         file("MemTotal:       16384 kB\nMemFree: 1 kB"),
		"proc/cpuinfo": file("processor\t: 0\nmodel name\t: AMD " +
			"EPYC\nflags\t\t: fpu hypervisor"),
		"etc/os-release": file("NAME=x\nPRETTY_NAME=\"Debian 12\""),
		"proc/loadavg":   file("0.1 0.2 0.3 1/100 7"),
		".dockerenv":     file(""),
	})
	require.Equal(t, Environment{
		Kernel: "6.18.1 #1 SMP", OS: "Debian 12", CPU: "AMD EPYC", Hypervisor: true, CPUs: "0-1",
		Governor: "performance", HugePages: "madvise", Memory: "16384 kB", Load: "0.1 0.2 0.3 1/100 7",
		Container: "/.dockerenv",
	}, e)
	require.Zero(t, machine(fstest.MapFS{}), "unknown is empty")
}

func TestCapture(t *testing.T) {
	e := Capture()
	require.NotEmpty(t, e.Kernel)
	require.NotEmpty(t, e.Affinity)
	require.NotEmpty(t, e.Go)
}

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "r.json")
	f := Begin("osu")
	require.NoError(t, f.Write(path, map[string]int{"a": 1}))
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	var got map[string]any
	require.NoError(t, json.Unmarshal(b, &got))
	require.Equal(t, "banyan-bench", got["schema"])
	require.EqualValues(t, 1, got["version"])
	require.Equal(t, map[string]any{"a": 1.0}, got["results"])
	require.NotEmpty(t, got["environment"])

	require.ErrorContains(t, f.Write("/proc/none/r.json", 1), "/proc/none")
	require.ErrorContains(t, f.Write(path, make(chan int)), "encode")
}

// A figure contains the source of its numbers.
func TestSource(t *testing.T) {
	f := &File{Started: time.Date(2026, 11, 22, 1, 2, 3, 0, time.UTC), Environment: Environment{
		CPU: "AMD  EPYC ", CPUs: "0-1", Revision: "0123456789abcdef", Modified: true}}
	require.Equal(t, "shared memory · AMD EPYC, CPUs 0-1 · 2026-11-22 · commit 012345678+", f.Source("shared memory"))
	f.Environment = Environment{}
	require.Equal(t, "TCP · unknown processor · 2026-11-22 · commit unknown", f.Source("TCP"))
}
