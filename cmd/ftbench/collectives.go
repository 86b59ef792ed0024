package main

import (
	"fmt"
	"math"
	"os"
	"time"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/bench/peers"
)

// meetCmd is one rank of a job that times collectives as bench/peers/mpi/coll.c does.
type meetCmd struct {
	File  string   `arg:"" help:"To which rank 0 appends the times."`
	Each  float64  `arg:"" help:"Milliseconds for each operation."`
	Calls []string `arg:"" help:"OPERATION:BYTES."`
}

// Run times them.
func (c *meetCmd) Run() error { return c.each(c.time) }

// each has an operation after the other timed.
func (c *meetCmd) each(time func(*banyan.Comm, peers.Collective) error) error {
	return inJob(true, func(w *banyan.World) error {
		for _, text := range c.Calls {
			op, err := peers.ParseCollective(text)
			if err != nil {
				return err
			}
			if err := time(w.Comm(), op); err != nil {
				return fmt.Errorf("%v: %w", op, err)
			}
		}
		return nil
	})
}

// time calls one operation again and again.
func (c *meetCmd) time(comm *banyan.Comm, op peers.Collective) error {
	do, err := collectiveCall(comm, op)
	if err != nil {
		return err
	}
	var mine time.Duration
	block := func(calls int64) error {
		mine, err = spend(comm, do, calls)
		return err
	}
	calls, err := c.fill(comm, math.MaxInt64, block)
	if err != nil {
		return err
	}
	sum := []float64{float64(mine)}
	if err := banyan.Allreduce(comm, sum, sum, banyan.Sum); err != nil || comm.Rank() != 0 {
		return err
	}
	return noteTime(c.File, op, sum[0]/float64(calls)/float64(comm.Size()))
}

// fill calls a block that takes about as long as is asked for, and says of how many calls that is. What it takes is found by blocks that grow, of
// which the first does not count: connections are made there.
func (c *meetCmd) fill(comm *banyan.Comm, most int64, block func(calls int64) error) (int64, error) {
	const first = 20
	if err := block(first); err != nil {
		return 0, err
	}
	for calls := int64(first); ; calls *= 4 {
		begin := time.Now()
		if err := block(min(calls, most)); err != nil {
			return 0, err
		}
		share := []float64{float64(time.Since(begin)) / (1e6 * c.Each)}
		if err := banyan.Bcast(comm, share, 0); err != nil {
			return 0, err
		}
		if share[0] > 1./8 || calls >= most {
			calls = min(most, int64(float64(calls)/share[0])+1)
			return calls, block(calls)
		}
	}
}

// noteTime appends the nanoseconds of an operation to a file.
func noteTime(file string, op peers.Collective, ns float64) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = fmt.Fprintf(f, "%s %d %.1f\n", op.Op, op.Bytes, ns)
	return err
}

// spend gives the time that this rank spends in so many calls; the barriers between them do not count.
func spend(comm *banyan.Comm, do func() error, calls int64) (sum time.Duration, err error) {
	for range calls {
		begin := time.Now()
		if err := do(); err != nil {
			return 0, err
		}
		sum += time.Since(begin)
		if err := comm.Barrier(); err != nil {
			return 0, err
		}
	}
	return sum, nil
}

// collectiveCall is one call of an operation, in place.
func collectiveCall(comm *banyan.Comm, op peers.Collective) (func() error, error) {
	buf := make([]byte, op.Bytes)
	switch op.Op {
	case "barrier":
		return comm.Barrier, nil
	case "bcast":
		return func() error { return comm.Bcast(buf, 0) }, nil
	case "allreduce":
		data := make([]float64, op.Bytes/8) // zeros, and so they remain
		return func() error { return banyan.Allreduce(comm, data, data, banyan.Sum) }, nil
	}
	return nil, fmt.Errorf("there is no operation %q", op.Op)
}
