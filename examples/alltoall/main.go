// Command alltoall sends from each rank to each other, and prints the time: for the first exchange, in
// which the pairs of ranks connect, and for later ones, with messages of 8 bytes, 4 KiB and 64 KiB.
//
//	go build -o bin/ ./examples/alltoall && bin/ftbench run -n 64 -- bin/alltoall
package main

import (
	"fmt"
	"time"

	"github.com/banyan-hpc/banyan"
)

func main() { banyan.Run(work) }

func work(w *banyan.World) error {
	c := w.Comm()
	for _, round := range []struct {
		name string
		size int
	}{{"first", 8}, {"second", 8}, {"third", 8}, {"first", 4096}, {"second", 4096}, {"first", 65536}, {"second", 65536}} {
		took, err := exchange(c, round.size)
		if err != nil {
			return err
		}
		longest := make([]float64, 1)
		if err := banyan.Reduce(c, []float64{took.Seconds()}, longest, banyan.Max, 0); err != nil {
			return err
		}
		if c.Rank() == 0 {
			fmt.Printf("%-6s of %5d bytes: %9.3f ms\n", round.name, round.size, 1e3*longest[0])
		}
	}
	return nil
}

// exchange sends size bytes from each rank to each other, and returns the time that this rank has taken.
func exchange(c *banyan.Comm, size int) (time.Duration, error) {
	rank, ranks := c.Rank(), c.Size()
	out, in := make([]byte, ranks*size), make([]byte, ranks*size)
	for i := range out { // the first write to memory takes time
		out[i], in[i] = byte(rank), 1
	}
	if err := c.Barrier(); err != nil {
		return 0, err
	}
	start := time.Now()
	var reqs []banyan.Request
	for i := 1; i < ranks; i++ {
		from := (rank - i + ranks) % ranks
		reqs = append(reqs, c.Irecv(in[from*size:][:size], from, 0))
	}
	for i := 1; i < ranks; i++ {
		to := (rank + i) % ranks
		reqs = append(reqs, c.Isend(out[to*size:][:size], to, 0))
	}
	if err := banyan.WaitAll(reqs); err != nil {
		return 0, err
	}
	took := time.Since(start)
	for from := range ranks {
		if got := in[from*size]; from != rank && got != byte(from) {
			return 0, fmt.Errorf("alltoall: rank %d sent %d", from, got)
		}
	}
	return took, nil
}
