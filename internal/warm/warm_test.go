package warm

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestRegions(t *testing.T) {
	const list = `00400000-00552000 r-xp 00000000 fd:00 12 /bin/app
00552000-00553000 ---p 00152000 fd:00 12 /bin/app
00751000-00755000 rw-p 00151000 fd:00 12 /bin/app
7f00-6f00 r--p 00000000 fd:00 12 /bin/app
7e0000000000-7e0000400000 rw-p 00000000 00:00 0 
7f0000000000-7f0000001000 r-xp 00000000 fd:00 13 /lib/bin/app.so
what is this
`
	require.Equal(t, []region{
		{0x400000, 0x552000, 0, false, "/bin/app"}, {0x751000, 0x755000, 0x151000, true, "/bin/app"},
		{0x7e0000000000, 0x7e0000400000, 0, true, ""}, {0x7f0000000000, 0x7f0000001000, 0, false, "/lib/bin/app.so"},
	}, regions(strings.NewReader(list)))
}

// missing counts the pages of the regions that are wanted which would fault when they are read, or written if they can be.
func missing(t *testing.T, wanted func(*region) []region) (out int) {
	maps, err := os.Open("/proc/self/maps")
	require.NoError(t, err)
	defer maps.Close()
	pagemap, err := os.Open("/proc/self/pagemap")
	require.NoError(t, err)
	defer pagemap.Close()
	page, seen := uintptr(unix.Getpagesize()), 0
	var parts []region
	for _, all := range regions(maps) {
		parts = append(parts, wanted(&all)...)
	}
	for _, r := range parts {
		for at := r.from; at < r.to; at += page {
			var word [8]byte
			_, err := pagemap.ReadAt(word[:], int64(at/page*8))
			require.NoError(t, err)
			seen++
			present, own := word[7]&0x80 != 0, word[7]&0x01 != 0 // bits 63 and 56
			if !present || r.writable && !own {
				out++
			}
		}
	}
	require.NotZero(t, seen)
	return out
}

// All of the program but Go's tables of functions is mapped afterwards: not a page of it faults.
func TestCode(t *testing.T) {
	n, err := Code()
	require.NoError(t, err)
	require.Greater(t, n, 1<<20)
	exe, err := os.Readlink("/proc/self/exe")
	require.NoError(t, err)
	skip, err := tables(exe)
	require.NoError(t, err)
	all, without := 0, 0
	require.Zero(t, missing(t, func(r *region) []region {
		if r.file != exe {
			return nil
		}
		parts := r.without(skip)
		all += int(r.to - r.from)
		for _, p := range parts {
			without += int(p.to - p.from)
		}
		return parts
	}))
	require.Equal(t, without, n)
	require.InDelta(t, float64(skip.size), float64(all-without), 2*float64(unix.Getpagesize()))
}

// What the start has read of the tables is unmapped.
func TestTablesAreUnmapped(t *testing.T) {
	exe, err := os.Readlink("/proc/self/exe")
	require.NoError(t, err)
	s, err := tables(exe)
	require.NoError(t, err)
	require.True(t, s.fixed, "this program is not one that may lie anywhere")
	ofTables := func(r *region) []region {
		if part := r.within(s); r.file == exe && part.from != part.to {
			return []region{part}
		}
		return nil
	}
	n, err := populate(ofTables)
	require.NoError(t, err)
	require.Zero(t, missing(t, ofTables))
	_, err = Code()
	require.NoError(t, err)
	require.NotZero(t, missing(t, ofTables), "of %d pages; the runtime may have read some again", n/unix.Getpagesize())
}

// The tables are the section that debug/elf finds.
func TestTables(t *testing.T) {
	exe, err := os.Executable()
	require.NoError(t, err)
	f, err := elf.Open(exe)
	require.NoError(t, err)
	defer f.Close()
	got, err := tables(exe)
	require.NoError(t, err)
	require.Greater(t, got.size, uint64(100<<10))
	found := false
	for _, s := range f.Sections {
		found = found || strings.HasSuffix(s.Name, tablesName) && got == section{s.Offset, s.Size, s.Name == tablesName}
	}
	require.True(t, found)
}

