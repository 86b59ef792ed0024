package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/bench/osu"
	"github.com/banyan-hpc/banyan/bench/peers"
)

// meetCmd is one rank of a job that times collectives as bench/peers/mpi/coll.c does.
type meetCmd struct {
	File  string   `arg:"" help:"To which rank 0 appends the times."`
	Each  float64  `arg:"" help:"Milliseconds for each operation."`
	Calls []string `arg:"" help:"OPERATION:BYTES[:rewritten]."`
}

func (c *meetCmd) Run() error { return c.each(c.time) }

// each has an operation after the other timed.
func (c *meetCmd) each(time func(*banyan.World, peers.Collective) error) error {
	return inJob(true, func(w *banyan.World) error {
		for _, text := range c.Calls {
			op, err := peers.ParseCollective(text)
			if err != nil {
				return err
			}
			if err := time(w, op); err != nil {
				return fmt.Errorf("%v: %w", op, err)
			}
		}
		return nil
	})
}

// time calls one operation again and again.
func (c *meetCmd) time(w *banyan.World, op peers.Collective) error {
	bench, comm := osu.Find(op.Op), w.Comm()
	if bench == nil || !bench.Collective {
		return fmt.Errorf("there is no operation %q", op.Op)
	}
	trial, err := bench.Trial(w, op.Bytes)
	if err != nil {
		return err
	}
	var mine, longest time.Duration
	calls, err := c.fill(comm, math.MaxInt64, func(calls int64) (err error) {
		mine, longest, err = spend(comm, trial, op.Rewritten, calls)
		return err
	})
	if err = errors.Join(err, trial.Free()); err != nil {
		return err
	}
	sum, most := []float64{float64(mine)}, []float64{float64(longest)}
	err = cmp.Or(banyan.Allreduce(comm, sum, sum, banyan.Sum), banyan.Allreduce(comm, most, most, banyan.Max))
	if err != nil || comm.Rank() != 0 {
		return err
	}
	return noteTime(c.File, op, sum[0]/float64(calls)/float64(comm.Size()), most[0])
}

// fill calls a block that takes about the requested time, and returns its number of calls. It finds that number by
// growing blocks. The first of them does not count: it makes the connections.
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

// noteTime appends the nanoseconds of an operation, and those of its longest call where they are known, to a file.
func noteTime(file string, op peers.Collective, ns ...float64) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	line := fmt.Sprint(op.Op, " ", op.Bytes)
	for _, v := range ns {
		line += fmt.Sprintf(" %.1f", v)
	}
	_, err = fmt.Fprintln(f, line)
	return err
}

// spend gives the time that this rank spends in so many calls, and in the longest; the barriers between them do not
// count.
func spend(comm *banyan.Comm, trial *osu.Trial, rewritten bool, calls int64) (sum, longest time.Duration, err error) {
	for i := range calls {
		if rewritten {
			trial.Rewrite(byte(i))
		}
		if err := comm.Barrier(); err != nil {
			return 0, 0, err
		}
		begin := time.Now()
		if err := trial.Call(); err != nil {
			return 0, 0, err
		}
		took := time.Since(begin)
		sum += took
		longest = max(longest, took)
	}
	return sum, longest, nil
}
