package debug

import (
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// With any descriptions of the ranks' calls, two differ if and only if some two do not match, and the texts can
// be printed.
func FuzzDiffering(f *testing.F) {
	bcast := Collective{Op: "bcast", Length: 8, Name: "Bcast", Where: strings.Repeat("directory/", 20) + "main.go:1"}
	ofKind, folding := bcast, Collective{Op: "allreduce", Root: None, Length: 16, Unit: 8, AnyOrder: true, Fold: "main.add"}
	ofKind.Kind = Value
	for _, calls := range [][]Collective{{bcast, ofKind, bcast}, {folding, Plain("dup")}, {bcast}} {
		var all []byte
		for _, c := range calls {
			s := signatureOf(c)
			all = append(all, s[:]...)
		}
		f.Add(all)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		all := make([]signature, len(b)/len(signature{})+1)
		for i := range all {
			copy(all[i][:], b[i*len(all[i]):])
		}
		_, _, found := differing(all)
		want := false
		for i := range all {
			for k := range all {
				want = want || all[i][0] != 0 && all[k][0] != 0 && !all[i].fits(&all[k])
			}
			require.True(t, utf8.ValidString(all[i].String()) && !strings.ContainsAny(all[i].String(), "\n\x1b\x00"))
		}
		require.Equal(t, want, found)
	})
}

func add(a, b int) int { return a + b }

func same[T any](a, b T) T { return a }

type summing struct{}

func (summing) add(a, b int) int { return a + b }

func TestNamesOfOperators(t *testing.T) {
	literal := func(a, b int) int { return a }
	for name, op := range map[string]any{
		"debug.add": add, "debug.same": same[float32], "debug.summing.add": summing.add,
	} {
		require.Equal(t, name, foldName(op))
	}
	require.Empty(t, foldName(literal))
	require.Empty(t, foldName(summing{}.add))
	require.Empty(t, foldName((func(a, b int) int)(nil)))
	require.Equal(t, reflect.Float32, elementOf(same[float32]))
	require.Equal(t, reflect.Uint8, elementOf(same[[]byte]))
}

// TestLentCopies: buffers that share memory have copies that do.
func TestLentCopies(t *testing.T) {
	all := []byte{1, 2, 3, 4, 5, 6}
	for _, part := range [][]byte{all, all[:2], all[2:4], all[4:], nil} {
		in, out := lend(part, all)
		require.Equal(t, [][]byte{part, all}, [][]byte{in, out})
		if len(part) > 0 {
			in[0] = 9
			require.Contains(t, out, byte(9))
		}
		require.NotContains(t, all, byte(9))
	}
	in, out := lend(all[1:4], all[2:6])
	in[1] = 9
	require.Equal(t, []byte{9, 4, 5, 6}, out)
	in, out = lend(all[:2:2], []byte{7})
	require.Equal(t, append([]byte{}, 1, 2, 7), append(in, out...))
}
