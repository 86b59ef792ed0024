// Command samplesort sorts random numbers: afterwards each rank has a sorted part, and no number is less
// than one of the previous rank. When a rank dies, the others start again with the same numbers.
//
//	go build -o bin/ ./examples/samplesort && bin/ftbench run -n 4 -- bin/samplesort -kill
package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"syscall"

	"github.com/banyan-hpc/banyan"
)

var n = flag.Int("n", 400_000, "numbers in all")
var kill = flag.Bool("kill", false, "kill the last rank with SIGKILL")

func main() {
	flag.Parse()
	banyan.Run(work)
}

func work(w *banyan.World) error {
	if *kill && w.Comm().Rank() == w.Comm().Size()-1 {
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	*n = max(*n, w.Comm().Size()*w.Comm().Size()) // so that each rank has a sample for each
	for c := w.Comm(); ; {
		ok := uint64(1)
		if err := sort(c); banyan.IsFailure(err) {
			ok, _ = 0, c.Revoke() // ends the operations of ranks that wait for living ones
		} else if err != nil {
			return err
		}
		all, err := c.Agree(ok)
		if err == nil && all == 1 {
			if c.Rank() == 0 {
				fmt.Printf("%d numbers sorted by %d ranks\n", *n, c.Size())
			}
			return nil
		}
		if c, err = c.Shrink(); err != nil {
			return err
		}
	}
}

// sort generates this rank's share of the numbers and sends each number to the rank of its range. The
// ranges come from samples of all ranks.
func sort(c *banyan.Comm) error {
	rank, size := c.Rank(), c.Size()
	var mine []uint64
	for i := *n * rank / size; i < *n*(rank+1)/size; i++ {
		mine = append(mine, rand.NewPCG(1, uint64(i)).Uint64()) // the same at any rank
	}
	slices.Sort(mine)
	samples, all := make([]uint64, size), make([]uint64, size*size)
	for i := range samples {
		samples[i] = mine[i*len(mine)/size]
	}
	if err := banyan.Allgather(c, samples, all); err != nil {
		return err
	}
	slices.Sort(all)
	cuts, lengths := make([]int, size+1), make([]int, size) // mine[cuts[r]:cuts[r+1]] is for rank r
	send, recv := make([][]uint64, size), make([][]uint64, size)
	for r := 1; r < size; r++ {
		cuts[r], _ = slices.BinarySearch(mine, all[r*size])
	}
	cuts[size] = len(mine)
	for r := range size {
		send[r] = mine[cuts[r]:cuts[r+1]]
		lengths[r] = len(send[r])
	}
	if err := banyan.Alltoall(c, lengths, lengths); err != nil {
		return err
	}
	for r := range size {
		recv[r] = make([]uint64, lengths[r])
	}
	if err := banyan.Alltoallv(c, send, recv); err != nil {
		return err
	}
	parts := slices.Concat(recv...)
	slices.Sort(parts)
	return check(c, mine, parts)
}

// check compares the number and the sum of all numbers, and the ends of neighbouring parts.
func check(c *banyan.Comm, before, after []uint64) error {
	facts, ends := []uint64{uint64(len(before) - len(after)), 0, 0}, make([]uint64, 2*c.Size())
	for i, numbers := range [][]uint64{before, after} {
		for _, x := range numbers {
			facts[1+i] += x
		}
	}
	err := banyan.Allreduce(c, facts, facts, banyan.Sum)
	if err == nil {
		err = banyan.Allgather(c, []uint64{after[0], after[len(after)-1]}, ends)
	}
	if err == nil && (facts[0] != 0 || facts[1] != facts[2] || !slices.IsSorted(ends)) {
		err = fmt.Errorf("samplesort: the result is wrong")
	}
	return err
}
