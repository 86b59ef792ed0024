package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/banyan-hpc/banyan/bench/budget"
)

// The common options of commands that may last more than ten seconds: they print an estimate of their
// duration, have --quick for a first look, and --max-time to bound them.
type (
	maxTimeFlag struct {
		MaxTime time.Duration `placeholder:"DURATION" help:"End after about this time: a measurement under way is cut at the next safe point, and the result records it. Default: no bound."`
	}
	quickFlag struct {
		Quick bool `help:"A first look: so few repetitions that it takes seconds where it takes minutes without, and wide intervals."`
	}
	memoryFlag struct {
		Memory string `enum:"heap,registered,loan" default:"heap" help:"Memory of the messages: ${enum}; registered memory is read in place by the other ranks of a node; a loan is a view of it, without a copy, which the receiver returns unread. Default: ${default}."`
	}
	paceFlags struct {
		maxTimeFlag
		quickFlag
	}
)

// budget starts the time of the command; a rank that the command has started shares its time.
func (f maxTimeFlag) budget() budget.Budget { return budget.Start(max(0, f.MaxTime)) }

// checkTime finds a bound that is none.
func (f maxTimeFlag) checkTime() error {
	if f.MaxTime < 0 {
		return usagef("--max-time %v: a time above 0 is needed, or none for no bound", f.MaxTime)
	}
	return nil
}

// atMost lowers a value for --quick.
func (f quickFlag) atMost(value *int, most int) {
	if f.Quick {
		*value = min(*value, most)
	}
}

// shorter lowers a time for --quick.
func (f quickFlag) shorter(d *time.Duration, most time.Duration) {
	if f.Quick {
		*d = min(*d, most)
	}
}

// startTime is about how long a job of so many ranks takes to start and to end.
func startTime(ranks int) time.Duration {
	return 100*time.Millisecond + time.Duration(ranks)*10*time.Millisecond
}

// longFrom is the duration from which a command prints an estimate.
const longFrom = 10 * time.Second

// announce prints the estimated duration of a command, if that is long; limit bounds it, 0 does
// not.
func announce(to io.Writer, command string, estimate, limit time.Duration) {
	if limit > 0 {
		estimate = min(estimate, limit)
	}
	if estimate >= longFrom {
		fmt.Fprintf(to, "ftbench %s: this takes about %s\n", command, roughly(estimate))
	}
}

// roughly formats a time for people: two digits at most.
func roughly(d time.Duration) string {
	switch {
	case d < 95*time.Second:
		return fmt.Sprintf("%d s", 5*((d+2500*time.Millisecond)/(5*time.Second)))
	case d < 95*time.Minute:
		return fmt.Sprintf("%d min", (d+30*time.Second)/time.Minute)
	}
	return fmt.Sprintf("%.1f h", d.Hours())
}

// cutOf takes the budget.Cut out of the errors of a measurement: the results so far are right. A cut
// before there was any result stays an error.
func cutOf(err error) (*budget.Cut, error) {
	var cut *budget.Cut
	if errors.As(err, &cut) {
		return cut, cut.Nothing()
	}
	return nil, err
}

// printCut prints in a table that it was cut, if it was.
func printCut(out io.Writer, cut *budget.Cut) error {
	if cut == nil {
		return nil
	}
	_, err := fmt.Fprintf(out, "# %v\n", cut)
	return err
}

func (f memoryFlag) registered() bool { return f.Memory != "heap" }

func (f memoryFlag) lent() bool { return f.Memory == "loan" }
