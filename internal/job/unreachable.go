package job

import (
	"errors"
	"fmt"

	"github.com/banyan-hpc/banyan/ft/detect"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// peerUnreachable gets the ends of peers before agreements do, for peers that have not ended but
// cannot be reached.
func (j *Job) peerUnreachable(ep *progress.Endpoint, cause proc.Cause) {
	switch {
	case cause.Kind == proc.Unreachable:
		j.Repair.PeerUnreachable(ep.Proc)
	case cause.Kind == proc.Refused && j.detector == nil && j.Repair.UnreachablePeer() != proc.None:
		j.expire(&detect.EndError{By: ep.Proc}) // a detector ends this process
	}
}

// exitUnreachable ends this rank, which cannot reach one that it has to agree with.
func (j *Job) exitUnreachable(peer proc.ID) {
	j.boot.Expire(fmt.Errorf("%w, and take part in one agreement: of such two the higher one counts as failed",
		j.unreachable(peer)))
}

// unreachable explains why this rank and another cannot reach each other.
func (j *Job) unreachable(peer proc.ID) error {
	a, b := min(peer, j.Self), max(peer, j.Self)
	if why := j.outbox.Unreachable(peer); why != nil {
		return fmt.Errorf("rank %d and rank %d cannot reach each other (%w; ftbench doctor shows which fabrics could, "+
			"--fabric allows them)",
			a, b, why)
	}
	return fmt.Errorf("rank %d and rank %d cannot reach each other (%v)", a, b, j.Progress.View().Cause(peer))
}

// expire ends this rank because it counts as failed at another one.
func (j *Job) expire(why error) {
	end, told := errors.AsType[*detect.EndError](why)
	if peer := j.Repair.UnreachablePeer(); told && !end.Partition && peer != proc.None {
		why = fmt.Errorf("it counts as dead at rank %d: %w", end.By, j.unreachable(peer))
	}
	j.boot.Expire(why)
}
