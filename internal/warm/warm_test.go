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
7f0000000000-7f0000001000 r-xp 00000000 fd:00 13 /lib/bin/app.so
what is this
`
	require.Equal(t, []region{{0x400000, 0x552000, false}, {0x751000, 0x755000, true}}, regions(strings.NewReader(list), "/bin/app"))
}

// All of the program is mapped afterwards: not a page of it faults.
func TestCode(t *testing.T) {
	n, err := Code()
	require.NoError(t, err)
	require.Greater(t, n, 1<<20)
	missing := func() (out int) {
		maps, err := os.Open("/proc/self/maps")
		require.NoError(t, err)
		defer maps.Close()
		exe, err := os.Readlink("/proc/self/exe")
		require.NoError(t, err)
		pagemap, err := os.Open("/proc/self/pagemap")
		require.NoError(t, err)
		defer pagemap.Close()
		page := uintptr(unix.Getpagesize())
		for _, r := range regions(maps, exe) {
			for at := r.from; at < r.to; at += page {
				var word [8]byte
				_, err := pagemap.ReadAt(word[:], int64(at/page*8))
				require.NoError(t, err)
				if word[7]&0x80 == 0 { // bit 63: present
					out++
				}
			}
		}
		return out
	}
	require.Zero(t, missing())
}
