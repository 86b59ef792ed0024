package warm

import (
	"os"
	"runtime"
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

// missing counts the pages of the regions that are wanted which would fault.
func missing(t *testing.T, wanted func(region) bool) (out int) {
	maps, err := os.Open("/proc/self/maps")
	require.NoError(t, err)
	defer maps.Close()
	pagemap, err := os.Open("/proc/self/pagemap")
	require.NoError(t, err)
	defer pagemap.Close()
	page, seen := uintptr(unix.Getpagesize()), 0
	for _, r := range regions(maps) {
		if !wanted(r) {
			continue
		}
		for at := r.from; at < r.to; at += page {
			var word [8]byte
			_, err := pagemap.ReadAt(word[:], int64(at/page*8))
			require.NoError(t, err)
			seen++
			if word[7]&0x80 == 0 { // bit 63: present
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
	require.Zero(t, missing(t, func(r region) bool { return r.file == exe }))
}

// What Go allocates from is mapped, at most 8 MiB of it.
func TestHeap(t *testing.T) {
	around := func(r region) bool { return r.from <= heapAddress() && heapAddress() < r.to }
	before := missing(t, around)
	n, err := Heap()
	require.NoError(t, err)
	require.NotZero(t, n)
	require.Less(t, missing(t, around), before)
	large := make([]byte, 4*heapMost) // not a page of it is touched
	before = missing(t, around)
	n, err = Heap()
	require.NoError(t, err)
	require.LessOrEqual(t, n, heapMost)
	require.Greater(t, missing(t, around), before-heapMost/unix.Getpagesize()-1)
	runtime.KeepAlive(large)
}
