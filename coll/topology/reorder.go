package topology

import (
	"container/heap"
	"slices"
)

// arc is an edge to a place.
type arc struct{ to, weight int }

// graph has the edges of each place.
type graph [][]arc

// arranged gives each rank its place, by the nodes of the ranks. Ranks beyond the last place keep their
// number.
func arranged(node []int, g graph, blocks func(counts []int) [][]int) []int {
	same := make([]int, len(node))
	for i := range same {
		same[i] = i
	}
	places := len(g)
	on, counts := numbered(node[:places])
	if slices.Contains(node, -1) || len(counts) < 2 {
		return same
	}
	best, least := same, g.cut(on)
	try := func(sets [][]int) {
		if sets == nil {
			return
		}
		if cost := g.cut(owners(sets, places)); cost < least {
			best, least = matched(sets, on, same), cost
		}
	}
	if blocks != nil {
		try(blocks(counts))
	}
	try(g.grown(counts))
	return best
}

// numbered gives the nodes numbers from 0, in the order of their first ranks, and counts their ranks.
func numbered(node []int) (on, counts []int) {
	number := map[int]int{}
	for _, n := range node {
		k, known := number[n]
		if !known {
			k = len(counts)
			number[n], counts = k, append(counts, 0)
		}
		on, counts[k] = append(on, k), counts[k]+1
	}
	return on, counts
}

// owners gives each place the number of the set in which it is.
func owners(sets [][]int, places int) []int {
	on := make([]int, places)
	for k, set := range sets {
		for _, place := range set {
			on[place] = k
		}
	}
	return on
}

// cut is the weight of the edges between nodes.
func (g graph) cut(on []int) (sum int) {
	for from, arcs := range g {
		for _, a := range arcs {
			if on[from] != on[a.to] {
				sum += a.weight
			}
		}
	}
	return sum
}

// matched gives the ranks of each node the places of its set. A rank keeps its number if that is among
// them.
func matched(sets [][]int, on, same []int) []int {
	out := slices.Clone(same)
	owner := owners(sets, len(on))
	free := make([][]int, len(sets))
	for place, k := range owner {
		if on[place] != k {
			free[k] = append(free[k], place)
		}
	}
	for rank, k := range on {
		if owner[rank] != k {
			out[rank], free[k] = free[k][0], free[k][1:]
		}
	}
	return out
}

// grown divides the places among nodes. Each node begins with the first free place, and takes the place with
// the heaviest edges to its own places until it has one for each of its ranks.
func (g graph) grown(counts []int) [][]int {
	near := g.both()
	sets, taken, first := make([][]int, len(counts)), make([]bool, len(g)), 0
	for k, count := range counts {
		gain, next := map[int]int{}, frontier{}
		for len(sets[k]) < count {
			place := next.take(taken, gain)
			if place < 0 {
				for taken[first] {
					first++
				}
				place = first
			}
			taken[place], sets[k] = true, append(sets[k], place)
			for _, a := range near[place] {
				if !taken[a.to] {
					gain[a.to] += a.weight
					heap.Push(&next, arc{a.to, gain[a.to]})
				}
			}
		}
	}
	return sets
}

// both has the edges in both directions.
func (g graph) both() graph {
	out := make(graph, len(g))
	for from, arcs := range g {
		for _, a := range arcs {
			out[from] = append(out[from], a)
			out[a.to] = append(out[a.to], arc{from, a.weight})
		}
	}
	return out
}

// frontier is a heap of places beside a set: the heaviest first, then the lowest. A place whose weight has
// grown is in it more than once.
type frontier []arc

// take removes the heaviest place that is not taken; -1 if there is none.
func (f *frontier) take(taken []bool, gain map[int]int) int {
	for f.Len() > 0 {
		a := heap.Pop(f).(arc)
		if !taken[a.to] && gain[a.to] == a.weight {
			return a.to
		}
	}
	return -1
}

func (f frontier) Len() int { return len(f) }
func (f frontier) Less(i, j int) bool {
	return f[i].weight > f[j].weight || f[i].weight == f[j].weight && f[i].to < f[j].to
}
func (f frontier) Swap(i, j int) { f[i], f[j] = f[j], f[i] }
func (f *frontier) Push(x any)   { *f = append(*f, x.(arc)) }
func (f *frontier) Pop() any {
	last := (*f)[len(*f)-1]
	*f = (*f)[:len(*f)-1]
	return last
}

// blocks divides the grid in blocks of one shape that part the fewest neighbours, one for each node; nil if nodes
// have different numbers of ranks or no such block divides the grid.
func (g *grid) blocks(counts []int) [][]int {
	if slices.Min(counts) != slices.Max(counts) {
		return nil
	}
	shape := g.shape(counts[0], nil)
	if shape == nil {
		return nil
	}
	across := grid{dims: make([]int, len(shape))} // of blocks
	for i, d := range g.dims {
		across.dims[i] = d / shape[i]
	}
	across.periodic = make([]bool, len(shape))
	sets := make([][]int, len(counts))
	coords := make([]int, len(shape))
	for place := range g.size() {
		g.coords(place, coords)
		for i := range coords {
			coords[i] /= shape[i]
		}
		k := across.rank(coords)
		sets[k] = append(sets[k], place)
	}
	return sets
}

// shape is the block of so many places with the smallest surface that begins with the lengths of the first
// dimensions; nil if there is none.
func (g *grid) shape(count int, begin []int) (best []int) {
	dim := len(begin)
	if dim == len(g.dims) {
		if count == 1 {
			return slices.Clone(begin)
		}
		return nil
	}
	for _, d := range divisors(count) {
		if g.dims[dim]%d != 0 {
			continue
		}
		s := g.shape(count/d, append(begin[:dim:dim], d))
		if s != nil && (best == nil || g.surface(s) < g.surface(best)) {
			best = s
		}
	}
	return best
}

// surface is the number of pairs of neighbours that blocks of a shape part.
func (g *grid) surface(shape []int) (sum int) {
	places := g.size()
	for i, d := range g.dims {
		planes := d/shape[i] - 1
		if g.periodic[i] && planes > 0 {
			planes++
		}
		sum += planes * places / d
	}
	return sum
}
