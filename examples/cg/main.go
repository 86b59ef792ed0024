// Command cg solves the Laplace equation on a square grid by conjugate gradients. When ranks die,
// the others distribute the rows again and continue from the last checkpoint, of which each rank has
// a copy.
//
//	go build -o bin/ ./examples/cg && bin/ftbench run -n 4 --exit survivors -- bin/cg -kill 2
package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"syscall"

	"github.com/banyan-hpc/banyan"
)

const (
	tolerance = 1e-9
	every     = 25 // iterations from one checkpoint to the next
)

var (
	side = flag.Int("side", 100, "the grid has so many rows of as many points")
	kill = flag.Int("kill", 0, "so many ranks kill themselves, one after the other, in the middle")
)

func main() {
	flag.Parse()
	banyan.Run(work)
}

func work(w *banyan.World) error {
	if *side < w.Comm().Size() {
		return fmt.Errorf("cg: %d rows for %d ranks: each needs one", *side, w.Comm().Size())
	}
	s := &solver{c: w.Comm(), keep: w.Comm().Size() - *kill, saved: make([]float64, *side**side)}
	for recoveries := 0; ; recoveries++ {
		ok := uint64(1)
		if err := s.solve(); banyan.IsFailure(err) {
			ok, _ = 0, s.c.Revoke() // ends the operations of ranks that wait for living ones
		} else if err != nil {
			return err
		}
		all, err := s.c.Agree(ok)
		if err == nil && all == 1 {
			return s.check(w.Comm().Size(), recoveries)
		}
		if s.c, err = s.c.Shrink(); err != nil {
			return err
		}
	}
}

type solver struct {
	c          *banyan.Comm
	keep       int       // ranks that do not kill themselves
	saved      []float64 // the whole solution at the last checkpoint, at each rank
	iterations int       // of this rank, including those that failures have undone
}

// check compares the solution with the exact one.
func (s *solver) check(ranks, recoveries int) error {
	worst := max(slices.Max(s.saved)-1, 1-slices.Min(s.saved))
	if s.c.Rank() == 0 {
		fmt.Printf("solved by %d of %d ranks in %d iterations, %d recoveries, largest error %.0e\n",
			s.c.Size(), ranks, s.iterations, recoveries, worst)
	}
	if !(worst < 1e-6) { // also if it is not a number
		return fmt.Errorf("cg: the largest error is %g", worst)
	}
	return nil
}

// solve iterates from the checkpoint of rank 0, since a rank that met a failure earlier may have an older
// one. A rank has the rows lo to hi of each vector, and one more row on either side for those of the
// neighbours.
func (s *solver) solve() error {
	if err := banyan.Bcast(s.c, s.saved, 0); err != nil {
		return err // saved may have parts of two checkpoints now: the iteration can start from any values
	}
	n, size, rank := *side, s.c.Size(), s.c.Rank()
	lo, hi := n*rank/size, n*(rank+1)/size
	part := func() []float64 { return make([]float64, (hi-lo+2)*n) }
	x, r, p, q := part(), part(), part(), part()
	own := func(v []float64) []float64 { return v[n : len(v)-n] }

	// The right side is the matrix times 1 everywhere, so that the solution is 1.
	for i := range x {
		if row := lo - 1 + i/n; row >= 0 && row < n {
			x[i], p[i] = s.saved[row*n+i%n], 1
		}
	}
	multiply(r, p)
	multiply(q, x)
	for i := range own(r) {
		own(r)[i] -= own(q)[i]
	}
	clear(p)
	copy(own(p), own(r))
	rr, err := s.dot(own(r), own(r))
	for k := 1; err == nil && rr > tolerance*tolerance; k++ {
		s.iterations++
		if k == 2*every && rank == size-1 && size > s.keep {
			return syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		if err = s.exchange(p); err != nil {
			return err
		}
		multiply(q, p)
		pq, err := s.dot(own(p), own(q))
		if err != nil {
			return err
		}
		step := rr / pq
		for i := range own(x) {
			own(x)[i] += step * own(p)[i]
			own(r)[i] -= step * own(q)[i]
		}
		next, err := s.dot(own(r), own(r))
		if err != nil {
			return err
		}
		for i := range own(p) {
			own(p)[i] = own(r)[i] + next/rr*own(p)[i]
		}
		if rr = next; k%every == 0 || rr <= tolerance*tolerance {
			if err := s.checkpoint(own(x), lo); err != nil {
				return err
			}
		}
	}
	return err
}

// checkpoint stores the whole solution at all ranks: a sum in which each rank contributes its rows,
// and zeros elsewhere.
func (s *solver) checkpoint(mine []float64, lo int) error {
	whole, sum := make([]float64, len(s.saved)), make([]float64, len(s.saved))
	copy(whole[lo**side:], mine)
	err := banyan.Allreduce(s.c, whole, sum, banyan.Sum)
	if err == nil {
		s.saved = sum
	}
	return err
}

// exchange gets the rows of the neighbours.
func (s *solver) exchange(v []float64) error {
	n, end, above, below := *side, len(v)-*side, s.c.Rank()-1, s.c.Rank()+1
	if above < 0 {
		above = banyan.ProcNull
	}
	if below == s.c.Size() {
		below = banyan.ProcNull
	}
	if _, err := banyan.Sendrecv(s.c, v[n:2*n], above, 0, v[end:], below, 0); err != nil {
		return err
	}
	_, err := banyan.Sendrecv(s.c, v[end-n:end], below, 1, v[:n], above, 1)
	return err
}

// multiply multiplies a vector by the matrix: each point four times, less its neighbours.
func multiply(to, v []float64) {
	n := *side
	for i := n; i < len(v)-n; i++ {
		to[i] = 4*v[i] - v[i-n] - v[i+n]
		if i%n > 0 {
			to[i] -= v[i-1]
		}
		if i%n < n-1 {
			to[i] -= v[i+1]
		}
	}
}

// dot is the scalar product over all ranks.
func (s *solver) dot(a, b []float64) (float64, error) {
	sum := 0.0
	for i := range a {
		sum += a[i] * b[i]
	}
	return banyan.AllreduceValue(s.c, sum, banyan.Sum)
}
