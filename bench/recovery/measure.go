package recovery

import (
	"context"
	"fmt"
	"io"

	"github.com/banyan-hpc/banyan/bench/ranks"
)

// Measure runs one job; start starts ranks of which each calls [Rank]. Step is called after each round; what ranks print beside their reports goes to rest.
func Measure(ctx context.Context, o Options, start ranks.Start, rest io.Writer, step func()) (*Result, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	job := ranks.Job{Ranks: o.Ranks, Dead: victims(o.Ranks, o.Failures), Start: start, Rest: rest}
	result, err := ranks.Run[Result](ctx, job, step)
	if err != nil {
		return nil, fmt.Errorf("fault %s: %w", o.Op, err)
	}
	return result, nil
}
