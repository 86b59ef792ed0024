package affinity

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestPinHoldsForTheThread(t *testing.T) {
	before, err := Allowed()
	require.NoError(t, err)
	require.IsIncreasing(t, append([]int{-1}, before...))

	for _, cpu := range before {
		got := make(chan []int)
		go func() {
			runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
			if err := Pin(cpu); err != nil {
				t.Error(err)
			}
			after, err := Allowed()
			if err != nil {
				t.Error(err)
			}
			got <- after
		}()
		require.Equal(t, []int{cpu}, <-got)
	}
}

func TestListed(t *testing.T) {
	require.Equal(t, []int{0, 1, 2, 7}, listed("Name:\tx\nCpus_allowed:\t87\nCpus_allowed_list:\t0-2,7\nMems_allowed:\t1\n"))
	for _, wrong := range []string{"", "Cpus_allowed_list:\t\n", "Cpus_allowed_list:\t0-x\n", "Cpus_allowed_list:\t0-99999\n"} {
		require.Nil(t, listed(wrong), wrong)
	}
	all, err := Allowed()
	require.NoError(t, err)
	status, err := os.ReadFile("/proc/thread-self/status")
	require.NoError(t, err)
	require.Equal(t, all, listed(string(status)))
}

func TestPinRefuses(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	require.ErrorContains(t, Pin(-1), "CPU -1")
	require.ErrorContains(t, Pin(maxCPUs), "outside")
	require.Error(t, Pin(), "the kernel refuses an empty mask")
}

func TestUsableIsAtLeastOne(t *testing.T) {
	n, err := Usable()
	require.NoError(t, err)
	require.Positive(t, n)
}

func TestSpread(t *testing.T) {
	root := fstest.MapFS{}
	for cpu, list := range map[int]string{0: "0-1", 1: "0-1", 2: "2-3", 3: "2-3", 4: "4"} {
		name := fmt.Sprintf("sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu)
		root[name] = &fstest.MapFile{Data: []byte(list + "\n")}
	}
	require.Equal(t, []int{0, 2, 4, 1, 3}, spread([]int{0, 1, 2, 3, 4}, root))
	require.Equal(t, []int{1, 2, 3}, spread([]int{1, 2, 3}, root), "a core whose first thread is forbidden")
	require.Equal(t, []int{7, 8}, spread([]int{7, 8}, root), "unknown: unchanged")
}

const (
	mountV2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"
	mountV1 = "31 23 0:27 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
)

func TestQuota(t *testing.T) {
	for _, c := range []struct {
		name           string
		groups, mounts string
		files          map[string]string
		want           float64 // 0: no limit
	}{
		{name: "nothing known"},
		{name: "no limit", groups: "0::/a\n", mounts: mountV2, files: map[string]string{"a/cpu.max": "max 100000"}},
		{name: "own", groups: "0::/a\n", mounts: mountV2, files: map[string]string{"a/cpu.max": "150000 100000"}, want: 1.5},
		{name: "an ancestor's is lower", groups: "0::/a/b\n", mounts: mountV2,
			files: map[string]string{"a/b/cpu.max": "400000 100000", "a/cpu.max": "200000 100000"}, want: 2},
		{name: "container whose group is the mount's root", groups: "0::/docker/x\n",
			mounts: "30 23 0:26 /docker/x /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
			files:  map[string]string{"cpu.max": "50000 100000"}, want: 0.5},
		{name: "version 1", groups: "4:memory:/\n3:cpu,cpuacct:/j\n", mounts: mountV1,
			files: map[string]string{"cpu,cpuacct/j/cpu.cfs_quota_us": "300000", "cpu,cpuacct/j/cpu.cfs_period_us": "100000"}, want: 3},
		{name: "version 1 without limit", groups: "3:cpu,cpuacct:/\n", mounts: mountV1,
			files: map[string]string{"cpu,cpuacct/cpu.cfs_quota_us": "-1", "cpu,cpuacct/cpu.cfs_period_us": "100000"}},
		{name: "garbage", groups: "x\n0::/a\n", mounts: "y\n" + mountV2, files: map[string]string{"a/cpu.max": "lots of it"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := fstest.MapFS{
				"proc/self/cgroup":    {Data: []byte(c.groups)},
				"proc/self/mountinfo": {Data: []byte(c.mounts)},
			}
			for name, data := range c.files {
				root["sys/fs/cgroup/"+name] = &fstest.MapFile{Data: []byte(data + "\n")}
			}
			cores, limited := quota(root)
			require.Equal(t, c.want != 0, limited)
			if limited {
				require.InDelta(t, c.want, cores, 1e-9)
			}
		})
	}
}

func TestUsableRoundsTheQuotaUp(t *testing.T) {
	root := fstest.MapFS{
		"proc/self/cgroup":      {Data: []byte("0::/\n")},
		"proc/self/mountinfo":   {Data: []byte(mountV2)},
		"sys/fs/cgroup/cpu.max": {Data: []byte("150000 100000\n")},
	}
	require.Equal(t, 2, usable(8, root))
	require.Equal(t, 1, usable(1, root))
}
