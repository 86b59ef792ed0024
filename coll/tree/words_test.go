package tree

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Printed values parse again; the error of a wrong text lists the valid ones.
func TestWordsOfUsers(t *testing.T) {
	for _, s := range everyShape {
		got, err := ParseShape(s.String())
		require.NoError(t, err)
		require.Equal(t, s, got)
	}
	for _, d := range []Design{Unaware, Reroute, LookupAvoiding, Rebalance} {
		got, err := ParseDesign(d.String())
		require.NoError(t, err)
		require.Equal(t, d, got)
	}
	require.Equal(t, "knomial:4", KNomial(4).String())
	require.Equal(t, "design 9", Design(9).String())
	for _, wrong := range []string{"knomial:1", "knomial:", "knomial:65537", "knomial:x"} {
		_, err := ParseShape(wrong)
		require.ErrorContains(t, err, "want a radix of 2 … 65536, as in knomial:4")
	}
	_, err := ParseShape("oak")
	require.EqualError(t, err, `no tree "oak": want binomial, knomial:K, binary, chain, flat or node`)
	_, err = ParseDesign("hope")
	require.EqualError(t, err, `no design "hope": want unaware, reroute, lookup, rebalance or corrected`)
	require.PanicsWithValue(t, "tree: k-nomial tree of radix 1, want 2 … 65536", func() { KNomial(1) })
}
