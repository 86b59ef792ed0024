package fault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/banyan-hpc/banyan"
)

// Death is a failure during an operation, unknown until then.
type Death struct {
	// Number counts the deaths of a job from 0.
	Number int  `json:"number"`
	Rank   int  `json:"rank"`
	Line   Line `json:"line"`
	// Told is the time from the kill until the operations of all survivors have returned the error,
	// Repaired until they have validated. In the corrected design, which has no error and needs no validate, both are
	// the time until all have completed the first operation without the victim.
	Told     time.Duration `json:"told_ns"`
	Repaired time.Duration `json:"repaired_ns"`
}

// deathNote is a report about a death: from the victim when it dies, then from rank 0. Times are
// those of the common clock of all ranks, in ns.
type deathNote struct {
	Number   int   `json:"number"`
	Died     int64 `json:"died,omitempty"`
	Told     int64 `json:"told,omitempty"`
	Repaired int64 `json:"repaired,omitempty"`
	// Ends are the times at which operations of the corrected design had ended at all, in their order.
	Ends []int64 `json:"ends,omitempty"`
}

// MeasureUnknown runs one job whose victims die one after another, each while all ranks are in
// operations of one of the fault-aware lines, in turn from first on. The ranks call
// [Collective.RankUnknown]. It calls step, which may be nil, after each death.
func (o Collective) MeasureUnknown(ctx context.Context, first int, start Start, rest io.Writer, step func()) (
	[]Death, error,
) {
	if err := o.CheckUnknown(); err != nil {
		return nil, err
	}
	lines, victims := o.aware(), o.victims()
	deaths, died, ends := make([]Death, len(victims)), make([]int64, len(victims)), make([][]int64, len(victims))
	for i, rank := range victims {
		deaths[i] = Death{Number: i, Rank: rank, Line: lines[(first+i)%len(lines)]}
	}
	note := func(text json.RawMessage) error {
		var n deathNote
		if err := json.Unmarshal(text, &n); err != nil || n.Number < 0 || n.Number >= len(victims) {
			return fmt.Errorf("a rank's report of a death: %q", text)
		}
		if n.Died > 0 {
			died[n.Number] = n.Died
			return nil
		}
		deaths[n.Number].Told, deaths[n.Number].Repaired = time.Duration(n.Told), time.Duration(n.Repaired)
		ends[n.Number] = n.Ends
		return nil
	}
	j := job{ranks: o.Ranks, victims: victims, start: start, rest: rest, step: step, note: note}
	if _, err := resultOf[int](ctx, j); err != nil {
		return nil, fmt.Errorf("fault %s: %w", o.Op, err)
	}
	late := func(d Death) bool { return ends[d.Number] != nil && endAfter(ends[d.Number], died[d.Number]) == 0 }
	deaths = slices.DeleteFunc(deaths, late)
	for k := range deaths {
		d := &deaths[k]
		i := d.Number
		if ends[i] != nil {
			d.Told = time.Duration(endAfter(ends[i], died[i]))
			d.Repaired = d.Told
		}
		d.Told, d.Repaired = d.Told-time.Duration(died[i]), d.Repaired-time.Duration(died[i])
		if died[i] == 0 || d.Told <= 0 || d.Repaired < d.Told {
			return nil, fmt.Errorf("fault %s: death %d, of rank %d, was known after %v and repaired after %v",
				o.Op, i, d.Rank, d.Told, d.Repaired)
		}
	}
	return deaths, nil
}

// aware are the lines that survive a failure.
func (o *Collective) aware() []Line { return slices.DeleteFunc(o.Lines(), Line.Baseline) }

// CheckUnknown is Check for ranks that die during operations.
func (o *Collective) CheckUnknown() error {
	if err := o.Check(); err != nil {
		return err
	}
	if o.Failures < 1 {
		return fmt.Errorf("fault %s: --unknown with --failures %d: want at least one", o.Op, o.Failures)
	}
	if len(o.aware()) == 0 {
		return fmt.Errorf("fault %s: --unknown with --design %s: it would hang; want reroute, lookup, rebalance or corrected",
			o.Op, unaware)
	}
	return nil
}

