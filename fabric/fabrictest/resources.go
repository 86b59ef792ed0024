package fabrictest

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

// resources counts the resources that a provider must free: open descriptors and shared or file
// mappings by their names, and goroutines. Private anonymous mappings do not count: Go's own heap
// makes them.
type resources struct {
	things     map[string]int
	goroutines int
}

func countResources() resources {
	c := resources{things: make(map[string]int), goroutines: runtime.NumGoroutine()}
	c.countDescriptors()
	c.countMappings()
	return c
}

func (c *resources) countDescriptors() {
	const dir = "/proc/self/fd"
	names, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, n := range names {
		// The descriptor that read the directory is closed by now.
		if to, err := os.Readlink(filepath.Join(dir, n.Name())); err == nil {
			c.things["descriptor of "+to]++
		}
	}
}

// library matches the files of shared libraries.
var library = regexp.MustCompile(`\.so(\.[0-9.]+)?$`)

func (c *resources) countMappings() {
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		// address perms offset dev inode path
		part := strings.Fields(s.Text())
		code := len(part) == 6 && library.MatchString(part[5]) // once loaded it stays
		if len(part) >= 5 && !code && (part[4] != "0" || strings.HasSuffix(part[1], "s")) {
			c.things["mapping of "+strings.Join(part[5:], " ")]++
		}
	}
}

// compare lists the resources that have been added, or returns "". It waits for those that end by
// themselves soon after Close, such as a goroutine.
func (c resources) compare() string {
	const patience, step = 2 * time.Second, time.Millisecond
	report := c.excess()
	for deadline := time.Now().Add(patience); report != "" && time.Now().Before(deadline); {
		<-time.After(step)
		report = c.excess()
	}
	return report
}

func (c resources) excess() string {
	now := countResources()
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(now.things)) {
		if n := now.things[k] - c.things[k]; n > 0 {
			fmt.Fprintf(&b, "%d more: %s\n", n, k)
		}
	}
	if n := now.goroutines - c.goroutines; n > 0 {
		stacks := make([]byte, 1<<20)
		fmt.Fprintf(&b, "%d more goroutines, of\n%s", n, stacks[:runtime.Stack(stacks, true)])
	}
	return b.String()
}

const shmDir = "/dev/shm"

// listFiles leaves out directories: memory is shared in files, and other programs make directories
// there that no process holds open.
func listFiles(dir string) map[string]bool {
	names, _ := os.ReadDir(dir) // none where there is no such directory
	list := make(map[string]bool, len(names))
	for _, n := range names {
		if !n.IsDir() {
			list[n.Name()] = true
		}
	}
	return list
}

// orphans returns the files in dir that are not in before and that no process holds open or mapped.
// Other programs make files there too, but hold them; a new file is given time for that.
func orphans(dir string, before map[string]bool) []string {
	const looks, step = 20, 50 * time.Millisecond
	left := newFiles(dir, before)
	for range looks {
		left = slices.DeleteFunc(left, func(name string) bool {
			path := filepath.Join(dir, name)
			_, err := os.Stat(path)
			return err != nil || heldOpen(path)
		})
		if len(left) == 0 {
			return nil
		}
		<-time.After(step)
	}
	return left
}

func newFiles(dir string, before map[string]bool) []string {
	var names []string
	for name := range listFiles(dir) {
		if !before[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// heldOpen reports whether some process has the file open or mapped.
func heldOpen(path string) bool {
	maps, _ := filepath.Glob("/proc/[0-9]*/maps")
	for _, m := range maps {
		if b, err := os.ReadFile(m); err == nil && strings.Contains(string(b), path) {
			return true
		}
	}
	links, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	return slices.ContainsFunc(links, func(l string) bool {
		to, err := os.Readlink(l)
		return err == nil && to == path
	})
}
