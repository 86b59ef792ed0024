package fault

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/bench/budget"
	"github.com/banyan-hpc/banyan/coll/tree"
)

// lineComm is a line at this rank.
type lineComm struct {
	c *banyan.Comm
	// living are the surviving ranks of c, in their order.
	living []int
	run    operation
	times  *Times // at the reporting rank
	// corrected: its operations go on through failures.
	corrected bool
}

// collectiveRank is this rank's part in a measurement.
type collectiveRank struct {
	o      Collective
	w      *banyan.World
	living *banyan.Comm
	lines  []lineComm
	result CollectiveResult
	out    io.Writer
	dying  dying // of the ranks that die during operations
	who    *survivors
}

// survivors are the failed and the living ranks of a measurement. The ranks of a simulated job share them.
type survivors struct {
	dead []int // in the order in which they are killed
	left []int // ascending
	all  []int // 0 … Ranks-1
}

func (o Collective) survivors() *survivors {
	s := &survivors{dead: o.victims(), all: make([]int, o.Ranks), left: make([]int, 0, o.Ranks-o.Failures)}
	dead := make([]bool, o.Ranks)
	for _, rank := range s.dead {
		dead[rank] = true
	}
	for rank := range s.all {
		if s.all[rank] = rank; !dead[rank] {
			s.left = append(s.left, rank)
		}
	}
	return s
}

// Rank is the part of each rank of a job that [Collective.Measure] has started. Rank 0 writes its
// reports to out. A victim does not return.
func (o Collective) Rank(w *banyan.World, out io.Writer) error {
	return o.rank(w, out, Collective.survivors, killSelf)
}

// rank is Rank with victims that end themselves by die; living returns the survivors.
func (o Collective) rank(w *banyan.World, out io.Writer, living func(Collective) *survivors, die func() error) error {
	o.Ranks = w.Comm().Size()
	if err := o.Check(); err != nil {
		return err
	}
	r := &collectiveRank{o: o, w: w, out: out, result: CollectiveResult{Options: o}, who: living(o)}
	if err := r.prepare(die); err != nil {
		return fmt.Errorf("fault %s: %w", o.Op, err)
	}
	for number := range o.Sets + 1 { // the first makes the connections
		err := r.round(number)
		if errors.Is(err, budget.ErrOver) {
			r.cut(max(0, number-1))
			break
		}
		if err != nil {
			return fmt.Errorf("fault %s: set %d: %w", o.Op, number, err)
		}
	}
	if r.living.Rank() != 0 {
		return nil
	}
	return reportResult(out, &r.result)
}

// dupFor duplicates a communicator for a line.
func dupFor(c *banyan.Comm, l Line) (*banyan.Comm, error) {
	design, err := tree.ParseDesign(l.Design)
	if err != nil {
		return nil, err
	}
	over, err := banyan.ParseTree(l.Tree)
	if err != nil {
		return nil, err
	}
	d, err := c.Dup()
	if err != nil {
		return nil, err
	}
	return d, errors.Join(d.SetDesign(design), d.SetTree(over))
}

// prepare makes a communicator for each line: the fault-aware ones before the failures, which they
// validate, the baselines from the survivors.
func (r *collectiveRank) prepare(die func() error) (err error) {
	lines := r.o.Lines()
	r.lines = make([]lineComm, len(lines))
	r.result.Lines = make([]Times, len(lines))
	var aware []*banyan.Comm
	for i, l := range lines {
		r.result.Lines[i].Line = l
		if l.Baseline() {
			continue
		}
		if r.lines[i].c, err = dupFor(r.w.Comm(), l); err != nil {
			return err
		}
		aware = append(aware, r.lines[i].c)
	}
	if r.living, err = loseRanks(r.w.Comm(), r.who.dead, die); err != nil {
		return err
	}
	if err := r.validate(aware); err != nil {
		return err
	}
	for i, l := range lines {
		at := &r.lines[i]
		at.living = r.who.left
		if l.Baseline() {
			if at.c, err = dupFor(r.living, l); err != nil {
				return err
			}
			at.living = r.who.all[:at.c.Size()]
		}
		at.times = &r.result.Lines[i]
		at.run = r.operation(at)
	}
	return nil
}

// validate makes collectives possible again after the failures.
func (r *collectiveRank) validate(comms []*banyan.Comm) error {
	if len(comms) == 0 {
		return nil
	}
	failed, err := banyan.ValidateMultiple(comms...)
	if err != nil {
		return err
	}
	for i, g := range failed {
		if g.Size() != r.o.Failures {
			return fmt.Errorf("validate of %s found %d failures, want %d", comms[i].Name(), g.Size(), r.o.Failures)
		}
	}
	return nil
}

// round measures a set of each line. The order rotates, and every other round it is reversed.
func (r *collectiveRank) round(number int) error {
	n := len(r.lines)
	for k := range n {
		i := (number/2 + k) % n
		if number%2 == 1 {
			i = (number/2 + n - 1 - k) % n
		}
		at := &r.lines[i]
		if err := stopped(r.o.Budget, r.living); err != nil {
			return err
		}
		each, err := r.set(at, number == 0)
		if err != nil {
			return fmt.Errorf("%s, %s: %w", at.times.Design, at.times.Tree, err)
		}
		if number > 0 {
			at.times.Sets = append(at.times.Sets, each)
		}
	}
	if number == 0 || r.living.Rank() != 0 {
		return nil
	}
	return reportStep(r.out, number)
}

// cut keeps the whole rounds.
func (r *collectiveRank) cut(rounds int) {
	r.result.Cut = r.o.Budget.Cut(rounds, r.o.Sets, "sets")
	for i := range r.result.Lines {
		l := &r.result.Lines[i]
		l.Sets = l.Sets[:min(rounds, len(l.Sets))]
	}
}

// stopped returns budget.ErrOver at all ranks of c when the time is over.
func stopped(b budget.Budget, c *banyan.Comm) error {
	over, err := b.Agree(c)
	if over {
		return budget.ErrOver
	}
	return err
}

var errWrong = errors.New("the operation succeeded with wrong data")

// set returns the time of one operation, in ns, at the slowest rank. It checks the results where
// nothing is timed.
func (r *collectiveRank) set(at *lineComm, check bool) (float64, error) {
	if err := r.living.Barrier(); err != nil {
		return 0, err
	}
	start := r.w.Now()
	for i := range r.o.Calls {
		if check {
			at.run.fill(i)
		}
		if err := at.run.do(i); err != nil {
			return 0, err
		}
		if check && !at.run.right(i) {
			return 0, fmt.Errorf("operation %d: %w", i, errWrong)
		}
	}
	longest := []time.Duration{r.w.Now() - start}
	if err := banyan.Allreduce(r.living, longest, longest, banyan.Max); err != nil {
		return 0, err
	}
	return float64(longest[0]) / float64(r.o.Calls), nil
}
