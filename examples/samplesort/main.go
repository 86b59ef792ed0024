// Command samplesort sorts random numbers that lie at all ranks: afterwards each rank has a sorted
// part, and no number is less than one of the rank before.
//
//	go build -o bin/ ./examples/samplesort && bin/ftbench run -n 4 -- bin/samplesort
package main

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/banyan-hpc/banyan"
)

func main() {
	n := flag.Int("n", 100_000, "numbers at each rank")
	flag.Parse()
	banyan.Run(func(w *banyan.World) error { return work(w.Comm(), *n) })
}

func work(c *banyan.Comm, n int) error {
	if n < c.Size() {
		return fmt.Errorf("samplesort: %d numbers at each of %d ranks: at least as many as ranks are needed", n, c.Size())
	}
	random := rand.New(rand.NewPCG(1, uint64(c.Rank())))
	mine := make([]uint64, n)
	for i := range mine {
		mine[i] = random.Uint64()
	}
	slices.Sort(mine)
	sorted, err := exchange(c, mine)
	if err != nil {
		return err
	}
	slices.Sort(sorted)
	return check(c, mine, sorted)
}

// exchange gives each rank the numbers of its range. The ranges come from samples of all ranks.
func exchange(c *banyan.Comm, mine []uint64) ([]uint64, error) {
	size := c.Size()
	sample, samples := make([]uint64, size), make([]uint64, size*size)
	for i := range sample {
		sample[i] = mine[i*len(mine)/size]
	}
	if err := banyan.Allgather(c, sample, samples); err != nil {
		return nil, err
	}
	slices.Sort(samples)

	from, counts := 0, make([]int, size) // how many numbers go to each rank
	parts := make([][]uint64, size)
	for rank := range parts {
		to := len(mine)
		if rank < size-1 {
			to, _ = slices.BinarySearch(mine, samples[(rank+1)*size])
		}
		parts[rank], counts[rank], from = mine[from:to], to-from, to
	}
	all := make([]int, size*size)
	if err := banyan.Allgather(c, counts, all); err != nil {
		return nil, err
	}
	var reqs []banyan.Request
	var got []uint64
	for rank := range size {
		got = slices.Grow(got, all[rank*size+c.Rank()])[:len(got)+all[rank*size+c.Rank()]]
	}
	at := 0
	for rank := range size {
		n := all[rank*size+c.Rank()]
		reqs = append(reqs, banyan.Irecv(c, got[at:at+n], rank, 0), banyan.Isend(c, parts[rank], rank, 0))
		at += n
	}
	return got, banyan.WaitAll(reqs)
}

// check compares the number and the sum of all numbers, and the ends of neighbouring parts.
func check(c *banyan.Comm, before, after []uint64) error {
	facts := []uint64{uint64(len(before)), 0, uint64(len(after)), 0}
	for i, of := range [][]uint64{before, after} {
		for _, x := range of {
			facts[2*i+1] += x
		}
	}
	if err := banyan.Allreduce(c, facts, facts, banyan.Sum); err != nil {
		return err
	}
	ends, all := []uint64{0, 0}, make([]uint64, 2*c.Size())
	if len(after) > 0 {
		ends[0], ends[1] = after[0], after[len(after)-1]
	}
	if err := banyan.Allgather(c, ends, all); err != nil {
		return err
	}
	if facts[0] != facts[2] || facts[1] != facts[3] || !slices.IsSorted(all) {
		return errors.New("samplesort: the result is wrong")
	}
	if c.Rank() == 0 {
		fmt.Printf("%d numbers sorted by %d ranks\n", facts[2], c.Size())
	}
	return nil
}
