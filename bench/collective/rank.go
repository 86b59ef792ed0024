package collective

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/bench/ranks"
)

// contestant is a line at this rank.
type contestant struct {
	c *banyan.Comm
	// living are the ranks of c that live, in their order.
	living []int
	run    operation
	times  *Times // of the rank that speaks for all
}

// side is this rank's part in a measurement.
type side struct {
	o      Options
	w      *banyan.World
	living *banyan.Comm
	lines  []contestant
	result Result
	out    io.Writer
	fate   fate // of those who die during operations
}

// Rank is what each rank of a job does that Measure has started; rank 0 writes what the harness is to know
// to out, a line at a time. A victim does not return.
func Rank(w *banyan.World, o Options, out io.Writer) error { return rank(w, o, out, ranks.KillSelf) }

// rank is Rank where victims end themselves by die.
func rank(w *banyan.World, o Options, out io.Writer, die func() error) error {
	o.Ranks = w.Comm().Size()
	if err := o.Check(); err != nil {
		return err
	}
	s := &side{o: o, w: w, out: out, result: Result{Options: o}}
	if err := s.prepare(die); err != nil {
		return fmt.Errorf("fault %s: %w", o.Op, err)
	}
	for number := range o.Sets + 1 { // the first makes connections
		if err := s.round(number); err != nil {
			return fmt.Errorf("fault %s: set %d: %w", o.Op, number, err)
		}
	}
	if s.living.Rank() != 0 {
		return nil
	}
	return ranks.Tell(out, &s.result)
}

// prepare makes a communicator for each line: the fault-aware ones before the deaths, to be validated, the
// baselines from those who live.
func (s *side) prepare(die func() error) error {
	lines := s.o.Lines()
	s.lines = make([]contestant, len(lines))
	s.result.Lines = make([]Times, len(lines))
	var aware []*banyan.Comm
	for i, l := range lines {
		s.result.Lines[i].Line = l
		if l.Baseline() {
			continue
		}
		c, err := s.w.Comm().Dup()
		if err != nil {
			return err
		}
		if err := choose(c, l); err != nil {
			return err
		}
		s.lines[i].c = c
		aware = append(aware, c)
	}
	dead := s.o.Kill.Victims(s.o.Ranks, s.o.Failures)
	var err error
	if s.living, err = ranks.Lose(s.w.Comm(), dead, die); err != nil {
		return err
	}
	if err := s.validate(aware); err != nil {
		return err
	}
	for i, l := range lines {
		if err := s.complete(i, l, dead); err != nil {
			return err
		}
	}
	return nil
}

// validate makes collectives possible again where ranks have died.
func (s *side) validate(comms []*banyan.Comm) error {
	if len(comms) == 0 {
		return nil
	}
	failed, err := banyan.ValidateMultiple(comms...)
	if err != nil {
		return err
	}
	for i, g := range failed {
		if g.Size() != s.o.Failures {
			return fmt.Errorf("validate of %s has found %d failures, want %d", comms[i].Name(), g.Size(), s.o.Failures)
		}
	}
	return nil
}

// complete gives a line what it lacks when the dead are known.
func (s *side) complete(i int, l Line, dead []int) error {
	at := &s.lines[i]
	if l.Baseline() {
		c, err := s.living.Dup()
		if err != nil {
			return err
		}
		if err := choose(c, l); err != nil {
			return err
		}
		at.c, dead = c, nil
	}
	for r := range at.c.Size() {
		if !slices.Contains(dead, r) {
			at.living = append(at.living, r)
		}
	}
	at.times = &s.result.Lines[i]
	at.run = s.operation(at)
	return nil
}

// round measures a set of each line. What is beside whom changes: the order turns, and every other
// time it is the reverse.
func (s *side) round(number int) error {
	n := len(s.lines)
	for k := range n {
		i := (number/2 + k) % n
		if number%2 == 1 {
			i = (number/2 + n - 1 - k) % n
		}
		at := &s.lines[i]
		each, err := s.set(at, number == 0)
		if err != nil {
			return fmt.Errorf("%s, %s: %w", at.times.Design, at.times.Tree, err)
		}
		if number > 0 {
			at.times.Sets = append(at.times.Sets, each)
		}
	}
	if number == 0 || s.living.Rank() != 0 {
		return nil
	}
	return ranks.Step(s.out, number)
}

// set carries out a set and gives the time of one operation, in ns, at the rank that takes longest. Results are
// looked at where nothing is timed.
func (s *side) set(at *contestant, look bool) (float64, error) {
	if err := s.living.Barrier(); err != nil {
		return 0, err
	}
	begun := s.w.Now()
	for i := range s.o.Calls {
		if look {
			at.run.fill(i)
		}
		if err := at.run.do(i); err != nil {
			return 0, err
		}
		if look && !at.run.right(i) {
			return 0, fmt.Errorf("operation %d: %w", i, errWrong)
		}
	}
	longest := []time.Duration{s.w.Now() - begun}
	if err := banyan.Allreduce(s.living, longest, banyan.Max); err != nil {
		return 0, err
	}
	return float64(longest[0]) / float64(s.o.Calls), nil
}

var errWrong = errors.New("it has succeeded with wrong data")
