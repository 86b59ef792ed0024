package fabrictest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
)

// TestPattern: pieces of a pattern, wherever they are cut, are those of the
// whole, and every wrong byte is found.
func TestPattern(t *testing.T) {
	const key, size = 99, 67
	whole := make([]byte, size)
	fillPattern(key, 0, whole)
	for from := range size {
		for to := from; to <= size; to++ {
			piece := make([]byte, to-from)
			fillPattern(key, from, piece)
			require.Equal(t, whole[from:to], piece)
			require.Equal(t, -1, checkPattern(key, from, piece))
			for i := range piece {
				piece[i] ^= 1
				require.Equal(t, i, checkPattern(key, from, piece))
				piece[i] ^= 1
			}
		}
	}
}

// TestFlow: the receiver takes the frames in order, all classes that are a
// flow's occur, and any change is named.
func TestFlow(t *testing.T) {
	out, in := newFlow(7, 1, 2), newFlow(7, 1, 2)
	classes := make(map[fabric.Class]bool)
	for seq := range uint32(1000) {
		buf := make([]byte, seq%50)
		out.fill(seq, buf)
		classes[out.class(seq)] = true
		require.NoError(t, in.check(out.class(seq), out.imm(seq, len(buf)), buf))
	}
	require.Len(t, classes, fabric.NumClasses-4, "all but class 0 and those of finClass, rawClass, deafClass")
	for _, c := range []fabric.Class{0, finClass, rawClass, unhandledClass} {
		require.NotContains(t, classes, c)
	}
	buf := make([]byte, 9)
	out.fill(1000, buf)
	class, imm := out.class(1000), out.imm(1000, 9)
	require.ErrorContains(t, in.check(out.class(1001), out.imm(1001, 0), nil), "frame 1000 was due, frame 1001 came")
	require.ErrorContains(t, in.check(out.class(3), out.imm(3, 0), nil), "frame 3 came")
	require.ErrorContains(t, in.check(class, ^imm, buf), "not of this flow")
	require.ErrorContains(t, in.check(class%28+1, imm, buf), "class")
	require.ErrorContains(t, in.check(class, imm, buf[:8]), "came with 8 bytes")
	buf[8]++
	require.ErrorContains(t, in.check(class, imm, buf), "wrong from byte 8 on")
	other := newFlow(7, 2, 1)
	require.NotEqual(t, in.mask(0), other.mask(0), "the two directions differ")
}
