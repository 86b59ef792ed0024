package warm

import (
	"os"
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
		{0x400000, 0x552000, false, "/bin/app"}, {0x751000, 0x755000, true, "/bin/app"},
		{0x7e0000000000, 0x7e0000400000, true, ""}, {0x7f0000000000, 0x7f0000001000, false, "/lib/bin/app.so"},
	}, regions(strings.NewReader(list)))
}

// missing counts the pages of the regions that are wanted which would fault when they are read, or written if they can be.
func missing(t *testing.T, wanted func(*region) bool) (out int) {
	maps, err := os.Open("/proc/self/maps")
	require.NoError(t, err)
	defer maps.Close()
	pagemap, err := os.Open("/proc/self/pagemap")
	require.NoError(t, err)
	defer pagemap.Close()
	page, seen := uintptr(unix.Getpagesize()), 0
	for _, r := range regions(maps) {
		if !wanted(&r) {
			continue
		}
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

// All of the program is mapped afterwards: not a page of it faults.
func TestCode(t *testing.T) {
	n, err := Code()
	require.NoError(t, err)
	require.Greater(t, n, 1<<20)
	exe, err := os.Readlink("/proc/self/exe")
	require.NoError(t, err)
	require.Zero(t, missing(t, func(r *region) bool { return r.file == exe }))
}

// What Go allocates from is mapped.
func TestHeap(t *testing.T) {
	out := 1
	for range 10 { // Go gives memory back in the background
		n, err := Heap()
		require.NoError(t, err)
		require.NotZero(t, n)
		require.LessOrEqual(t, n, heapMost)
		if out = missing(t, func(r *region) bool { return r.firstOf(heapAddress()) }); out == 0 {
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
