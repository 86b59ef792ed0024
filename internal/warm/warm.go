package warm

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Code maps the program's code, constants and variables, but not Go's tables of functions, of which it unmaps what the
// start has read, and says how many bytes it has mapped. Kernels before Linux 5.14 refuse it. It makes system calls and
// may wait for the medium that the program lies on.
func Code() (int, error) {
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return 0, fmt.Errorf("warm: %w", err)
	}
	skip, err := tables("/proc/self/exe") // also of a program that has been removed
	if err != nil {
		skip = section{} // it may be run and not read: everything is mapped
	}
	return populate(func(r *region) []region {
		if r.file != exe {
			return nil
		}
		if t := r.within(skip); skip.fixed && !r.writable && t.from != t.to {
			_ = t.advise(unix.MADV_DONTNEED) // they are read from the file again
		}
		return r.without(skip)
	})
}

// within gives the pages of the region that are wholly in a section of its file; without any it ends where it begins.
func (r *region) within(s section) region {
	page := uint64(os.Getpagesize())
	first, last := (s.offset+page-1)/page*page, (s.offset+s.size)/page*page
	first = max(first, r.offset)
	last = max(first, min(last, r.offset+uint64(r.to-r.from)))
	part := *r
	part.from, part.to, part.offset = r.from+uintptr(first-r.offset), r.from+uintptr(last-r.offset), first
	return part
}

// without gives the other pages of the region.
func (r *region) without(s section) []region {
	t := r.within(s)
	if t.from == t.to {
		return []region{*r}
	}
	before, after := *r, *r
	before.to = t.from
	after.from, after.offset = t.to, t.offset+uint64(t.to-t.from)
	return []region{before, after}
}

// heapMost is the most memory that Heap maps: twice the memory that Go takes at once from the kernel, and has used at its first garbage collection.
const heapMost = 8 << 20

// Heap maps the memory from which Go allocates next, at most 8 MiB of it, and returns their number: for measurements of work
// in memory that has been used before, as in a process that has run for a while. As Code otherwise.
func Heap() (int, error) {
	at := heapAddress()
	return populate(func(r *region) []region {
		if !r.firstOf(at) {
			return nil
		}
		return []region{*r}
	})
}

// firstOf cuts the region to the part that Heap maps, and reports whether it is the one that has an address.
func (r *region) firstOf(at uintptr) bool {
	within := r.from <= at && at < r.to
	r.to = min(r.to, r.from+heapMost) // Go takes the lowest that is free
	return within
}

// populate maps the parts of the regions of this process that are wanted.
func populate(wanted func(*region) []region) (int, error) {
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return 0, fmt.Errorf("warm: %w", err)
	}
	defer f.Close()
	total := 0
	for _, all := range regions(f) {
		for _, r := range wanted(&all) {
			if err := r.populate(); err != nil {
				return total, err
			}
			total += int(r.to - r.from)
		}
	}
	return total, nil
}

func (r *region) populate() error {
	advice := unix.MADV_POPULATE_READ
	if r.writable {
		advice = unix.MADV_POPULATE_WRITE // its own copies; nothing is changed
	}
	return r.advise(advice)
}

func (r *region) advise(advice int) error {
	if _, _, errno := unix.Syscall(unix.SYS_MADVISE, r.from, r.to-r.from, uintptr(advice)); errno != 0 {
		return fmt.Errorf("warm: madvise: %w", errno)
	}
	return nil
}

type region struct {
	from, to uintptr
	offset   uint64 // in the file
	writable bool
	file     string // empty: of none
}

// regions gives the readable mappings, from a list as /proc has it.
func regions(list io.Reader) (out []region) {
	for lines := bufio.NewScanner(list); lines.Scan(); {
		var r region
		var rights string
		line := lines.Text()
		n, _ := fmt.Sscanf(line, "%x-%x %s %x", &r.from, &r.to, &rights, &r.offset)
		if n < 3 || r.from >= r.to || len(rights) < 2 || rights[0] != 'r' {
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
