package budget

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/banyan-hpc/banyan"
)

// Budget is the time that a measurement may take. The zero Budget has no bound.
type Budget struct {
	max   time.Duration
	until time.Time
}

// Start returns a budget that begins now; 0 is no bound. In a process that another one has started for
// its measurement it is that one's, see [Shared].
func Start(max time.Duration) Budget {
	if max == 0 {
		return Budget{}
	}
	if b := Shared(); b.max > 0 {
		return b
	}
	return Budget{max, time.Now().Add(max)}
}

// Shared is the budget of the process that has started this one, see [Budget.Export].
func Shared() Budget {
	max, until, _ := strings.Cut(os.Getenv(sharedEnv), ",")
	ns, err := strconv.ParseInt(max, 10, 64)
	at, failed := strconv.ParseInt(until, 10, 64)
	if err != nil || failed != nil {
		return Budget{}
	}
	return Budget{time.Duration(ns), time.Unix(0, at)}
}

// sharedEnv is the variable that passes the bound, and the end of the time, in ns and ns since
// 1970, to ranks: they are processes of the same machine.
const sharedEnv = "BANYAN_BENCH_BUDGET"

// Export is the environment of processes that share the budget.
func (b Budget) Export() []string {
	if b.max == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s=%d,%d", sharedEnv, b.max, b.until.UnixNano())}
}

// Max is the bound; 0: none.
func (b Budget) Max() time.Duration { return b.max }

// Over reports whether the time is over.
func (b Budget) Over() bool { return b.max > 0 && !time.Now().Before(b.until) }

// Left is the time that is left, at least 0; without bound it is d.
func (b Budget) Left(d time.Duration) time.Duration {
	if b.max == 0 {
		return d
	}
	return max(0, min(d, time.Until(b.until)))
}

// Agree reports to all ranks of c whether the time is over at the first of them. All ranks call it,
// with the same bound; without bound it exchanges nothing.
func (b Budget) Agree(c *banyan.Comm) (bool, error) {
	if b.max == 0 {
		return false, nil
	}
	over := []byte{0}
	if b.Over() {
		over[0] = 1
	}
	err := c.Bcast(over, 0)
	return over[0] == 1, err
}

// ErrOver is the cause of the end of a context of [Budget.Context].
var ErrOver = errors.New("the time of --max-time is over")

// Context returns a context that ends with the budget, and a function that frees it.
func (b Budget) Context(ctx context.Context) (context.Context, context.CancelFunc) {
	if b.max == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithDeadlineCause(ctx, b.until, ErrOver)
}

// Ended reports whether it is the budget that has ended a context of [Budget.Context].
func Ended(ctx context.Context) bool { return errors.Is(context.Cause(ctx), ErrOver) }

// Cut reports that a measurement has ended before all was done. It is no failure: the results so
// far are complete.
type Cut struct {
	MaxTime time.Duration `json:"max_time_ns"`
	// Done and Of are the numbers of finished and of requested parts, What their name.
	Done int    `json:"done"`
	Of   int    `json:"of"`
	What string `json:"what"`
}

// Cut returns the Cut of a measurement of which so many parts are done.
func (b Budget) Cut(done, of int, what string) *Cut {
	return &Cut{MaxTime: b.max, Done: done, Of: of, What: what}
}

// Error describes the cut.
func (c *Cut) Error() string {
	return fmt.Sprintf("cut by --max-time %v: %d of %d %s are done", c.MaxTime, c.Done, c.Of, c.What)
}

// Nothing is the error of a measurement that was cut before there was any result; else nil.
func (c *Cut) Nothing() error {
	if c == nil || c.Done > 0 {
		return nil
	}
	return fmt.Errorf("nothing was measured: %w; give it more --max-time", c)
}
