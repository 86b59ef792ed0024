package banyan

import (
	"errors"
	"fmt"

	"github.com/banyan-hpc/banyan/ft/detect"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// apart hears of the ends of peers before agreements do, for those that have not ended.
func (w *World) apart(ep *progress.Endpoint, cause proc.Cause) {
	switch {
	case w.repair == nil:
	case cause.Kind == proc.Unreachable:
		w.repair.Apart(ep.Proc)
	case cause.Kind == proc.Refused && w.pulse == nil && w.repair.Estranged() != proc.None:
		w.expire(&detect.EndError{By: ep.Proc}) // with a detector that does it
	}
}

// forsaken ends this rank, which cannot reach one that it has to agree with.
func (w *World) forsaken(peer proc.ID) {
	w.job.Expire(fmt.Errorf("%w, and take part in one agreement: of such two the higher one counts as failed", w.estranged(peer)))
}

// estranged says why this rank and another cannot reach each other.
func (w *World) estranged(peer proc.ID) error {
	a, b := min(peer, w.progress.Self()), max(peer, w.progress.Self())
	if why := w.control.out.Unreached(peer); why != nil {
		return fmt.Errorf("rank %d and rank %d cannot reach each other (%w; ftbench doctor tells which fabrics could, --fabric allows them)", a, b, why)
	}
	return fmt.Errorf("rank %d and rank %d cannot reach each other (%v)", a, b, w.progress.View().Cause(peer))
}

// expire ends this rank because it counts as dead elsewhere.
func (w *World) expire(why error) {
	end, told := errors.AsType[*detect.EndError](why)
	if peer := w.repair.Estranged(); told && !end.Partition && peer != proc.None {
		why = fmt.Errorf("it counts as dead at rank %d: %w", end.By, w.estranged(peer))
	}
	w.job.Expire(why)
}
