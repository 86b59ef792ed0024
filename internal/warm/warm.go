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
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return 0, fmt.Errorf("warm: %w", err)
	}
	defer f.Close()
	total := 0
	for _, r := range regions(f, exe) {
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
}

// regions gives what is mapped of a file, from a list as /proc has it.
func regions(list io.Reader, file string) (out []region) {
	for lines := bufio.NewScanner(list); lines.Scan(); {
		var r region
		var rights string
		line := lines.Text()
		n, _ := fmt.Sscanf(line, "%x-%x %s", &r.from, &r.to, &rights)
		if n == 3 && r.from < r.to && strings.HasPrefix(rights, "r") && strings.HasSuffix(line, " "+file) {
			r.writable = rights[1] == 'w'
			out = append(out, r)
		}
	}
	return out
}
