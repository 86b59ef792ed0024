package affinity

import (
	"io/fs"
	"math"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Quota returns the CPU limit that control groups set on this process, in cores, the lowest on the
// way to the root of the hierarchy, and whether there is one. An unreadable file counts as no
// limit.
func Quota() (cores float64, limited bool) { return quota(os.DirFS("/")) }

func quota(root fs.FS) (float64, bool) {
	groups, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return 0, false
	}
	mounts, err := fs.ReadFile(root, "proc/self/mountinfo")
	if err != nil {
		return 0, false
	}
	lowest := math.Inf(1)
	for line := range strings.Lines(string(groups)) {
		// hierarchy-ID:controllers:path, cgroups(7)
		part := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(part) != 3 {
			continue
		}
		v2 := part[0] == "0" && part[1] == ""
		if !v2 && !slices.Contains(strings.Split(part[1], ","), "cpu") {
			continue
		}
		if top, dir, ok := findMount(string(mounts), v2, part[2]); ok {
			lowest = min(lowest, lowestLimit(root, v2, top, dir))
		}
	}
	return lowest, !math.IsInf(lowest, 1)
}

// findMount returns where the hierarchy is mounted and the directory of the
// group group in it, both relative to the root of the file system.
func findMount(mounts string, v2 bool, group string) (top, dir string, ok bool) {
	for line := range strings.Lines(mounts) {
		// id parent dev root mountpoint options [optional…] - type source super
		left, right, found := strings.Cut(strings.TrimSpace(line), " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !found || len(l) < 6 || len(r) < 3 {
			continue
		}
		match := v2 && r[0] == "cgroup2" ||
			!v2 && r[0] == "cgroup" && slices.Contains(strings.Split(r[2], ","), "cpu")
		if !match {
			continue
		}
		top = strings.TrimPrefix(path.Clean(l[4]), "/")
		inside, under := strings.CutPrefix(group, strings.TrimSuffix(l[3], "/"))
		if !under {
			inside = "" // the group lies outside of this mount: only its top is visible
		}
		return top, path.Join(top, path.Clean("/"+inside)), true
	}
	return "", "", false
}

// lowestLimit walks from dir up to top.
func lowestLimit(root fs.FS, v2 bool, top, dir string) float64 {
	lowest := math.Inf(1)
	for {
		lowest = min(lowest, limitOf(root, v2, dir))
		if dir == top || dir == "." || dir == "/" {
			return lowest
		}
		dir = path.Dir(dir)
	}
}

func limitOf(root fs.FS, v2 bool, dir string) float64 {
	var words []string
	if v2 {
		words = readWords(root, path.Join(dir, "cpu.max"))
	} else {
		words = append(readWords(root, path.Join(dir, "cpu.cfs_quota_us")),
			readWords(root, path.Join(dir, "cpu.cfs_period_us"))...)
	}
	if len(words) != 2 {
		return math.Inf(1)
	}
	runtime, err := strconv.ParseFloat(words[0], 64) // "max" and -1 mean none
	period, err2 := strconv.ParseFloat(words[1], 64)
	cores := runtime / period
	if err != nil || err2 != nil || runtime <= 0 || period <= 0 || !(cores > 0) { // no number, or too small for one
		return math.Inf(1)
	}
	return cores
}

func readWords(root fs.FS, name string) []string {
	b, err := fs.ReadFile(root, name)
	if err != nil {
		return nil
	}
	return strings.Fields(string(b))
}
