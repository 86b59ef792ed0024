package collective

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/bench/ranks"
)

// Death is what came of one that nobody knew of.
type Death struct {
	// Number counts the deaths of a job, from 0 on.
	Number int  `json:"number"`
	Rank   int  `json:"rank"`
	Line   Line `json:"line"`
	// Told is the time from the kill until the operations of all survivors have returned the error, Repaired until they have validated.
	Told     time.Duration `json:"told_ns"`
	Repaired time.Duration `json:"repaired_ns"`
}

// moment is what ranks say of a death: the victim when it dies, and for those who live rank 0. Times are of the
// clock that processes share.
type moment struct {
	Number   int   `json:"number"`
	Died     int64 `json:"died,omitempty"`
	Told     int64 `json:"told,omitempty"`
	Repaired int64 `json:"repaired,omitempty"`
}

// MeasureUnknown runs one job in which as many ranks as are to fail die one after another, each while all are in operations of one of
// the lines, which take turns from first on; start starts ranks of which each calls [RankUnknown]. Step is called after each death.
func MeasureUnknown(ctx context.Context, o Options, first int, start ranks.Start, rest io.Writer, step func()) ([]Death, error) {
	if err := o.CheckUnknown(); err != nil {
		return nil, err
	}
	lines, dead := o.aware(), o.Kill.Victims(o.Ranks, o.Failures)
	deaths, died := make([]Death, len(dead)), make([]int64, len(dead))
	for i, rank := range dead {
		deaths[i] = Death{Number: i, Rank: rank, Line: lines[(first+i)%len(lines)]}
	}
	job := ranks.Job{Ranks: o.Ranks, Dead: dead, Start: start, Rest: rest, Note: func(text json.RawMessage) error {
		var m moment
		if err := json.Unmarshal(text, &m); err != nil || m.Number < 0 || m.Number >= len(dead) {
			return fmt.Errorf("a rank says %q of a death", text)
		}
		if m.Died > 0 {
			died[m.Number] = m.Died
			return nil
		}
		deaths[m.Number].Told, deaths[m.Number].Repaired = time.Duration(m.Told), time.Duration(m.Repaired)
		return nil
	}}
	if _, err := ranks.Run[int](ctx, job, step); err != nil {
		return nil, fmt.Errorf("fault %s: %w", o.Op, err)
	}
	for i := range deaths {
		d := &deaths[i]
		d.Told, d.Repaired = d.Told-time.Duration(died[i]), d.Repaired-time.Duration(died[i])
		if died[i] == 0 || d.Told <= 0 || d.Repaired < d.Told {
			return nil, fmt.Errorf("fault %s: death %d, of rank %d, was told after %v and repaired after %v", o.Op, i, d.Rank, d.Told, d.Repaired)
		}
	}
	return deaths, nil
}

// aware are the lines that outlive a failure.
func (o *Options) aware() []Line {
	var out []Line
	for _, l := range o.Lines() {
		if !l.Baseline() {
			out = append(out, l)
		}
	}
	return out
}

// CheckUnknown finds what makes no sense where ranks die during operations.
func (o *Options) CheckUnknown() error {
	if err := o.Check(); err != nil {
		return err
	}
	if o.Failures < 1 {
		return fmt.Errorf("fault %s: --unknown with --failures %d: want at least one that nobody knows of", o.Op, o.Failures)
	}
	if len(o.aware()) == 0 {
		return fmt.Errorf("fault %s: --unknown with --design %s: it would hang; want reroute, lookup or rebalance", o.Op, unaware)
	}
	return nil
}

// RankUnknown is what each rank of a job does that MeasureUnknown has started. A victim does not return.
func RankUnknown(w *banyan.World, o Options, first int, out io.Writer) error {
	return rankUnknown(w, o, first, out, fate{clock: ranks.Clock, die: func(note func(int64) error) { go dieSoon(w, note) }})
}

// fate is how ranks die during operations, and by which clock.
type fate struct {
	// clock is one that all ranks share, in nanoseconds.
	clock func() (int64, error)
	// die has this rank die at a moment within the next so many operations of the others, and calls note with the time of that before.
	die func(note func(at int64) error)
}

// rankUnknown is RankUnknown where ranks die in a way of their own.
func rankUnknown(w *banyan.World, o Options, first int, out io.Writer, f fate) error {
	o.Ranks = w.Comm().Size()
	if err := o.CheckUnknown(); err != nil {
		return err
	}
	s := &side{o: o, w: w, out: out, fate: f}
	all, comms := w.Comm(), []*banyan.Comm{w.Comm()}
	for _, l := range o.aware() {
		c, err := all.Dup()
		if err != nil {
			return err
		}
		if err := choose(c, l); err != nil {
			return err
		}
		comms = append(comms, c)
		s.lines = append(s.lines, contestant{c: c, living: []int{0}})
	}
	s.living = all // after each validate it is
	for i := range s.lines {
		s.lines[i].run = s.operation(&s.lines[i])
	}
	for i, victim := range o.Kill.Victims(o.Ranks, o.Failures) {
		at := &s.lines[(first+i)%len(s.lines)]
		if err := s.death(i, victim, at, comms); err != nil {
			// The others wait for a death that would not come.
			w.Abort(1, fmt.Errorf("fault %s: death %d, %s: %w", o.Op, i, o.aware()[(first+i)%len(s.lines)].Design, err))
		}
	}
	if all.Rank() != 0 {
		return nil
	}
	return ranks.Tell(out, o.Failures)
}

// death has a rank die while all are in operations, and the others validate. The operations before it make the connections.
func (s *side) death(number, victim int, at *contestant, comms []*banyan.Comm) error {
	for i := range 3 {
		if err := at.run.do(i); err != nil {
			return err
		}
	}
	err := s.living.Barrier() // it ends with the error too where the victim is faster than the barrier
	if s.living.Rank() == victim {
		s.fate.die(func(at int64) error { return ranks.Note(s.out, moment{Number: number, Died: at}) })
	}
	for i := 0; err == nil; i++ {
		err = at.run.do(i)
	}
	told, cerr := s.fate.clock()
	if !errors.Is(err, banyan.ErrProcFailed) || cerr != nil {
		return errors.Join(err, cerr)
	}
	for known := 0; known <= number; { // some rank may not have seen it die
		failed, err := banyan.ValidateMultiple(comms...)
		if err != nil {
			return err
		}
		known = failed[0].Size()
	}
	repaired, err := s.fate.clock()
	if err != nil {
		return err
	}
	last := []int64{told, repaired}
	if err := banyan.Allreduce(s.living, last, banyan.Max); err != nil {
		return err
	}
	if s.living.Rank() != 0 {
		return nil
	}
	if err := ranks.Note(s.out, moment{Number: number, Told: last[0], Repaired: last[1]}); err != nil {
		return err
	}
	return ranks.Step(s.out, number+1)
}

// soon bounds for how long the operations of the others go on, after which a rank dies.
const soon = 2 * time.Millisecond

// dieSoon ends this process at a random time. It says when before it dies, so the time that saying takes, some microseconds, counts as if the others
// had not known.
func dieSoon(w *banyan.World, note func(int64) error) {
	ranks.Settle(rand.N(soon))
	at, err := ranks.Clock()
	if err == nil {
		err = errors.Join(note(at), ranks.KillSelf())
	}
	w.Abort(1, err)
}
