package fault

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/bench/budget"
	"github.com/banyan-hpc/banyan/bench/stats"
	"github.com/banyan-hpc/banyan/internal/warm"
)

// recoveryRank is this rank's part in a measurement.
type recoveryRank struct {
	o      Recovery
	all    *banyan.Comm // of all ranks, failed ones included
	living *banyan.Comm
	result RecoveryResult // at the lowest surviving rank
	calls  *stats.Histogram
	base   *stats.Histogram
	took   []byte // the times of a block's calls at all ranks; reused
	out    io.Writer
}

// Rank is the part of each rank of a job that [Recovery.Measure] has started. The lowest survivor
// writes its reports to out. A victim does not return.
func (o Recovery) Rank(w *banyan.World, out io.Writer) error {
	o.Ranks = w.Comm().Size()
	if err := o.Check(); err != nil {
		return err
	}
	r := &recoveryRank{o: o, all: w.Comm(), out: out, calls: stats.NewHistogram(), base: stats.NewHistogram()}
	r.result.Options, r.result.Against = o, o.Against()
	var err error
	if r.living, err = loseRanks(r.all, o.victims(), killSelf); err != nil {
		return fmt.Errorf("fault %s: %w", o.Op, err)
	}
	measure := r.round
	if o.Op == Revoke {
		measure = r.revocation
	}
	// As in a process that has run for a while: no garbage from the start, and mapped memory. Linux
	// before 5.14 refuses to map it.
	runtime.GC()
	_, _ = warm.Heap()
	for i := range o.Rounds + 1 { // the first makes the connections
		err := measure(i)
		if errors.Is(err, budget.ErrOver) {
			r.result.Cut = o.Budget.Cut(max(0, i-1), o.Rounds, "rounds")
			break
		}
		if err != nil {
			return fmt.Errorf("fault %s: round %d: %w", o.Op, i, err)
		}
	}
	if r.living.Rank() != 0 {
		return nil
	}
	r.result.Calls, r.result.Baseline = r.calls.Spread(), r.base.Spread()
	return reportResult(out, &r.result)
}

// call is a measured call.
type call struct {
	do func() error
	// clear frees, after the block, the communicators that the calls have made; may be nil.
	clear func() error
}

// pair returns the operation and its baseline.
func (r *recoveryRank) pair() (op, base call) {
	agree := func(c *banyan.Comm) call {
		return call{do: func() error { _, err := c.Agree(1); return err }}
	}
	switch {
	case r.o.Op == Shrink:
		return r.shrink(), agree(r.all)
	case r.o.Failures > 0:
		return agree(r.all), agree(r.living)
	}
	return agree(r.all), call{do: func() error { return reduceBcast(r.all) }}
}

func (r *recoveryRank) shrink() call {
	var made []*banyan.Comm
	return call{
		do: func() error {
			c, err := r.all.Shrink()
			if err == nil && c.Size() != r.living.Size() {
				err = fmt.Errorf("%d ranks remain, want %d", c.Size(), r.living.Size())
			}
			made = append(made, c)
			return err
		},
		clear: func() error {
			var errs []error
			for _, c := range made {
				errs = append(errs, c.Free())
			}
			made = made[:0]
			return errors.Join(errs...)
		},
	}
}

// reduceBcast reduces one integer of each rank by AND and broadcasts the result, in messages along a
// binomial tree: rank r has the children r+2^i below its lowest bit.
func reduceBcast(c *banyan.Comm) error {
	const tag = 1
	var value, in [4]byte
	n, me := c.Size(), c.Rank()
	bit := 1
	for ; bit < n && me&bit == 0; bit *= 2 {
		if me+bit >= n {
			continue
		}
		if _, err := c.Recv(in[:], me+bit, tag); err != nil {
			return err
		}
		binary.LittleEndian.PutUint32(value[:], binary.LittleEndian.Uint32(value[:])&binary.LittleEndian.Uint32(in[:]))
	}
	if me != 0 {
		if err := c.Send(value[:], me-bit, tag); err != nil {
			return err
		}
		if _, err := c.Recv(value[:], me-bit, tag); err != nil {
			return err
		}
	}
	for bit /= 2; bit > 0; bit /= 2 {
		if me+bit < n {
			if err := c.Send(value[:], me+bit, tag); err != nil {
				return err
			}
		}
	}
	return nil
}

// round measures a block of each, in an order that alternates.
func (r *recoveryRank) round(number int) error {
	op, base := r.pair()
	var mean, other time.Duration
	first := func() (err error) { mean, err = r.block(op, r.calls, number > 0); return err }
	second := func() (err error) { other, err = r.block(base, r.base, number > 0); return err }
	if number%2 == 1 {
		first, second = second, first
	}
	if err := first(); err != nil {
		return err
	}
	if err := second(); err != nil {
		return err
	}
	return r.keep(number, mean, other)
}

// block repeats a call and returns its mean time over all ranks.
func (r *recoveryRank) block(op call, into *stats.Histogram, counts bool) (time.Duration, error) {
	if err := stopped(r.o.Budget, r.living); err != nil {
		return 0, err
	}
	if r.took == nil {
		r.took = make([]byte, 8*r.o.Calls*r.living.Size())
	}
	mine := r.took[8*r.o.Calls*r.living.Rank():][:8*r.o.Calls]
	if err := r.living.Barrier(); err != nil {
		return 0, err
	}
	last := time.Now()
	for i := range r.o.Calls + 1 {
		if err := op.do(); err != nil {
			return 0, err
		}
		now := time.Now()
		if i > 0 { // other ranks enter the first call later
			binary.LittleEndian.PutUint64(mine[8*(i-1):], uint64(now.Sub(last)))
		}
		last = now
	}
	if op.clear != nil {
		if err := op.clear(); err != nil {
			return 0, err
		}
	}
	return r.gather(mine, into, counts)
}

// gather collects the times of all ranks and returns their mean.
func (r *recoveryRank) gather(mine []byte, into *stats.Histogram, counts bool) (time.Duration, error) {
	all := r.took
	if err := r.living.Allgather(mine, all); err != nil {
		return 0, err
	}
	var sum time.Duration
	for at := 0; at < len(all); at += 8 {
		d := time.Duration(binary.LittleEndian.Uint64(all[at:]))
		sum += d
		if counts {
			into.Add(d)
		}
	}
	return sum / time.Duration(len(all)/8), nil
}

// keep stores the times of a round; the first does not count.
func (r *recoveryRank) keep(number int, mean, base time.Duration) error {
	if number == 0 || r.living.Rank() != 0 {
		return nil
	}
	to := &r.result
	to.Times, to.BaselineTimes = append(to.Times, mean), append(to.BaselineTimes, base)
	to.Ratios = append(to.Ratios, float64(mean)/float64(max(1, base)))
	return reportStep(r.out, number)
}
