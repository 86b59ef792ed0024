// Command refine solves a system of linear equations by iterative refinement, and continues with the survivors
// when ranks die: example 17.3 of the MPI Forum's chapter on process fault tolerance (draft of January 2014). Each
// rank computes some of the unknowns and has all of them as of the last exchange. So a failure costs only time:
// the iteration converges to the same solution from any values.
//
//	go build -o bin/ ./examples/refine && bin/ftbench run -n 6 -- bin/refine -kill 2
//
// kills two ranks by SIGKILL on the way.
package main

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"syscall"

	"github.com/banyan-hpc/banyan"
)

func main() {
	unknowns := flag.Int("unknowns", 1000, "size of the system")
	epsilon := flag.Float64("epsilon", 1e-9, "largest change of an unknown with which it is solved")
	kill := flag.Int("kill", 0, "ranks to kill with SIGKILL, a hundred iterations after each other; rank 0 is none of them")
	flag.Parse()
	r := &refinement{x: make([]float64, *unknowns), next: make([]float64, *unknowns)}
	banyan.Run(func(w *banyan.World) error { return r.solve(w, *epsilon, *kill) })
}

// solve is the example's loop. No rank leaves it before all living ranks agree that they have the
// solution.
func (r *refinement) solve(w *banyan.World, epsilon float64, kill int) error {
	c, err := w.Comm().Dup() // the world's communicator cannot be freed
	if err != nil {
		return err
	}
	me, size, iterations, recoveries := c.Rank(), c.Size(), 0, 0
	dying := false
	for norm := epsilon + 1; norm > epsilon; {
		if dying {
			select {} // wait for the signal
		}
		if iterations++; me > 0 && me >= size-kill && iterations == 100*(size-me) {
			dying = true
			go func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) }() // any time in this iteration; it succeeds
		}
		norm, err = r.iterate(c)
		switch {
		case err == nil && norm > epsilon:
			continue
		case banyan.IsFailure(err):
			// This rank has met a failure. Others may be in the next iteration already, and would wait there for
			// this one. Revoking the communicator ends their waits.
			if err := c.Revoke(); err != nil {
				return err
			}
		case err != nil:
			return err
		}
		var succeeded uint64
		if err == nil {
			succeeded = 1
		}
		succeeded, err = c.Agree(succeeded) // about to leave: do all ranks have the solution?
		switch {
		case err != nil && !errors.Is(err, banyan.ErrProcFailed):
			return err
		case err != nil || succeeded == 0:
			if c, err = leaveBehind(c); err != nil {
				return err
			}
			recoveries++
			norm = epsilon + 1 // one more iteration at least
		}
	}
	if c.Rank() == 0 {
		fmt.Printf("solved with %d of %d ranks left, %d recoveries, %d iterations, largest error %.0e\n",
			c.Size(), size, recoveries, iterations, r.err())
	}
	return c.Free()
}

// leaveBehind returns a communicator of the living ranks, and frees c.
func leaveBehind(c *banyan.Comm) (*banyan.Comm, error) {
	left, err := c.Shrink()
	if err != nil {
		return nil, err
	}
	return left, c.Free()
}

// refinement is Jacobi's method for the equations 2.05 x[i] - x[i-1] - x[i+1] = b[i], with a right side for which
// all unknowns are one. Each iteration reduces the error by a fortieth.
type refinement struct {
	x    []float64 // as of the last exchange
	next []float64 // this rank's part, then the parts of all
}

const diagonal = 2.05

// iterate computes this rank's share of the unknowns, exchanges, and returns the largest change of any unknown.
// Shares follow from rank and size, so a smaller communicator has larger ones.
func (r *refinement) iterate(c *banyan.Comm) (norm float64, err error) {
	n := len(r.x)
	at := func(i int) float64 { // zero beyond the ends
		if i < 0 || i >= n {
			return 0
		}
		return r.x[i]
	}
	change := []float64{0}
	clear(r.next)
	for i := n * c.Rank() / c.Size(); i < n*(c.Rank()+1)/c.Size(); i++ {
		b := diagonal
		if i > 0 {
			b--
		}
		if i < n-1 {
			b--
		}
		r.next[i] = (b + at(i-1) + at(i+1)) / diagonal
		change[0] = max(change[0], math.Abs(r.next[i]-r.x[i]))
	}
	if err := banyan.Allreduce(c, r.next, r.next, banyan.Sum); err != nil { // the shares of others are zero here
		return 0, err // and x is unchanged
	}
	r.x, r.next = r.next, r.x
	err = banyan.Allreduce(c, change, change, banyan.Max)
	return change[0], err
}

func (r *refinement) err() (largest float64) {
	for _, x := range r.x {
		largest = max(largest, math.Abs(x-1))
	}
	return largest
}
