package topology

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
)

func TestDims(t *testing.T) {
	for _, x := range []struct {
		ranks      int
		dims, want []int
	}{
		{6, []int{0, 0}, []int{3, 2}}, {7, []int{0, 0}, []int{7, 1}}, {6, []int{0, 3, 0}, []int{2, 3, 1}},
		{12, []int{0, 0}, []int{4, 3}}, {64, []int{0, 0, 0}, []int{4, 4, 4}}, {1, []int{0, 0}, []int{1, 1}},
		{24, []int{0, 0, 0}, []int{4, 3, 2}}, {16, []int{0, 0, 0}, []int{4, 2, 2}}, {36, []int{0, 0, 0}, []int{4, 3, 3}},
		{5, []int{5}, []int{5}}, {1, nil, nil}, {1 << 40, []int{0, 0}, []int{1 << 20, 1 << 20}},
	} {
		got := slices.Clone(x.dims)
		require.NoError(t, Dims(x.ranks, got))
		require.Equal(t, x.want, got, "%d ranks, %v", x.ranks, x.dims)
	}
	for _, x := range []struct {
		ranks int
		dims  []int
	}{{7, []int{0, 3, 0}}, {6, []int{2, 2}}, {6, []int{-1, 0}}, {0, []int{0}}, {-4, []int{0, 0}}, {2, nil}} {
		got := slices.Clone(x.dims)
		require.ErrorIs(t, Dims(x.ranks, got), banyan.ErrArgument, "%v", x)
		require.Equal(t, x.dims, got)
	}
}

// The chosen sequence is the first of all decreasing ones.
func TestDimsAgainstSearch(t *testing.T) {
	var first func(n, count, limit int) []int
	first = func(n, count, limit int) []int {
		if count == 0 {
			if n == 1 {
				return []int{}
			}
			return nil
		}
		for d := 1; d <= limit; d++ {
			if n%d == 0 {
				if rest := first(n/d, count-1, d); rest != nil {
					return append([]int{d}, rest...)
				}
			}
		}
		return nil
	}
	for ranks := 1; ranks <= 200; ranks++ {
		for count := 1; count <= 4; count++ {
			got := make([]int, count)
			require.NoError(t, Dims(ranks, got))
			require.Equal(t, first(ranks, count, ranks), got, "%d ranks in %d dimensions", ranks, count)
		}
	}
}

// grids are some of each kind: with and without borders, with dimensions of 1 and 2.
func grids() (all []grid) {
	for _, dims := range [][]int{nil, {1}, {2}, {5}, {1, 1}, {2, 3}, {3, 1, 2}, {2, 2, 2}, {3, 4, 2}} {
		for bits := range 1 << len(dims) {
			g := grid{dims: dims, periodic: make([]bool, len(dims))}
			for i := range dims {
				g.periodic[i] = bits>>i&1 == 1
			}
			all = append(all, g)
		}
	}
	return all
}

// Coordinates count up with the last dimension fastest, and shifts are steps along one of them.
func TestGrid(t *testing.T) {
	for _, g := range grids() {
		at := make([]int, len(g.dims)) // counted here
		for rank := range g.size() {
			require.Equal(t, at, g.coords(rank, make([]int, len(at))), "%v rank %d", g, rank)
			require.Equal(t, rank, g.rank(at))
			for dim, d := range g.dims {
				for distance := -2*d - 1; distance <= 2*d+1; distance++ {
					to := slices.Clone(at)
					to[dim] += distance
					want := g.rank(to)
					if to[dim] < 0 || to[dim] >= d {
						if !g.periodic[dim] {
							want = banyan.ProcNull
						} else {
							to[dim] = ((to[dim] % d) + d) % d
							want = g.rank(to)
						}
					}
					require.Equal(t, want, g.shifted(rank, dim, distance), "%v rank %d by %d along %d", g, rank, distance, dim)
				}
			}
			for i := len(at) - 1; i >= 0; i-- {
				if at[i]++; at[i] < g.dims[i] {
					break
				}
				at[i] = 0
			}
		}
	}
}

// The parts of a grid have the places that agree in the dimensions that are not kept, in order.
func TestSub(t *testing.T) {
	for _, g := range grids() {
		for bits := range 1 << len(g.dims) {
			keep := make([]bool, len(g.dims))
			for i := range keep {
				keep[i] = bits>>i&1 == 1
			}
			s := g.sub(keep)
			parts := map[int][]int{}
			for rank := range g.size() {
				color, key := g.part(rank, keep)
				require.Len(t, parts[color], key, "ranks of a part come in its order")
				parts[color] = append(parts[color], rank)
				here := g.coords(rank, make([]int, len(g.dims)))
				first := g.coords(parts[color][0], make([]int, len(g.dims)))
				there := s.coords(key, make([]int, len(s.dims)))
				for i, at := range here {
					if keep[i] {
						require.Equal(t, at, there[0])
						there = there[1:]
					} else {
						require.Equal(t, first[i], at)
					}
				}
			}
			for _, ranks := range parts {
				require.Len(t, ranks, s.size())
			}
		}
	}
}

