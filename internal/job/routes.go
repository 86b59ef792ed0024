package job

import (
	"errors"
	"fmt"
	"strings"

	"github.com/banyan-hpc/banyan/fabric/route"
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// Route describes how two ranks reach each other. The root package documents its fields.
type Route struct {
	Fabric string
	Detail string
	Why    string
	WhyNot []string

	open bool // which socket it is has not been decided
}

// String gives the route and the reasons against faster ones, in a line.
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

// PeerCounters counts the traffic of this rank with another one. The root package documents its
// fields.
type PeerCounters struct {
	Fabric                                       string
	FramesSent, FramesReceived                   uint64
	RendezvousSent, RendezvousReceived           uint64
	RendezvousBytesSent, RendezvousBytesReceived uint64
	Borrowed, BorrowedCopies                     uint64
	Broken, Healed                               uint64
}

// PeerCounters counts the traffic with a rank of the job. It does not connect.
func (j *Job) PeerCounters(rank int) PeerCounters {
	j.Progress.Lock()
	defer j.Progress.Unlock()
	ep := j.Progress.Known(proc.ID(rank))
	if ep == nil {
		return PeerCounters{}
	}
	t := ep.Traffic()
	sent, received := j.P2P.Announced(proc.ID(rank))
	borrowed := j.P2P.Borrowed(proc.ID(rank))
	return PeerCounters{
		Fabric: routeOf(ep).Fabric, FramesSent: t.Sent, FramesReceived: t.Received, Broken: t.Broken, Healed: t.Healed,
		RendezvousSent: sent.Messages, RendezvousBytesSent: sent.Bytes,
		RendezvousReceived: received.Messages, RendezvousBytesReceived: received.Bytes,
		Borrowed: borrowed.InPlace, BorrowedCopies: borrowed.Copied,
	}
}

// Route reports how this rank reaches another one, and connects to it if it has not done so.
func (j *Job) Route(rank int) (Route, error) {
	if rank < 0 || rank >= j.Size() {
		return Route{}, fmt.Errorf("route: %w: rank %d, want 0 … %d", ft.ErrArgument, rank, j.Size()-1)
	}
	if j.Finalizing() {
		return Route{}, fmt.Errorf("route: %w: the library has been finalized", ft.ErrClosed)
	}
	ep, err := j.Progress.Endpoint(proc.ID(rank))
	if err != nil {
		return Route{}, fmt.Errorf("route from rank %d to rank %d: %w", j.Rank(), rank, err)
	}
	j.Progress.Lock()
	r, state := routeOf(ep), ep.State
	j.Progress.Unlock()
	switch state {
	case progress.Failed:
		return r, fmt.Errorf("route to rank %d: %w", rank, &ft.ProcFailedError{Ranks: []int{rank}})
	case progress.Departed:
		return r, fmt.Errorf("route to rank %d: %w", rank, ft.ErrDeparted)
	}
	if rank == j.Rank() {
		return r, nil
	}
	verdicts, err := j.boot.Verdicts(proc.ID(rank))
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
		// A peer that has not answered yet takes the first socket that joins the two.
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

// describer is a connection with a description of its own, beside its provider's name.
type describer interface{ Describe() string }

// routeOf is the route of an endpoint, with reasons against other fabrics that only the attempt has
// shown. Precondition: the engine's lock is held.
func routeOf(ep *progress.Endpoint) Route {
	r := Route{Fabric: ep.Fabric()}
	if d, ok := ep.Conn().(describer); ok {
		r.Detail = d.Describe()
		switch word, _, _ := strings.Cut(r.Detail, " "); word {
		case route.Verbs.String(), route.Unix.String(), route.TCP.String():
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
