package kill

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/coll/tree"
)

// Rank 0 never dies, every other rank once.
func TestVictims(t *testing.T) {
	require.Equal(t, []int{1, 2, 3}, Worst.Victims(8, 3))
	require.Equal(t, []int{7, 6, 5}, Best.Victims(8, 3))
	require.Equal(t, []int{1, 5, 2, 6, 3, 7, 4}, Average.Victims(8, 7))
	require.Equal(t, []int{1, 9, 2, 10, 3, 11, 4, 12, 5, 6, 7, 8}, Average.Victims(13, 12))
	for _, order := range Orders() {
		require.Empty(t, order.Victims(1, 0))
		for n := 2; n < 70; n++ {
			all := order.Victims(n, n-1)
			require.ElementsMatch(t, Worst.Victims(n, n-1), all)
			for failures := range n {
				require.Equal(t, all[:failures], order.Victims(n, failures), "each failure more is one more victim")
			}
		}
	}
	for _, wrong := range []func(){
		func() { Order(4).Victims(2, 1) },
		func() { Worst.Victims(2, 2) },
		func() { Best.Victims(2, -1) },
	} {
		require.Panics(t, wrong)
	}
}

// children is the number of a rank's children in the binomial tree of 512.
func children(d tree.Design, dead []int, rank int) int {
	var p tree.Plan
	tree.Build(&p, d, tree.Binomial, tree.Except(512, dead...), nil, 0, rank)
	return len(p.Children)
}

// With half of 512 ranks failed, the root of the rerouted tree has as many children as in the paper's three
// cases. Half of the average order are leaves.
func TestOrdersAsInThePaper(t *testing.T) {
	for order, degree := range map[Order]int{Worst: 255, Average: 128, Best: 8} {
		require.Equal(t, degree, children(tree.Reroute, order.Victims(512, 256), 0), order)
	}
	for failures, degree := range map[int]int{0: 9, 8: 52, 64: 193, 128: 256, 384: 127, 496: 15} {
		require.Equal(t, degree, children(tree.Reroute, Worst.Victims(512, failures), 0), failures)
	}
	leaves := 0
	dead := Average.Victims(512, 256)
	for _, rank := range dead {
		if children(tree.Unaware, nil, rank) == 0 {
			leaves++
		}
	}
	require.Equal(t, len(dead)/2, leaves)
	require.Subset(t, dead, Worst.Victims(512, 128))
}

// Formatting and parsing are inverse; the error for another word lists the orders.
func TestWords(t *testing.T) {
	text, err := json.Marshal(Orders())
	require.NoError(t, err)
	require.JSONEq(t, `["worst", "average", "best"]`, string(text))
	var got []Order
	require.NoError(t, json.Unmarshal(text, &got))
	require.Equal(t, Orders(), got)
	_, err = Parse("slowly")
	require.EqualError(t, err, `no kill order "slowly": want worst, average, best, random`)
	require.Equal(t, "order 7", Order(7).String())
	require.EqualError(t, Check("--failures", 8, 8), "--failures 8 of 8 ranks: want 0 to 7")
}
