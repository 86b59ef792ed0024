package job

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// slowToConnect is how long a connection may take before the log reports it as missing.
const slowToConnect = time.Second

// connLog joins the reports of the engine and of the sockets on a connection to one line: the
// engine knows the reasons against faster fabrics, the sockets know when they are connected and
// over which addresses. Either may come first.
type connLog struct {
	mu   sync.Mutex
	logf func(string, ...any)
	// waiting has the reasons of peers that are routed and not connected; told are the peers of
	// which a line has been logged. Others are logged when they are routed.
	waiting map[proc.ID]*reason
	told    map[proc.ID]bool
}

type reason struct {
	why  string
	late *time.Timer
}

// newConnLog is nil without a log.
func newConnLog(logf func(string, ...any)) *connLog {
	if logf == nil {
		return nil
	}
	return &connLog{logf: logf, waiting: make(map[proc.ID]*reason), told: make(map[proc.ID]bool)}
}

// ofRoutes gets the engine's connections; nil without a log.
func (m *connLog) ofRoutes() func(*progress.Endpoint) {
	if m == nil {
		return nil
	}
	return m.routed
}

// ofSockets gets the reports of sockets; nil without a log.
func (m *connLog) ofSockets() func(string, ...any) {
	if m == nil {
		return nil
	}
	return m.heard
}

// ofMemory gets the reports of shared memory; nil without a log.
func (m *connLog) ofMemory() func(string, ...any) {
	if m == nil {
		return nil
	}
	return func(format string, args ...any) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.logf(format, inRanks(args)...)
	}
}

// routed logs a connection that an endpoint has got. Precondition: the engine's lock is held.
func (m *connLog) routed(ep *progress.Endpoint) {
	r := routeOf(ep)
	for _, err := range ep.Tried {
		if why, known := errors.AsType[noPath](err); known {
			r.WhyNot = append(r.WhyNot, why.Error())
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !r.open {
		by := ""
		if ep.Accepted {
			by = ", it connected"
		}
		m.told[ep.Proc] = true
		m.logf("rank %d is reached by %v%s", ep.Proc, r, by)
		return
	}
	peer, detail := ep.Proc, r.String()
	r.Detail = ""
	w := &reason{why: r.String()[len(r.Fabric):]}
	w.late = time.AfterFunc(slowToConnect, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.waiting[peer] == w {
			m.logf("rank %d is not reached after %v: %s", peer, slowToConnect, detail)
		}
	})
	m.waiting[peer] = w
}

// heard logs a report of the sockets, with ranks in place of processes. The first report on a peer
// includes the reasons. It is dropped if the route is not logged yet, which includes the addresses.
func (m *connLog) heard(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	text := fmt.Sprintf(format, inRanks(args)...)
	if len(args) == 0 {
		m.logf("%s", text)
		return
	}
	peer, about := args[0].(proc.ID)
	w := m.waiting[peer]
	switch {
	case !about || m.told[peer]:
		m.logf("%s", text)
	case w != nil:
		w.late.Stop()
		delete(m.waiting, peer)
		m.told[peer] = true
		m.logf("%s%s", text, w.why)
	}
}

// stop ends the waiting: the library is being finalized.
func (m *connLog) stop() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, w := range m.waiting {
		w.late.Stop()
	}
	clear(m.waiting)
}

// inRanks names processes by their ranks.
func inRanks(args []any) []any {
	out := make([]any, len(args))
	for i, a := range args {
		if id, ok := a.(proc.ID); ok && id.Valid() {
			a = fmt.Sprintf("rank %d", id)
		}
		out[i] = a
	}
	return out
}
