package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/bench/fault"
	"github.com/banyan-hpc/banyan/bench/peers"
)

// mendCmd is one rank of a job that times recovery as bench/peers/mpi/ulfm.c does.
type mendCmd struct{ meetCmd }

// mostMade is how many communicators a block makes.
const mostMade = 50

func (c *mendCmd) Run() error { return c.each(c.time) }

// time calls one operation again and again.
func (c *mendCmd) time(w *banyan.World, op peers.Collective) error {
	comm := w.Comm()
	most := int64(math.MaxInt64)
	if op.Op == "shrink" || op.Op == "revoke" {
		most = mostMade
	}
	var ns float64
	_, err := c.fill(comm, most, func(calls int64) (err error) {
		ns, err = recoveryTime(comm, op.Op, int(calls))
		return err
	})
	if err != nil || comm.Rank() != 0 {
		return err
	}
	return noteTime(c.File, op, ns)
}

// recoveryTime computes the value in the line of an operation, of so many calls: the mean over calls and ranks, of
// revoke the median.
func recoveryTime(comm *banyan.Comm, op string, calls int) (float64, error) {
	if op != "revoke" {
		mine, err := recoveryBlock(comm, op, calls)
		if err != nil {
			return 0, err
		}
		sum := []float64{float64(mine)}
		err = banyan.Allreduce(comm, sum, sum, banyan.Sum)
		return sum[0] / float64(comm.Size()) / float64(calls), err
	}
	took := make([]time.Duration, calls)
	for i := range took {
		var err error
		if took[i], err = fault.Revocation(comm, i%comm.Size(), 200*time.Microsecond); err != nil {
			return 0, err
		}
	}
	slices.Sort(took)
	return float64(took[calls/2]), nil
}

// recoveryBlock gives the time of this rank in so many calls, one after the other.
func recoveryBlock(comm *banyan.Comm, op string, calls int) (took time.Duration, err error) {
	made := make([]*banyan.Comm, 0, mostMade)
	do, known := map[string]func() error{
		"barrier": comm.Barrier,
		"agree":   func() error { _, err := comm.Agree(1); return err },
		"shrink": func() error {
			c, err := comm.Shrink()
			made = append(made, c)
			return err
		},
	}[op]
	if !known {
		return 0, fmt.Errorf("there is no operation %q", op)
	}
	if err := comm.Barrier(); err != nil {
		return 0, err
	}
	begin := time.Now()
	for range calls {
		if err := do(); err != nil {
			return 0, err
		}
	}
	took = time.Since(begin)
	var errs []error
	for _, c := range made {
		errs = append(errs, c.Free())
	}
	return took, errors.Join(errs...)
}
