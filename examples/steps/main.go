// Command steps sums in ten steps. A rank dies during them; the others shrink and continue.
// It is the program of docs/guide.md, "Recovering".
//
//	go build -o bin/ ./examples/steps && bin/ftbench run -n 4 -- bin/steps
package main

import (
	"errors"
	"fmt"

	"github.com/banyan-hpc/banyan"
)

func main() { banyan.Run(work) }

func work(w *banyan.World) error {
	c := w.Comm()
	for step := 0; step < 10; {
		if step == 5 && w.Comm().Rank() == 1 {
			return errors.New("out of order") // this rank fails
		}
		sum := []float64{1}
		err := banyan.Allreduce(c, sum, sum, banyan.Sum)
		next, err := settle(c, err)
		if err != nil {
			return err
		}
		if next == c {
			step++ // all have the sum
		}
		c = next
	}
	if c.Rank() == 0 {
		fmt.Println("ten steps done, in the end by", c.Size())
	}
	return nil
}

// settle agrees on whether all have succeeded. If not, it returns a communicator of the remaining ranks.
func settle(c *banyan.Comm, err error) (*banyan.Comm, error) {
	ok := uint64(1)
	switch {
	case banyan.IsFailure(err):
		_ = c.Revoke() // ends the operations of ranks that wait for living ones
		ok = 0
	case err != nil:
		return nil, err
	}
	if all, err := c.Agree(ok); all == 1 && err == nil {
		return c, nil
	}
	return c.Shrink()
}
