package banyan

import (
	"errors"
	"fmt"
	"strings"

	"github.com/banyan-hpc/banyan/fabric/route"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// Route is how two ranks of a job reach each other.
type Route struct {
	// Fabric is "self", "shm", "unix", "tcp", or "sim" in the simulator.
	Fabric string
	// Detail is what the connection says of itself, as its addresses; may be "".
	Detail string
	// Why says why this fabric joins the two; WhyNot, why each faster one does not.
	Why    string
	WhyNot []string

	open bool // which socket it is has not been decided
}

// String gives the route and what speaks against faster ones, in a line.
func (r Route) String() string {
	s := r.Fabric
	if r.Detail != "" && r.Detail != r.Fabric {
		s = r.Detail
	}
	if len(r.WhyNot) > 0 {
		s += " (" + strings.Join(r.WhyNot, "; ") + ")"
	}
	return s
}

// Route tells how this rank reaches another rank of the world, and connects to it if
// that has not been done. The error names what was tried and what helps; a rank
// that has ended before is ErrProcFailed or ErrDeparted.
func (w *World) Route(rank int) (Route, error) {
	if w.absent() {
		return Route{}, fmt.Errorf("route: %w: no world; Init gives one", ErrArgument)
	}
	if rank < 0 || rank >= w.job.Size() {
		return Route{}, fmt.Errorf("route: %w: rank %d, want 0 … %d", ErrArgument, rank, w.job.Size()-1)
	}
	if w.ended.Load() {
		return Route{}, fmt.Errorf("route: %w: the library has been finalized", ErrClosed)
	}
	ep, err := w.progress.Endpoint(proc.ID(rank))
	if err != nil {
		return Route{}, fmt.Errorf("route from rank %d to rank %d: %w", w.job.Rank(), rank, err)
	}
	w.progress.Lock()
	r, state := routeOf(ep), ep.State
	w.progress.Unlock()
	switch state {
	case progress.Failed:
		return r, &ProcFailedError{Op: "route", Ranks: []int{rank}}
	case progress.Departed:
		return r, fmt.Errorf("route to rank %d: %w", rank, ErrDeparted)
	}
	if rank == w.job.Rank() {
		return r, nil
	}
	verdicts, err := w.job.Verdicts(proc.ID(rank))
	if err != nil {
		return r, fmt.Errorf("route to rank %d: why: %w", rank, err)
	}
	r.explain(verdicts)
	return r, nil
}

// explain adds the reasons of verdicts to those of the providers.
func (r *Route) explain(verdicts []route.Verdict) {
	var against []string
	for _, v := range verdicts {
		// Who has not been answered yet takes the first socket that joins the two.
		if v.Fabric.String() == r.Fabric || r.open && v.OK && v.Fabric != route.Shm {
			r.Fabric = v.Fabric.String()
			r.Why = v.Why
			break
		}
		if !v.OK {
			against = append(against, v.String())
		}
	}
	r.WhyNot = append(against, r.WhyNot...)
}

// describer is a connection that has more to say than its provider's name.
type describer interface{ Describe() string }

// routeOf is what an endpoint knows of its route: of the reasons against others
// those that only the attempt has shown. Precondition: the engine's lock is held.
func routeOf(ep *progress.Endpoint) Route {
	r := Route{Fabric: ep.Fabric()}
	if d, ok := ep.Conn().(describer); ok {
		r.Detail = d.Describe()
		switch word, _, _ := strings.Cut(r.Detail, " "); word {
		case route.Unix.String(), route.TCP.String():
			r.Fabric = word
		default:
			r.open = true
		}
	}
	for _, err := range ep.Tried {
		if _, known := errors.AsType[noPath](err); !known {
			r.WhyNot = append(r.WhyNot, "not "+err.Error())
		}
	}
	return r
}

// Node is the number of the node on which a rank of the world stands: equal for
// ranks that can share memory, 0 … of the lowest ranks first. Containers of one
// machine may be several nodes. It asks nobody. -1: there is no such rank.
func (w *World) Node(rank int) int {
	if w.absent() || rank < 0 || rank >= w.job.Size() {
		return -1
	}
	return w.job.Node(rank)
}
