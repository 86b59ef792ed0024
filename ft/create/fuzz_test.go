package create

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/p2p"
)

// Any verdict of a leader is no error, or one of a class that can be printed; and an error that was written
// is read again.
func FuzzVerdict(f *testing.F) {
	lost := &errorOn{"world", &ft.ProcFailedError{
		Ranks: []int{3}, Local: []int{1, 2}, Cause: proc.Cause{Kind: proc.Signaled, Code: 9},
	}}
	for _, err := range []error{nil, ft.ErrDeparted, errors.New("x"), lost} {
		b := make([]byte, verdictLen)
		encodeVerdict(b, err)
		f.Add(b)
	}
	hostile := slices.Repeat([]byte{0xff}, verdictLen)
	hostile[0], hostile[6], hostile[7] = 1, verdictRanks, 0
	f.Add(hostile)
	f.Fuzz(func(t *testing.T, b []byte) {
		b = append(b, make([]byte, verdictLen)...)[:verdictLen]
		err := decodeVerdict(b)
		require.Equal(t, b[0] == 0, err == nil)
		if err == nil {
			return
		}
		for _, r := range err.Error() {
			require.True(t, r >= ' ' && r != 0x7f, "%q", err.Error())
		}
		failed, ok := errors.AsType[*ft.ProcFailedError](err)
		if !ok {
			require.True(t, err == errLeader || slices.Contains(classes[:], err))
			return
		}
		require.LessOrEqual(t, len(failed.Ranks)+len(failed.Local), verdictRanks)
		again := make([]byte, verdictLen)
		encodeVerdict(again, err)
		if on, ok := errors.AsType[*errorOn](err); !ok || len(on.comm) <= verdictName {
			require.Equal(t, err, decodeVerdict(again))
		}
	})
}

// Any offer of another side's leader is a group of processes that are not on this side, each once, or an
// error; and no memory beyond that for all processes that there can be.
func FuzzOffer(f *testing.F) {
	word := binary.LittleEndian.AppendUint64
	f.Add(word(word(nil, 8), 7), []byte{2, 0, 0, 0, 3, 0, 0, 0})
	f.Add(word(word(nil, 1<<40), 7), []byte{})
	f.Add(word(word(nil, 6), 7), []byte{2, 0, 0, 0, 3, 0})
	f.Add(word(word(nil, 8), 7), []byte{2, 0, 0, 0, 2, 0, 0, 0})
	f.Fuzz(func(t *testing.T, first, list []byte) {
		if n, _, err := parseOffer(first); err == nil {
			require.True(t, 0 < n && n <= 4*proc.MaxIDs && n%4 == 0)
		} else {
			require.ErrorIs(t, err, ft.ErrArgument)
		}
		here := p2p.WorldGroup(2)
		g, err := decodeGroup(list, here)
		if err != nil {
			require.ErrorIs(t, err, ft.ErrArgument)
			return
		}
		var again []byte
		for _, p := range g.Procs() {
			require.Negative(t, here.Rank(p))
			again = binary.LittleEndian.AppendUint32(again, uint32(p))
		}
		require.Equal(t, string(list), string(again))
	})
}

// With any colors and keys of the ranks, those of a color are listed once, by key and rank.
func FuzzColors(f *testing.F) {
	give := func(words ...int64) (b []byte) {
		for _, w := range words {
			b = binary.LittleEndian.AppendUint64(b, uint64(w))
		}
		return b
	}
	f.Add(give(1, 5, 0, 0, 1, -5), 1)
	f.Add(give(int64(Undefined), 5), Undefined)
	f.Fuzz(func(t *testing.T, all []byte, color int) {
		ranks := decodeColors(all, color)
		require.True(t, color != Undefined || ranks == nil)
		of := func(rank, at int) int64 { return int64(binary.LittleEndian.Uint64(all[colorBytes*rank+at:])) }
		for i, rank := range ranks {
			require.Equal(t, int64(color), of(rank, 0))
			if i > 0 {
				before := ranks[i-1]
				require.True(t, of(before, 8) < of(rank, 8) || of(before, 8) == of(rank, 8) && before < rank)
			}
		}
	})
}
