package settings

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strconv"
	"strings"
)

// Machine names this kind of machine, as the head of a part does: architecture,
// processor, number of CPUs.
func Machine() string { return machine(os.DirFS("/"), runtime.GOARCH) }

// machine identifies the machine by the file system under root.
func machine(root fs.FS, arch string) string {
	info, _ := readStart(root, "proc/cpuinfo")                      // unknown: no words
	online, _ := fs.ReadFile(root, "sys/devices/system/cpu/online") // unknown: counted below
	first, _, _ := strings.Cut(string(info), "\n\n")                // the first processor
	words := []string{arch}
	for _, key := range []string{"model name", "CPU implementer", "CPU part"} {
		if v := cpuinfo(first, key); v != "" {
			words = append(words, v)
		}
	}
	if family, model := cpuinfo(first, "cpu family"), cpuinfo(first, "model"); family != "" {
		words = append(words, family+"/"+model)
	}
	cpus := countList(strings.TrimSpace(string(online)))
	if cpus == 0 {
		cpus = runtime.NumCPU()
	}
	return plain(fmt.Sprintf("%s %d CPUs", strings.Join(words, " "), cpus))
}

// readStart reads the beginning of a file, since the kernel generates a few hundred processors'
// lines only on reading.
func readStart(root fs.FS, name string) ([]byte, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, 4<<10))
}

// cpuinfo returns the value of a key in a processor's lines.
func cpuinfo(lines, key string) string {
	for line := range strings.Lines(lines) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == key {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// plain removes the characters that cannot occur in the head of a part.
func plain(name string) string {
	name = strings.Map(func(r rune) rune {
		if strings.ContainsRune("[]#", r) || r < ' ' || r > '~' {
			return ' '
		}
		return r
	}, name)
	return strings.Join(strings.Fields(name), " ")
}

// countList counts the CPUs of a kernel's list such as 0-3,8; 0 if it is none.
func countList(list string) int {
	n := 0
	for part := range strings.SplitSeq(list, ",") {
		low, high, several := strings.Cut(part, "-")
		if !several {
			high = low
		}
		a, err1 := strconv.ParseUint(low, 10, 16) // no machine has more
		b, err2 := strconv.ParseUint(high, 10, 16)
		if err1 != nil || err2 != nil || b < a {
			return 0
		}
		n += int(b-a) + 1
	}
	return n
}
