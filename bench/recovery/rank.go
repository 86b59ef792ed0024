package recovery

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/bench/ranks"
	"github.com/banyan-hpc/banyan/internal/warm"
)

// side is this rank's part in a measurement.
type side struct {
	o      Options
	all    *banyan.Comm // of everybody, the dead included
	living *banyan.Comm
	result Result // of the lowest rank that lives
	calls  times
	base   times
	took   []byte // by the calls of a block: of all ranks, used again
	out    io.Writer
}

// Rank is what each rank of a job does that Measure has started; the lowest that lives writes what the harness is to know
// to out, a line at a time. A victim does not return.
func Rank(w *banyan.World, o Options, out io.Writer) error {
	o.Ranks = w.Comm().Size()
	if err := o.Check(); err != nil {
		return err
	}
	s := &side{o: o, all: w.Comm(), out: out, calls: newTimes(), base: newTimes()}
	s.result.Options, s.result.Against = o, o.Against()
	var err error
	if s.living, err = ranks.Lose(s.all, victims(o.Ranks, o.Failures), ranks.KillSelf); err != nil {
		return fmt.Errorf("fault %s: %w", o.Op, err)
	}
	measure := s.round
	if o.Op == Revoke {
		measure = s.revocation
	}
	// Those who have run for a while have no garbage of their start, and use memory again. Linux before 5.14 refuses.
	runtime.GC()
	_, _ = warm.Heap()
	for i := range o.Rounds + 1 { // the first makes connections
		if err := measure(i); err != nil {
			return fmt.Errorf("fault %s: round %d: %w", o.Op, i, err)
		}
	}
	if s.living.Rank() != 0 {
		return nil
	}
	s.result.Calls, s.result.Baseline = s.calls.spread(), s.base.spread()
	return ranks.Tell(out, &s.result)
}

// operation is something that is measured.
type operation struct {
	do func() error
	// clear gives back, after the block, what the calls have made; may be nil.
	clear func() error
}

// pair gives the operation and what it is compared with.
func (s *side) pair() (op, base operation) {
	agree := func(c *banyan.Comm) operation {
		return operation{do: func() error { _, err := c.Agree(1); return err }}
	}
	switch {
	case s.o.Op == Shrink:
		return s.shrink(), agree(s.all)
	case s.o.Failures > 0:
		return agree(s.all), agree(s.living)
	}
	return agree(s.all), operation{do: func() error { return reduceBcast(s.all) }}
}

func (s *side) shrink() operation {
	var made []*banyan.Comm
	return operation{
		do: func() error {
			c, err := s.all.Shrink()
			if err == nil && c.Size() != s.living.Size() {
				err = fmt.Errorf("%d ranks are left, want %d", c.Size(), s.living.Size())
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

// reduceBcast folds one integer of each rank by AND and gives all the result, by messages
// along a binomial tree: rank r has the children r+2^i below its lowest bit.
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

// round measures a block of each.
func (s *side) round(number int) error {
	op, base := s.pair()
	var mean, other time.Duration
	first, second := func() (err error) { mean, err = s.block(op, s.calls, number > 0); return err },
		func() (err error) { other, err = s.block(base, s.base, number > 0); return err }
	if number%2 == 1 {
		first, second = second, first
	}
	if err := first(); err != nil {
		return err
	}
	if err := second(); err != nil {
		return err
	}
	return s.note(number, mean, other)
}

// block calls an operation again and again and gives the mean time of a call over all ranks.
func (s *side) block(op operation, into times, counts bool) (time.Duration, error) {
	if s.took == nil {
		s.took = make([]byte, 8*s.o.Calls*s.living.Size())
	}
	all := s.took
	mine := all[8*s.o.Calls*s.living.Rank():][:8*s.o.Calls]
	if err := s.living.Barrier(); err != nil {
		return 0, err
	}
	last := time.Now()
	for i := range s.o.Calls + 1 {
		if err := op.do(); err != nil {
			return 0, err
		}
		now := time.Now()
		if i > 0 { // others have entered the first one later
			binary.LittleEndian.PutUint64(mine[8*(i-1):], uint64(now.Sub(last)))
		}
		last = now
	}
	if op.clear != nil {
		if err := op.clear(); err != nil {
			return 0, err
		}
	}
	return s.gather(mine, all, into, counts)
}

// gather puts the times of all ranks together and gives their mean.
func (s *side) gather(mine, all []byte, into times, counts bool) (time.Duration, error) {
	if err := s.living.AllgatherBytes(mine, all); err != nil {
		return 0, err
	}
	var sum int64
	for at := 0; at < len(all); at += 8 {
		ns := int64(binary.LittleEndian.Uint64(all[at:]))
		sum += ns
		if counts {
			into.add(ns)
		}
	}
	return time.Duration(sum / int64(len(all)/8)), nil
}

// note keeps what a round has measured; that of the first does not count.
func (s *side) note(number int, mean, base time.Duration) error {
	if number == 0 || s.living.Rank() != 0 {
		return nil
	}
	r := &s.result
	r.Times, r.BaselineTimes = append(r.Times, mean), append(r.BaselineTimes, base)
	r.Ratios = append(r.Ratios, float64(mean)/float64(max(1, base)))
	return ranks.Step(s.out, number)
}
