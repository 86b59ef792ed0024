package topology

import (
	"cmp"
	"slices"

	"github.com/banyan-hpc/banyan"
)

const (
	// refused is the number of words of a rank with wrong arguments: all ranks learn of them.
	refused = -1
	// maxWords bounds the words of edges that one rank gives another.
	maxWords = 1 << 24
)

// distributed sends each edge to the ranks at its ends and returns those of this rank.
func distributed(c *banyan.Comm, edges []Edge) (e Edges, err error) {
	n := c.Size()
	words, counts := make([][]int, n), make([]int, n)
	wrong := checkedEdges(edges, n)
	if wrong == nil {
		for _, x := range edges {
			words[x.From] = append(words[x.From], x.From, x.To, x.Weight)
			if x.To != x.From {
				words[x.To] = append(words[x.To], x.From, x.To, x.Weight)
			}
		}
	}
	most := 0
	for rank := range counts {
		counts[rank] = len(words[rank])
		most = max(most, counts[rank])
	}
	if wrong = cmp.Or(wrong, bounded("NewDistGraph", most)); wrong != nil {
		counts = slices.Repeat([]int{refused}, n)
	}
	come := make([]int, n)
	if err := banyan.Alltoall(c, counts, come); err != nil {
		return e, cmp.Or(wrong, err)
	}
	got := make([][]int, n)
	for rank, count := range come {
		if count < 0 || count > maxWords || count%3 != 0 {
			return e, cmp.Or(wrong, misuse("NewDistGraph", "rank %d gave wrong edges", rank))
		}
		got[rank] = make([]int, count)
	}
	if err := banyan.Alltoallv(c, words, got); err != nil {
		return e, err
	}
	me := c.Rank()
	for _, list := range got {
		for ; len(list) > 0; list = list[3:] {
			if list[0] == me {
				e.Dests, e.DestWeights = append(e.Dests, list[1]), append(e.DestWeights, list[2])
			}
			if list[1] == me {
				e.Sources, e.SourceWeights = append(e.Sources, list[0]), append(e.SourceWeights, list[2])
			}
		}
	}
	return e, nil
}

// bounded returns an error for more words than a rank may give another.
func bounded(op string, words int) error {
	if words > maxWords {
		return misuse(op, "%d numbers of edges for one rank, want at most %d", words, maxWords)
	}
	return nil
}

func checkedEdges(edges []Edge, n int) error {
	for _, x := range edges {
		if uint(x.From) >= uint(n) || uint(x.To) >= uint(n) || x.Weight < 0 {
			return misuse("NewDistGraph", "edge from %d to %d of weight %d, want ranks 0 … %d", x.From, x.To, x.Weight, n-1)
		}
	}
	return nil
}

// adjacent makes the graph in a new order: all ranks learn all edges, and the process that gets a rank gets
// the edges that the old one gave. Wrong is an error in the arguments of this rank.
func adjacent(c *banyan.Comm, e Edges, wrong error) (*Graph, error) {
	all, err := gathered(c, e, wrong)
	if err != nil {
		return nil, err
	}
	g, err := consistent(all)
	if err != nil {
		return nil, err
	}
	d, err := derived(c, len(all), true, func() graph { return g }, nil)
	if err != nil {
		return nil, err
	}
	return &Graph{c: d, edges: *all[d.Rank()]}, nil
}

// gathered gives the edges of all ranks; nil of one that is agreed to have failed.
func gathered(c *banyan.Comm, e Edges, wrong error) ([]*Edges, error) {
	mine := e.words()
	count := len(mine)
	if wrong = cmp.Or(wrong, bounded("NewAdjacent", count)); wrong != nil {
		count = refused
	}
	counts := make([]int, c.Size())
	if err := banyan.Allgather(c, []int{count}, counts); err != nil {
		return nil, cmp.Or(wrong, err)
	}
	words := make([][]int, c.Size())
	for rank, count := range counts {
		if count < 0 || count > maxWords {
			return nil, cmp.Or(wrong, misuse("NewAdjacent", "rank %d gave wrong edges", rank))
		}
		words[rank] = make([]int, count)
	}
	if err := banyan.Allgatherv(c, mine, words); err != nil {
		return nil, err
	}
	all := make([]*Edges, c.Size())
	for rank, w := range words {
		if len(w) == 0 { // not even of no edges
			continue
		}
		e, ok := edgesOf(w)
		if !ok {
			return nil, misuse("NewAdjacent", "rank %d sent %d words that are no edges", rank, len(w))
		}
		all[rank] = &e
	}
	return all, nil
}

// words are the edges as numbers: how many sources and destinations, whether these have weights, and all of them.
func (e Edges) words() []int {
	w := []int{len(e.Sources), len(e.Dests), min(1, len(e.SourceWeights)), min(1, len(e.DestWeights))}
	for _, list := range [...][]int{e.Sources, e.Dests, e.SourceWeights, e.DestWeights} {
		w = append(w, list...)
	}
	return w
}

// edgesOf is the inverse of words; false: the words are of no edges.
func edgesOf(w []int) (e Edges, ok bool) {
	if len(w) < 4 {
		return e, false
	}
	head, rest := w[:4], w[4:]
	most := len(rest)
	sources, dests, weighted, weighing := head[0], head[1], head[2], head[3]
	if min(sources, dests, weighted, weighing) < 0 || max(sources, dests) > most || max(weighted, weighing) > 1 ||
		sources*(1+weighted)+dests*(1+weighing) != most {
		return e, false
	}
	take := func(n int) (list []int) {
		if n > 0 {
			list, rest = rest[:n:n], rest[n:]
		}
		return list
	}
	e.Sources, e.Dests = take(sources), take(dests)
	e.SourceWeights, e.DestWeights = take(sources*weighted), take(dests*weighing)
	return e, true
}

// consistent gives the graph of all edges, or an error if one end alone has some. Edges of failed ranks are
// left out.
func consistent(all []*Edges) (graph, error) {
	g, balance := make(graph, len(all)), map[[2]int]int{}
	known := func(rank int) bool { return uint(rank) < uint(len(all)) && all[rank] != nil }
	for rank, e := range all {
		if e == nil {
			continue
		}
		for i, to := range e.Dests {
			if !known(to) {
				continue
			}
			weight := 1
			if e.DestWeights != nil {
				weight = e.DestWeights[i]
			}
			g[rank] = append(g[rank], arc{to, weight})
			balance[[2]int{rank, to}]++
		}
		for _, from := range e.Sources {
			if known(from) {
				balance[[2]int{from, rank}]--
			}
		}
	}
	for edge, n := range balance {
		if n != 0 {
			return nil, misuse("NewAdjacent", "an edge from %d to %d is known at one end alone", edge[0], edge[1])
		}
	}
	return g, nil
}
