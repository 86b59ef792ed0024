package warm

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The regions of a list of mappings are in it: no line gives two, and none is empty or unreadable.
func FuzzRegions(f *testing.F) {
	f.Add("00400000-00452000 r-xp 00000000 08:02 173521 /usr/bin/x y\n7f00-8f00 rw-p 0 00:00 0\n")
	f.Add("1000-2000 r\n")
	f.Add("2000-1000 rw-p 0 00:00 0 [heap]\n")
	f.Fuzz(func(t *testing.T, list string) {
		out := regions(strings.NewReader(list))
		require.LessOrEqual(t, len(out), strings.Count(list, "\n")+1)
		for _, r := range out {
			require.Less(t, r.from, r.to)
			require.Contains(t, list, r.file)
		}
	})
}

// Any file gives tables within the addressable memory, or none, or an error.
func FuzzTables(f *testing.F) {
	f.Add([]byte("\x7fELF\x02\x01"))
	f.Fuzz(func(t *testing.T, file []byte) {
		if s, err := findTables(bytes.NewReader(file)); err != nil {
			require.Zero(t, s)
		}
	})
}
