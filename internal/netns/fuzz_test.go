package netns

import (
	"bytes"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A name is taken for ours if a label writes it, and no other.
func FuzzLabel(f *testing.F) {
	f.Add(label{"banyan", 4194304, 1 << 63, 7, "249"}.String())
	f.Add(label{"x", 1, 0, 0, bridgePart}.String())
	f.Add("banyan-1-2-3-+4")
	f.Add("banyan-1-2--3-4")
	f.Fuzz(func(t *testing.T, name string) {
		l, ok := parseLabel(name)
		if !ok {
			return
		}
		require.Equal(t, name, l.String())
		require.Positive(t, l.pid)
		require.GreaterOrEqual(t, l.number, 0)
		require.True(t, prefixWord.MatchString(l.prefix))
		require.NotContains(t, l.part, "/")
	})
}

// Any entry of a socket is refused, or its name and its remote address are part of it.
func FuzzDiagnosed(f *testing.F) {
	f.Add(make([]byte, sockIDAt+sockIDSize))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
			remote, id, ok := diagnosed(body, family)
			require.Equal(t, len(body) >= sockIDAt+sockIDSize, ok)
			if ok {
				require.Len(t, id, sockIDSize)
				require.Equal(t, family == unix.AF_INET, remote.Is4())
				require.True(t, bytes.Contains(body, remote.AsSlice()))
			}
		}
	})
}

// A process's entry in /proc contains its start and whether it is alive, or is an error.
func FuzzBirth(f *testing.F) {
	f.Add("4711 (a b) c) S " + strings.Repeat("1 ", 18) + "99 2 3")
	f.Add("4711 (x) Z " + strings.Repeat("1 ", 19))
	f.Add(")")
	f.Fuzz(func(t *testing.T, text string) {
		start, alive, err := started(text)
		if err != nil {
			require.False(t, alive)
			return
		}
		require.Contains(t, text[strings.LastIndexByte(text, ')')+1:], strconv.FormatUint(start, 10))
	})
}
