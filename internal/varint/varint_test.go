package varint

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReader(t *testing.T) {
	r := Reader{Rest: append(binary.AppendUvarint(binary.AppendUvarint([]byte{9}, 1<<40), 300), 1)}
	require.EqualValues(t, 9, r.Byte())
	require.EqualValues(t, 1<<40, r.Uint())
	require.Equal(t, 300, r.UpTo(300))
	require.False(t, r.Bad)
	require.Equal(t, []byte{1}, r.Rest)

	for name, b := range map[string][]byte{
		"empty": nil, "cut": {0x80}, "long form": {0x81, 0}, "too long": {255, 255, 255, 255, 255, 255, 255, 255, 255, 1, 1},
		"above the limit": {8},
	} {
		r := Reader{Rest: b}
		require.Zero(t, r.UpTo(7), name)
		require.True(t, r.Bad, name)
	}
	r = Reader{}
	require.Zero(t, r.Byte())
	r.Fail(false)
	require.True(t, r.Bad)
}