// A file that is no program of this kind has no tables, and one that is cut off is an error.
func TestTablesOfOtherFiles(t *testing.T) {
	got, err := findTables(strings.NewReader("#!/bin/sh" + strings.Repeat(" ", 100)))
	require.NoError(t, err)
	require.Zero(t, got)
	_, err = findTables(strings.NewReader("\x7fELF"))
	require.ErrorContains(t, err, "the program's header")
	_, err = tables("/nowhere")
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestWithout(t *testing.T) {
	r := region{from: 0x10000, to: 0x20000, offset: 0x4000, file: "/bin/app"}
	part := func(from, to uintptr, offset uint64) region { return region{from, to, offset, false, "/bin/app"} }
	for _, c := range []struct {
		s    section
		want []region
	}{
		{section{}, []region{r}},
		{section{offset: 0x14000, size: 0x4000}, []region{r}}, // behind it
		{section{size: 0x4000}, []region{r}},                  // before it
		{section{offset: 0x5800, size: 0x700}, []region{r}},   // within a page
		{section{offset: 0x5800, size: 0x3000}, []region{part(0x10000, 0x12000, 0x4000), part(0x14000, 0x20000, 0x8000)}},    // two pages and parts of two
		{section{offset: 0x5000, size: 0x1000}, []region{part(0x10000, 0x11000, 0x4000), part(0x12000, 0x20000, 0x6000)}},    // a page
		{section{offset: 0x4000, size: 0x100000}, []region{part(0x10000, 0x10000, 0x4000), part(0x20000, 0x20000, 0x14000)}}, // all
	} {
		require.Equal(t, c.want, r.without(c.s), "%+v", c.s)
	}
}

// The memory from which Go allocates is mapped.
func TestHeap(t *testing.T) {
	out := 1
	for range 10 { // Go gives memory back in the background
		n, err := Heap()
		require.NoError(t, err)
		require.NotZero(t, n)
		require.LessOrEqual(t, n, heapMost)
		if out = missing(t, func(r *region) []region {
			if !r.firstOf(heapAddress()) {
				return nil
			}
			return []region{*r}
		}); out == 0 {
			break
		}
	}
	require.Zero(t, out)
}

// At most 8 MiB of it, from the beginning.
func TestHeapOfLargePrograms(t *testing.T) {
	for _, c := range []struct {
		from, to, at, ends uintptr
		within             bool
	}{
		{1 << 30, 1<<30 + heapMost + 4096, 1<<30 + heapMost, 1<<30 + heapMost, true},
		{1 << 30, 1<<30 + 4096, 1 << 30, 1<<30 + 4096, true},
		{1 << 30, 1<<30 + 4096, 1<<30 + 4096, 1<<30 + 4096, false},
		{1 << 30, 1<<30 + 4096, 1<<30 - 1, 1<<30 + 4096, false},
	} {
		r := region{from: c.from, to: c.to}
		require.Equal(t, c.within, r.firstOf(c.at), "%+v", c)
		require.Equal(t, c.ends, r.to, "%+v", c)
	}
}

// A program that has been removed, as while it is built anew, is mapped all the same, without the tables.
func TestRemovedProgram(t *testing.T) {
	const variable = "BANYAN_WARM_REMOVED"
	if name := os.Getenv(variable); name != "" {
		require.NoError(t, os.Remove(name))
		n, err := Code()
		require.NoError(t, err)
		skip, err := tables("/proc/self/exe")
		require.NoError(t, err)
		require.Greater(t, skip.size, uint64(100<<10))
		require.Greater(t, n, 1<<20)
		return
	}
	exe, err := os.ReadFile("/proc/self/exe")
	require.NoError(t, err)
	name := filepath.Join(t.TempDir(), "removed")
	require.NoError(t, os.WriteFile(name, exe, 0o700))
	cmd := exec.Command(name, "-test.run=^TestRemovedProgram$", "-test.v")
	cmd.Env = append(os.Environ(), variable+"="+name)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "PASS: TestRemovedProgram")
}