// byNode numbers the nodes of consecutive ranks.
func byNode(counts ...int) (node []int) {
	for k, n := range counts {
		node = append(node, slices.Repeat([]int{10 * k}, n)...)
	}
	return node
}

// permutes checks that each rank has a place of its own.
func permutes(t *testing.T, order []int) {
	t.Helper()
	sorted := slices.Sorted(slices.Values(order))
	for i, place := range sorted {
		require.Equal(t, i, place, "%v", order)
	}
}

// crossing is the cut of an order: of places by the nodes of their ranks.
func crossing(g graph, order, node []int) int {
	on := make([]int, len(node))
	for rank, place := range order {
		on[place] = node[rank]
	}
	return g.cut(on[:len(g)])
}

func TestGridsInBlocks(t *testing.T) {
	for _, x := range []struct {
		dims   []int
		counts []int
		cut    int // in both directions
	}{
		{[]int{4, 4}, []int{4, 4, 4, 4}, 16},             // four squares
		{[]int{8, 8}, []int{16, 16, 16, 16}, 32},         // the same, larger
		{[]int{4, 4, 4}, slices.Repeat([]int{8}, 8), 96}, // cubes
		{[]int{6, 4}, []int{12, 12}, 8},                  // two halves, cut across the longer side
		{[]int{2, 6}, []int{4, 4, 4}, 8},
	} {
		g := grid{dims: x.dims, periodic: make([]bool, len(x.dims))}
		node := byNode(x.counts...)
		order := arranged(node, g.arcs(), g.blocks)
		permutes(t, order)
		require.Equal(t, x.cut, crossing(g.arcs(), order, node), "%v on %v: %v", x.dims, x.counts, order)
	}
}

// An order is never worse than the old one, which stays where it cannot be better.
func TestOrderOfRandomGraphs(t *testing.T) {
	better := 0
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 9))
		var counts []int
		for range 1 + r.IntN(4) {
			counts = append(counts, 1+r.IntN(5))
		}
		node := byNode(counts...)
		r.Shuffle(len(node), func(i, j int) { node[i], node[j] = node[j], node[i] })
		g := make(graph, 1+r.IntN(len(node)))
		for range r.IntN(3 * len(g)) {
			from, to := r.IntN(len(g)), r.IntN(len(g))
			g[from] = append(g[from], arc{to, r.IntN(4)})
		}
		order := arranged(node, g, nil)
		permutes(t, order)
		same := arranged(slices.Repeat([]int{1}, len(node)), g, nil)
		require.True(t, slices.IsSorted(same), "one node")
		before, after := crossing(g, same, node), crossing(g, order, node)
		require.LessOrEqual(t, after, before)
		if after < before {
			better++
		} else {
			require.True(t, slices.IsSorted(order))
		}
		for rank := len(g); rank < len(order); rank++ {
			require.Equal(t, rank, order[rank], "beyond the graph")
		}
	}
	require.Greater(t, better, 50)
}

// Ranks that talk to each other, scattered over nodes, come together; a failed one keeps the order.
func TestOrderOfTeams(t *testing.T) {
	node := []int{0, 1, 2, 0, 1, 2, 0, 1, 2}
	g := make(graph, 9)
	for i := range g {
		for j := range g {
			if i != j && i/3 == j/3 {
				g[i] = append(g[i], arc{j, 1})
			}
		}
	}
	order := arranged(node, g, nil)
	permutes(t, order)
	require.Zero(t, crossing(g, order, node), "%v", order)
	node[4] = -1
	require.True(t, slices.IsSorted(arranged(node, g, nil)))
}

func TestWords(t *testing.T) {
	for _, e := range []Edges{
		{}, {Sources: []int{1, 2}}, {Dests: []int{3}}, {Sources: []int{4, 4}, Dests: []int{5}},
		{Sources: []int{1}, Dests: []int{2, 3}, SourceWeights: []int{7}, DestWeights: []int{8, 9}},
		{Sources: []int{1}, Dests: []int{2}, DestWeights: []int{0}},
	} {
		got, ok := edgesOf(e.words())
		require.True(t, ok)
		require.Equal(t, e, got)
	}
}

// FuzzEdges: words of another rank are edges or refused.
func FuzzEdges(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{1, 1, 0, 0, 5, 6})
	f.Add([]byte{2, 1, 1, 0, 5, 6, 7, 1, 2})
	f.Add([]byte{255, 255, 1, 1})
	f.Fuzz(func(t *testing.T, raw []byte) {
		var words []int
		for _, b := range raw {
			words = append(words, int(int8(b)))
		}
		e, ok := edgesOf(words)
		if ok && len(e.words()) != len(words) {
			t.Fatal(fmt.Sprint(e, words))
		}
	})
}
