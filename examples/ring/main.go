// Command ring passes a token round all ranks, each of which adds its own number,
// and compares the result with a sum over all ranks.
package main

import (
	"fmt"

	"github.com/banyan-hpc/banyan"
)

func main() {
	banyan.Run(func(w *banyan.World) error { return pass(w.Comm()) })
}

func pass(c *banyan.Comm) error {
	next, prev := (c.Rank()+1)%c.Size(), (c.Rank()+c.Size()-1)%c.Size()
	token := []int64{0}
	if c.Rank() > 0 {
		if _, err := banyan.Recv(c, token, prev, 0); err != nil {
			return err
		}
	}
	token[0] += int64(c.Rank())
	// Isend, because a ring of one sends to itself before it receives.
	sent := banyan.Isend(c, token, next, 0)
	total := []int64{0}
	if c.Rank() == 0 {
		if _, err := banyan.Recv(c, total, prev, 0); err != nil {
			return err
		}
	}
	if _, err := sent.Wait(); err != nil {
		return err
	}

	sum := []int64{int64(c.Rank())}
	if err := banyan.Allreduce(c, sum, sum, banyan.Sum); err != nil {
		return err
	}
	if c.Rank() == 0 {
		fmt.Printf("the token came back with %d, the sum of %d ranks is %d\n", total[0], c.Size(), sum[0])
		if total[0] != sum[0] {
			return fmt.Errorf("ring: they differ")
		}
	}
	return nil
}
