package affinity

import (
	"math"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// Any files of control groups: a limit is a number of cores above zero.
func FuzzQuota(f *testing.F) {
	const v1 = "35 23 0:30 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
	f.Add("0::/job\n", mountV2, "150000 100000\n", "")
	f.Add("0::/../../x\n", mountV2, "max 100000\n", "")
	f.Add("4:cpu,cpuacct:/job\n", v1, "250000\n", "100000\n")
	f.Add("4:cpu:/job\n", v1, "-1\n", "100000\n")
	f.Add("0::/job\n", mountV2, "NaN 100000\n", "")
	f.Add("0::/job\n", mountV2, "100000 inf\n", "")
	f.Fuzz(func(t *testing.T, groups, mounts, first, second string) {
		file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
		root := fstest.MapFS{
			"proc/self/cgroup": file(groups), "proc/self/mountinfo": file(mounts),
			"sys/fs/cgroup/cpu.max": file(first), "sys/fs/cgroup/job/cpu.max": file(first),
			"sys/fs/cgroup/cpu/job/cpu.cfs_quota_us": file(first), "sys/fs/cgroup/cpu/job/cpu.cfs_period_us": file(second),
		}
		cores, limited := quota(root)
		if limited {
			require.True(t, cores > 0 && !math.IsInf(cores, 1), "%v", cores)
		}
	})
}

// Any text of /proc/self/status: possible processors, or none.
func FuzzListed(f *testing.F) {
	f.Add("Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t0-3,7\nMems_allowed_list:\t0\n")
	f.Add("Cpus_allowed_list:\t1-0,5")
	f.Add("Cpus_allowed_list:\t-1-99999999999999999999\n")
	f.Fuzz(func(t *testing.T, status string) {
		for _, cpu := range listed(status) {
			require.True(t, 0 <= cpu && cpu < maxCPUs, "%d", cpu)
		}
	})
}