// dying is how ranks die during operations, and by which clock.
type dying struct {
	// clock is one that all ranks share, in nanoseconds.
	clock func() (int64, error)
	// die has this rank die within a time, and calls note with the time before it does.
	die func(within time.Duration, note func(at int64) error)
}

// RankUnknown is the part of each rank of a job that [Collective.MeasureUnknown] has started. A victim
// does not return.
func (o Collective) RankUnknown(w *banyan.World, first int, out io.Writer) error {
	return o.rankUnknown(w, first, out, dying{
		clock: fastClock, die: func(within time.Duration, note func(int64) error) { go dieSoon(w, within, note) },
	})
}

// rankUnknown is RankUnknown with another way to die.
func (o Collective) rankUnknown(w *banyan.World, first int, out io.Writer, how dying) error {
	o.Ranks = w.Comm().Size()
	if err := o.CheckUnknown(); err != nil {
		return err
	}
	all, lines := w.Comm(), o.aware()
	r := &collectiveRank{o: o, w: w, out: out, living: all, dying: how, lines: make([]lineComm, len(lines))}
	comms := []*banyan.Comm{all}
	for i, l := range lines {
		c, err := dupFor(all, l)
		if err != nil {
			return err
		}
		comms = append(comms, c)
		r.lines[i] = lineComm{c: c, living: []int{0}, corrected: l.Corrected() && (o.Op == Barrier || o.Op == Bcast)}
		r.lines[i].run = r.operation(&r.lines[i])
	}
	for i, victim := range o.victims() {
		k := (first + i) % len(lines)
		if err := r.death(i, victim, &r.lines[k], comms); err != nil {
			// The others would wait for a death that does not come.
			w.Abort(1, fmt.Errorf("fault %s: death %d, %s: %w", o.Op, i, lines[k].Design, err))
		}
	}
	if all.Rank() != 0 {
		return nil
	}
	return reportResult(out, o.Failures)
}

// death has a rank die while all are in operations, and the others validate. The operations before it
// make the connections.
func (r *collectiveRank) death(number, victim int, at *lineComm, comms []*banyan.Comm) error {
	for i := range 3 {
		if err := at.run.do(i); err != nil {
			return err
		}
	}
	die := func(within time.Duration) {
		r.dying.die(within, func(at int64) error { return reportNote(r.out, deathNote{Number: number, Died: at}) })
	}
	var ends []int64
	var err error
	if at.corrected {
		ends, err = r.through(at, r.living, r.living.Rank() == victim, die)
	} else {
		err = r.untilError(at, victim, die)
	}
	told, cerr := r.dying.clock()
	if err = errors.Join(err, cerr); err != nil {
		return err
	}
	for known := 0; known <= number; { // a rank may not know of the failure yet
		failed, err := banyan.ValidateMultiple(comms...)
		if err != nil {
			return err
		}
		known = failed[0].Size()
	}
	repaired, err := r.dying.clock()
	if err != nil {
		return err
	}
	last := append([]int64{told, repaired}, ends...)
	if err := banyan.Allreduce(r.living, last, last, banyan.Max); err != nil {
		return err
	}
	if r.living.Rank() != 0 {
		return nil
	}
	if err := reportNote(r.out, deathNote{Number: number, Told: last[0], Repaired: last[1], Ends: last[2:]}); err != nil {
		return err
	}
	return reportStep(r.out, number+1)
}

// untilError has all do operations until they have the error of the death of a rank.
func (r *collectiveRank) untilError(at *lineComm, victim int, die func(time.Duration)) error {
	err := r.living.Barrier() // ends with the error too where the victim dies before its end
	if r.living.Rank() == victim {
		die(maxLife)
	}
	for i := 0; err == nil; i++ {
		err = at.run.do(i)
	}
	if !errors.Is(err, banyan.ErrProcFailed) {
		return err
	}
	return nil
}

// maxLife bounds the time from the start of operations to a victim's death.
const maxLife = 2 * time.Millisecond

// dieSoon ends this process at a random time. The report before the death takes some microseconds,
// which count as detection time.
func dieSoon(w *banyan.World, within time.Duration, note func(int64) error) {
	sleepInKernel(rand.N(within))
	at, err := fastClock()
	if err == nil {
		err = errors.Join(note(at), killSelf())
	}
	w.Abort(1, err)
}
