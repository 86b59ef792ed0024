package affinity

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// maxCPUs bounds the CPU numbers that are understood. The kernel's own bound
// on amd64 is 8192.
const maxCPUs = 1 << 13

// Allowed returns the CPUs on which the calling thread may run, ascending; of the process's first
// thread where a seccomp profile refuses the question.
func Allowed() ([]int, error) {
	set := unix.NewCPUSet(maxCPUs)
	if err := unix.SchedGetaffinityDynamic(0, set); err != nil {
		status, rerr := os.ReadFile("/proc/self/status")
		if cpus := listed(string(status)); cpus != nil {
			return cpus, nil
		}
		return nil, fmt.Errorf("affinity: sched_getaffinity: %w", errors.Join(err, rerr))
	}
	var cpus []int
	for cpu := range maxCPUs {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	if len(cpus) == 0 {
		return nil, fmt.Errorf("affinity: the kernel reports no allowed CPU below %d", maxCPUs)
	}
	return cpus, nil
}

// listed reads Cpus_allowed_list of /proc/self/status, as 0-3,7; nil if that is not there.
func listed(status string) (cpus []int) {
	_, after, _ := strings.Cut(status, "Cpus_allowed_list:")
	line, _, _ := strings.Cut(after, "\n")
	for part := range strings.SplitSeq(strings.TrimSpace(line), ",") {
		from, to, is := strings.Cut(part, "-")
		if !is {
			to = from
		}
		first, err := strconv.Atoi(from)
		last, err2 := strconv.Atoi(to)
		if err != nil || err2 != nil || first < 0 || last >= maxCPUs {
			return nil
		}
		for cpu := first; cpu <= last; cpu++ {
			cpus = append(cpus, cpu)
		}
	}
	return cpus
}

// Pin restricts the calling thread to cpus. Threads and processes that it
// makes afterwards inherit the restriction.
//
// Preconditions: the goroutine is locked to its thread; at least one CPU.
func Pin(cpus ...int) error {
	set := unix.NewCPUSet(maxCPUs)
	for _, cpu := range cpus {
		if cpu < 0 || cpu >= maxCPUs {
			return fmt.Errorf("affinity: CPU %d is outside 0…%d", cpu, maxCPUs-1)
		}
		set.Set(cpu)
	}
	if err := unix.SchedSetaffinityDynamic(0, set); err != nil {
		return fmt.Errorf("affinity: sched_setaffinity to CPUs %v: %w", cpus, err)
	}
	return nil
}

// Usable returns how many cores this process can really use at once: the
// allowed CPUs, or the control group's quota rounded up where that is fewer.
// At least 1.
func Usable() (int, error) {
	cpus, err := Allowed()
	if err != nil {
		return 0, err
	}
	return usable(len(cpus), os.DirFS("/")), nil
}

func usable(allowed int, root fs.FS) int {
	cores, limited := quota(root)
	if !limited || cores >= float64(allowed) {
		return allowed
	}
	return max(1, int(math.Ceil(cores)))
}

// Spread returns cpus ordered so that one hardware thread of every physical core comes before any
// second one. If the machine does not report which CPUs share a core, the order stays.
func Spread(cpus []int) []int { return spread(cpus, os.DirFS("/")) }

func spread(cpus []int, root fs.FS) []int {
	type placed struct{ turn, cpu int }
	taken := make(map[string]int)
	order := make([]placed, 0, len(cpus))
	for _, cpu := range cpus {
		turn := 0
		if core, err := siblings(cpu, root); err == nil {
			turn = taken[core]
			taken[core]++
		}
		order = append(order, placed{turn, cpu})
	}
	slices.SortStableFunc(order, func(a, b placed) int { return a.turn - b.turn })
	out := make([]int, len(order))
	for i, p := range order {
		out[i] = p.cpu
	}
	return out
}

// siblings names the physical core of a CPU by the list of its threads.
func siblings(cpu int, root fs.FS) (string, error) {
	b, err := fs.ReadFile(root, "sys/devices/system/cpu/cpu"+strconv.Itoa(cpu)+"/topology/thread_siblings_list")
	if err != nil {
		return "", err
	}
	list := strings.TrimSpace(string(b))
	if list == "" {
		return "", errors.New("empty list of siblings")
	}
	return list, nil
}
