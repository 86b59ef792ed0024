package banyan

import (
	"fmt"

	"github.com/banyan-hpc/banyan/internal/job"
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
}

// String gives the route and what speaks against faster ones, in a line.
func (r Route) String() string {
	return job.Route{Fabric: r.Fabric, Detail: r.Detail, WhyNot: r.WhyNot}.String()
}

// Route tells how this rank reaches another rank of the world, and connects to it if
// that has not been done. The error names what was tried and what helps; a rank
// that has ended before is ErrProcFailed or ErrDeparted.
func (w *World) Route(rank int) (Route, error) {
	if w.absent() {
		return Route{}, fmt.Errorf("route: %w: no world; Init gives one", ErrArgument)
	}
	r, err := w.job.Route(rank)
	return Route{r.Fabric, r.Detail, r.Why, r.WhyNot}, err
}

// Node is the number of the node on which a rank of the world stands: equal for
// ranks that can share memory, 0 … of the lowest ranks first. Containers of one
// machine may be several nodes. It asks nobody. -1: there is no such rank.
func (w *World) Node(rank int) int {
	if w.absent() || rank < 0 || rank >= w.job.Size() {
		return -1
	}
	return w.job.NodeOf(rank)
}
