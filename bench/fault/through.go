package fault

import (
	"fmt"
	"time"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/coll/tree"
)

// Corrected reports whether operations of this line go on through failures.
func (l Line) Corrected() bool { return l.Design == tree.Corrected.String() }

// throughCalls is how many operations all do, in the first half of which one dies.
const throughCalls = 200

// through has all do a number of operations while a rank dies, and gives for each when the last rank had completed it.
// No operation is an error. Precondition: they have been called, so that connections are made.
func (r *collectiveRank) through(at *lineComm, living *banyan.Comm, victim bool, die func(within time.Duration)) (
	[]int64, error,
) {
	each, err := r.timeOf(at, living)
	if err != nil {
		return nil, err
	}
	if victim {
		die(each * throughCalls / 2)
	}
	ends := make([]int64, throughCalls)
	for i := range ends {
		for victim && i == throughCalls/2 { // operations are faster than those before: its death must not come after all
			r.w.Sleep(time.Second)
		}
		if err := at.run.do(i); err != nil {
			return nil, fmt.Errorf("operation %d: %w", i, err)
		}
		if ends[i], err = r.dying.clock(); err != nil {
			return nil, err
		}
	}
	return ends, nil
}

// timeOf is the time of one operation, the same at all ranks.
func (r *collectiveRank) timeOf(at *lineComm, living *banyan.Comm) (time.Duration, error) {
	const tried = 10
	start := r.w.Now()
	for i := range tried {
		if err := at.run.do(i); err != nil {
			return 0, err
		}
	}
	each := []time.Duration{max(time.Nanosecond, (r.w.Now()-start)/tried)}
	err := banyan.Allreduce(living, each, each, banyan.Max)
	return each[0], err
}

// endAfter is the time at which all had completed the first operation without a rank that has died: the second one that
// ends after its death. 0: it has died too late.
func endAfter(ends []int64, died int64) int64 {
	for i, end := range ends[:max(0, len(ends)-1)] {
		if end > died {
			return ends[i+1]
		}
	}
	return 0
}
