package warm

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Code maps the program's code, constants and variables, and says how many bytes that is. Kernels
// before Linux 5.14 refuse it. It makes system calls and may wait for the medium that the program
// lies on.
func Code() (int, error) {
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return 0, fmt.Errorf("warm: %w", err)
	}
	return populate(func(r *region) bool { return r.file == exe })
}

// heapMost is the most memory that Heap maps: twice what Go takes at once from the kernel, and what it has used when it first collects garbage.
const heapMost = 8 << 20

// Heap maps the memory from which Go allocates next, at most 8 MiB of it, and says how many bytes that is: for who measures what is
// done in memory that has been used before, as in a process that has run for a while. As Code otherwise.
func Heap() (int, error) {
	at := heapAddress()
	return populate(func(r *region) bool { return r.firstOf(at) })
}

// firstOf cuts the region to what Heap maps of it, and reports whether it is the one that has an address.
func (r *region) firstOf(at uintptr) bool {
	within := r.from <= at && at < r.to
	r.to = min(r.to, r.from+heapMost) // Go takes the lowest that is free
	return within
}

// populate maps the regions of this process that are wanted, or what wanted leaves of them.
func populate(wanted func(*region) bool) (int, error) {
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return 0, fmt.Errorf("warm: %w", err)
	}
	defer f.Close()
	total := 0
	for _, r := range regions(f) {
		if !wanted(&r) {
			continue
		}
		advice := unix.MADV_POPULATE_READ
		if r.writable {
			advice = unix.MADV_POPULATE_WRITE // its own copies; nothing is changed
		}
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, r.from, r.to-r.from, uintptr(advice)); errno != 0 {
			return total, fmt.Errorf("warm: madvise: %w", errno)
		}
		total += int(r.to - r.from)
	}
	return total, nil
}

type region struct {
	from, to uintptr
	writable bool
	file     string // empty: of none
}

// regions gives what is mapped and may be read, from a list as /proc has it.
func regions(list io.Reader) (out []region) {
	for lines := bufio.NewScanner(list); lines.Scan(); {
		var r region
		var rights string
		line := lines.Text()
		n, _ := fmt.Sscanf(line, "%x-%x %s", &r.from, &r.to, &rights)
		if n != 3 || r.from >= r.to || len(rights) < 2 || rights[0] != 'r' {
			continue
		}
		r.writable = rights[1] == 'w'
		if fields := strings.SplitN(line, " ", 6); len(fields) == 6 {
			r.file = strings.TrimLeft(fields[5], " ")
		}
		out = append(out, r)
	}
	return out
}
