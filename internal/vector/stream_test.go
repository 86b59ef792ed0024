package vector

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// Stream and Take copy the same as copy, wherever it begins and ends, and nothing beside it.
func TestStream(t *testing.T) {
	for name, fn := range map[string]func(to, from []byte){"stream": Stream, "take": Take} {
		t.Run(name, func(t *testing.T) { copies(t, fn) })
	}
}

func copies(t *testing.T, fn func(to, from []byte)) {
	from := make([]byte, 1<<12)
	for i := range from {
		from[i] = byte(i*7 + i>>8)
	}
	for _, n := range []int{0, 1, 63, 64, 65, 127, 128, 129, 200, 511, 512, 640, 1000, 3000} {
		for _, at := range []int{0, 1, 15, 16, 63, 64} {
			for _, src := range []int{0, 3, 64} {
				to := bytes.Repeat([]byte{0xee}, 1<<12)
				want := bytes.Clone(to)
				copy(want[at:], from[src:][:n])
				fn(to[at:], from[src:][:n])
				require.Equal(t, want, to, "%d bytes from %d to %d", n, src, at)
			}
		}
	}
}
