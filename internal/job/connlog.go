package job

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// slowToConnect is how long a connection may take before the log reports it as missing.
const slowToConnect = time.Second

// connLog joins the reports of the engine and of the sockets on a connection to one event: the
// engine knows the reasons against faster fabrics, the sockets know when they are connected and
// over which addresses. Either may come first.
type connLog struct {
	mu  sync.Mutex
	log *slog.Logger
	// waiting has the reasons of peers that are routed and not connected; told are the peers of
	// which an event has been logged. Others are logged when they are routed.
	waiting map[int]*reason
	told    map[int]bool
}

type reason struct {
	why  string
	late *time.Timer
}

// newConnLog is nil without a log.
func newConnLog(log *slog.Logger) *connLog {
	if log == nil {
		return nil
	}
	return &connLog{log: log, waiting: make(map[int]*reason), told: make(map[int]bool)}
}

// ofRoutes gets the engine's connections; nil without a log.
func (m *connLog) ofRoutes() func(*progress.Endpoint) {
	if m == nil {
		return nil
	}
	return m.routed
}

// ofSockets is the log of sockets; nil without a log.
func (m *connLog) ofSockets() *slog.Logger {
	if m == nil {
		return nil
	}
	return slog.New(socketLog{m.log.Handler().WithAttrs([]slog.Attr{slog.String("fabric", "tcp")}), m})
}

// ofMemory is the log of shared memory; nil without a log.
func (m *connLog) ofMemory() *slog.Logger {
	if m == nil {
		return nil
	}
	return m.log.With("fabric", "shm")
}

// routed logs a connection that an endpoint has got. Precondition: the engine's lock is held.
func (m *connLog) routed(ep *progress.Endpoint) {
	r := routeOf(ep)
	for _, err := range ep.Tried {
		if why, known := errors.AsType[noPath](err); known {
			r.WhyNot = append(r.WhyNot, why.Error())
		}
	}
	peer, why := int(ep.Proc), strings.Join(r.WhyNot, "; ")
	m.mu.Lock()
	defer m.mu.Unlock()
	if !r.open {
		text := "connected"
		if ep.Accepted {
			text = "connected by the peer"
		}
		m.told[peer] = true
		attrs := []any{"peer", peer, "fabric", r.Fabric}
		if r.Detail != "" && r.Detail != r.Fabric {
			attrs = append(attrs, "path", r.Detail)
		}
		if why != "" {
			attrs = append(attrs, "reason", why)
		}
		m.log.Info(text, attrs...)
		return
	}
	w := &reason{why: why}
	w.late = time.AfterFunc(slowToConnect, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.waiting[peer] == w {
			m.log.Info("not connected yet", "peer", peer, "fabric", r.Fabric, "after", slowToConnect, "reason", r.String())
		}
	})
	m.waiting[peer] = w
}

// socketLog is the handler of the sockets' log. The first event of a peer gets the reasons against
// faster fabrics. It is dropped if the route is not logged yet, which includes the addresses.
type socketLog struct {
	slog.Handler
	m *connLog
}

// Handle implements slog.Handler.
func (h socketLog) Handle(ctx context.Context, r slog.Record) error {
	peer := -1
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "peer" {
			peer = int(a.Value.Int64())
		}
		return true
	})
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	if w := h.m.waiting[peer]; w != nil && !h.m.told[peer] {
		w.late.Stop()
		delete(h.m.waiting, peer)
		h.m.told[peer] = true
		if w.why != "" {
			r = r.Clone()
			r.AddAttrs(slog.String("reason", w.why))
		}
	} else if peer >= 0 && !h.m.told[peer] {
		return nil
	}
	return h.Handler.Handle(ctx, r)
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
