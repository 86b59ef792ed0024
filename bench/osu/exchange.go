package osu

import "github.com/banyan-hpc/banyan/internal/pattern"

// The collectives in which each rank has a block for others. A size is that of a block, as OSU's programs have it.

// exchange is which blocks of bytes an operation moves.
type exchange struct {
	call  func(g *group, size int) error
	toAll bool // a rank sends the same to all
	// root: the root alone gets blocks; scatter: it alone sends them.
	root, scatter bool
	around        bool // the blocks are for neighbours, and come from them
}

var (
	alltoallOp = exchange{call: func(g *group, size int) error {
		return g.c.Alltoall(g.given(size), g.all(size))
	}}.operation()
	allgatherOp = exchange{toAll: true, call: func(g *group, size int) error {
		return g.c.Allgather(g.mine(size), g.all(size))
	}}.operation()
	gatherOp = exchange{toAll: true, root: true, call: func(g *group, size int) error {
		return g.c.Gather(g.mineAtRoot(size), g.atRoot(g.all(size)), g.root)
	}}.operation()
	scatterOp = exchange{scatter: true, call: func(g *group, size int) error {
		return g.c.Scatter(g.atRoot(g.buf[:g.c.Size()*size]), g.taken(size), g.root)
	}}.operation()
	allgathervOp = exchange{toAll: true, call: func(g *group, size int) error {
		return g.c.Allgatherv(g.mine(size), g.to)
	}}.operation()
	gathervOp = exchange{toAll: true, root: true, call: func(g *group, size int) error {
		return g.c.Gatherv(g.mineAtRoot(size), g.to, g.root)
	}}.operation()
	scattervOp = exchange{scatter: true, call: func(g *group, size int) error {
		return g.c.Scatterv(g.from, g.taken(size), g.root)
	}}.operation()
	alltoallvOp = exchange{call: func(g *group, _ int) error { return g.c.Alltoallv(g.blocks(), g.to) }}.operation()
)

// all is the memory for a block of each rank.
func (g *group) all(size int) []byte { return g.out[:g.c.Size()*size] }

// atRoot is memory that the root alone gives.
func (g *group) atRoot(memory []byte) []byte {
	if g.c.Rank() != g.root {
		return nil
	}
	return memory
}

// mine is the block that this rank sends; in place it is its own of the received blocks.
func (g *group) mine(size int) []byte {
	if g.inPlace {
		return g.to[g.c.Rank()]
	}
	return g.buf[:size]
}

// mineAtRoot is mine if only the root receives blocks.
func (g *group) mineAtRoot(size int) []byte {
	if g.c.Rank() != g.root {
		return g.buf[:size]
	}
	return g.mine(size)
}

// taken is the memory for the block of this rank in a scatter; in place it is the root's own of the blocks that it
// sends.
func (g *group) taken(size int) []byte {
	if g.inPlace && g.c.Rank() == g.root {
		return g.from[g.root]
	}
	return g.out[:size]
}

// given is a block for each rank, in place where those of the others are received.
func (g *group) given(size int) []byte {
	if g.inPlace {
		return g.all(size)
	}
	return g.buf[:g.c.Size()*size]
}

// blocks are those of given.
func (g *group) blocks() [][]byte {
	if g.inPlace {
		return g.to
	}
	return g.from
}

// operation is the operation with a pattern for each pair of ranks.
func (x exchange) operation() operation {
	return operation{
		call: func(g *group, size int) error {
			g.cut(size)
			return x.call(g, size)
		},
		apart: true, unit: 1, each: true, gets: true, gives: !x.toAll, around: x.around, fill: x.fill, wrong: x.wrong,
		rooted: x.root || x.scatter, inPlace: !x.around,
	}
}

// cut has the blocks be of a size.
func (g *group) cut(size int) {
	if len(g.to[0]) == size && len(g.from[0]) == size {
		return
	}
	for rank := range g.to {
		g.from[rank], g.to[rank] = g.buf[rank*size:][:size], g.out[rank*size:][:size]
	}
}

// seed is that of the pattern that one rank sends another.
func (x exchange) seed(round byte, from, to int) byte {
	if x.toAll {
		to = 0
	}
	return round + byte(29*from+13*to)
}

// come is the seed of the block for a place: of a rank, or from a neighbour in the opposite direction of its own.
func (x exchange) come(g *group, round byte, place int) byte {
	if x.around {
		return x.seed(round, g.near.Sources[place], place^1)
	}
	return x.seed(round, place, g.c.Rank())
}

func (x exchange) fill(g *group, size int, round byte) {
	g.cut(size)
	me := g.c.Rank()
	for rank := range g.to {
		pattern.Fill(g.from[rank], x.seed(round, me, rank))
		pattern.Spoil(g.to[rank], x.come(g, round, rank))
		if g.inPlace && !x.scatter && (!x.toAll || rank == me) {
			copy(g.to[rank], g.from[rank])
		}
	}
}

func (x exchange) wrong(g *group, _ int, round byte) (wrong int) {
	me := g.c.Rank()
	switch {
	case x.scatter:
		return pattern.Wrong(g.taken(len(g.to[0])), x.seed(round, g.root, me))
	case x.root && me != g.root:
		return 0
	}
	for rank, got := range g.to {
		wrong += pattern.Wrong(got, x.come(g, round, rank))
	}
	return wrong
}
