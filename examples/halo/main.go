// Command halo spreads heat over a square plate that is cut into tiles, one for
// each rank. In each step neighbours exchange the edges of their tiles.
package main

import (
	"flag"
	"fmt"

	"github.com/banyan-hpc/banyan"
)

func main() {
	side := flag.Int("side", 64, "cells along the side of a tile")
	steps := flag.Int("steps", 200, "time steps")
	flag.Parse()
	banyan.Run(func(w *banyan.World) error { return run(w.Comm(), *side, *steps) })
}

func run(c *banyan.Comm, side, steps int) error {
	t := newTile(c, side)
	before, err := t.heat()
	if err != nil {
		return err
	}
	for range steps {
		if err := t.exchange(); err != nil {
			return err
		}
		t.step()
	}
	after, err := t.heat()
	if err != nil {
		return err
	}
	if c.Rank() == 0 {
		fmt.Printf("%d ranks in %d x %d tiles, heat %.6f before, %.6f after %d steps\n",
			c.Size(), t.rows, t.cols, before, after, steps)
	}
	return nil
}

// The directions in which a tile has neighbours. An edge that is sent in one of
// them arrives from the opposite one; the tag is the direction of travel.
const (
	up = iota
	down
	left
	right
)

// tile is one rank's part of the plate: side x side cells, and around them the
// halo, a copy of the neighbours' edges.
type tile struct {
	c          *banyan.Comm
	rows, cols int // of tiles
	neighbour  [4]int
	side       int
	cells      []float64 // (side+2) x (side+2), by row
	next       []float64
	out, in    [4][]float64
	requests   []banyan.Request
}

func newTile(c *banyan.Comm, side int) *tile {
	t := &tile{c: c, side: side, rows: 1}
	for d := 1; d*d <= c.Size(); d++ { // as square as the number of ranks allows
		if c.Size()%d == 0 {
			t.rows = d
		}
	}
	t.cols = c.Size() / t.rows
	row, col := c.Rank()/t.cols, c.Rank()%t.cols
	t.neighbour = [4]int{t.rank(row-1, col), t.rank(row+1, col), t.rank(row, col-1), t.rank(row, col+1)}
	width := side + 2
	t.cells, t.next = make([]float64, width*width), make([]float64, width*width)
	if c.Rank() == 0 {
		t.cells[t.at(side/2, side/2)] = 1
	}
	for d := range t.out {
		t.out[d], t.in[d] = make([]float64, side), make([]float64, side)
	}
	return t
}

// rank is the rank of a tile. Beyond the plate it is ProcNull: messages to and from it succeed
// without moving anything.
func (t *tile) rank(row, col int) int {
	if row < 0 || row >= t.rows || col < 0 || col >= t.cols {
		return banyan.ProcNull
	}
	return row*t.cols + col
}

// at is the index of a cell; -1 and side are the halo.
func (t *tile) at(row, col int) int { return (row+1)*(t.side+2) + col + 1 }

// edge is the index of the i-th cell of an edge, or of the halo beyond it.
func (t *tile) edge(d, i, beyond int) int {
	switch d {
	case up:
		return t.at(-beyond, i)
	case down:
		return t.at(t.side-1+beyond, i)
	case left:
		return t.at(i, -beyond)
	default:
		return t.at(i, t.side-1+beyond)
	}
}

// exchange fills the halo. All messages are under way at the same time.
func (t *tile) exchange() error {
	t.requests = t.requests[:0]
	for d, peer := range t.neighbour {
		opposite := d ^ 1
		t.requests = append(t.requests, banyan.Irecv(t.c, t.in[d], peer, opposite))
	}
	for d, peer := range t.neighbour {
		for i := range t.out[d] {
			t.out[d][i] = t.cells[t.edge(d, i, 0)]
		}
		t.requests = append(t.requests, banyan.Isend(t.c, t.out[d], peer, d))
	}
	if err := banyan.WaitAll(t.requests); err != nil {
		return fmt.Errorf("exchange of edges: %w", err)
	}
	for d, peer := range t.neighbour {
		for i := range t.in[d] {
			from := t.in[d][i]
			if peer == banyan.ProcNull { // the plate's border keeps the heat in
				from = t.cells[t.edge(d, i, 0)]
			}
			t.cells[t.edge(d, i, 1)] = from
		}
	}
	return nil
}

func (t *tile) step() {
	for row := range t.side {
		for col := range t.side {
			around := t.cells[t.at(row-1, col)] + t.cells[t.at(row+1, col)] +
				t.cells[t.at(row, col-1)] + t.cells[t.at(row, col+1)]
			here := t.cells[t.at(row, col)]
			t.next[t.at(row, col)] = here + 0.2*(around-4*here)
		}
	}
	t.cells, t.next = t.next, t.cells
}

// heat is the sum over the whole plate, the same before and after.
func (t *tile) heat() (float64, error) {
	sum := []float64{0}
	for row := range t.side {
		for col := range t.side {
			sum[0] += t.cells[t.at(row, col)]
		}
	}
	err := banyan.Allreduce(t.c, sum, sum, banyan.Sum)
	return sum[0], err
}
