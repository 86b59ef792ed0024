package tree

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A text for a shape is one that the package prints, or a similar one, and every text that parses gives a
// shape that has all ranks.
func FuzzParseShape(f *testing.F) {
	for _, word := range []string{"binomial", "knomial:4", "knomial:0004", "knomial:1", "flat", "node", "knomial:9999999999"} {
		f.Add(word)
	}
	f.Fuzz(func(t *testing.T, word string) {
		if d, err := ParseDesign(word); err == nil {
			require.Equal(t, word, d.String())
		}
		s, err := ParseShape(word)
		if err != nil {
			return
		}
		again, err := ParseShape(s.String())
		require.NoError(t, err)
		require.Equal(t, s, again)
	})
}
