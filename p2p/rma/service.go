package rma

import (
	"fmt"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
	"github.com/banyan-hpc/banyan/p2p"
)

// Service has the windows of one process.
type Service struct {
	e       *progress.Engine
	p       *p2p.Engine
	windows map[uint32]*Window // by context
	stalled []*target          // their connections have refused credit
	watcher progress.Watcher   // retries them, from the first window on
	watched bool
	// frame is where frames are put together.
	frame []byte
}

// New makes the service and registers its class. With aware false a peer's failure completes
// nothing: that is the baseline.
func New(e *progress.Engine, p *p2p.Engine, aware bool) *Service {
	s := &Service{e: e, p: p, windows: make(map[uint32]*Window)}
	s.watcher = progress.Watcher{Look: s.retry, Doze: func() bool { return true }}
	e.Handle(fabric.ClassRMA, s.receive)
	if aware {
		e.OnEnd(s.onEnd)
		p.OnRevoked(s.onRevoked)
	}
	return s
}

// Prepare makes this rank's part of a window on a communicator that nothing else uses. It sends
// nothing. A collective must follow before the first operation, so that no frame comes before its
// window: one that does is dropped.
func (s *Service) Prepare(c *p2p.Comm, mem []byte, notices int) (*Window, error) {
	if !aligned(mem) {
		return nil, fmt.Errorf("%w: the memory is not aligned to 8 bytes", ft.ErrArgument)
	}
	members := c.Group()
	w := &Window{
		s: s, core: c, ctx: c.Context(), runThrough: c.Profile() == p2p.RunThrough, mem: mem, notices: make([]uint64, notices),
		targets: make([]target, members.Size()), results: make(map[uint32]*result),
	}
	w.lock.init(members.Size())
	s.e.Lock()
	for rank := range w.targets {
		t := &w.targets[rank]
		t.w, t.rank, t.id = w, rank, members.Proc(rank)
		if s.e.View().Failed(t.id) {
			t.ended, t.failed = true, true
		}
	}
	s.windows[w.ctx] = w
	if !s.watched {
		s.watched = true
		s.e.Watch(&s.watcher)
		s.e.Kick()
	}
	s.e.Unlock()
	s.e.StartAsync()
	return w, nil
}

// Close ends all waits: the process leaves.
func (s *Service) Close() {
	s.e.Lock()
	defer s.e.Unlock()
	for _, w := range s.windows {
		w.free()
	}
}

// receive handles a frame. The sender's rank is that of its connection.
func (s *Service) receive(from proc.ID, imm uint64, payload []byte) {
	w := s.windows[uint32(imm>>32)]
	if w == nil || uint8(imm>>tokenBits)&generation != w.gen {
		return // it was freed, or has been validated since
	}
	rank := w.core.Members().Rank(from)
	h, data, ok := decode(payload)
	if rank < 0 || !ok {
		return
	}
	t := &w.targets[rank]
	if t.ended {
		return
	}
	k, token := kind(imm>>24), uint32(imm)%maxTokens
	if k.answers() {
		t.answered(k, token, &h, data)
		return
	}
	if len(t.replies) >= maxReplies {
		s.e.Report(from, proc.Cause{Kind: proc.Corrupt})
		return
	}
	t.serve(k, token, &h, data)
}

// retry sends what connections have refused, and returns how many frames they took.
func (s *Service) retry() (sent int) {
	if len(s.stalled) == 0 {
		return 0
	}
	list := s.stalled
	s.stalled = nil
	for _, t := range list {
		t.stalled = false
		sent += t.pump()
	}
	return sent
}

// onEnd is called when a peer has failed or departed.
func (s *Service) onEnd(ep *progress.Endpoint, cause proc.Cause) {
	for _, w := range s.windows {
		if rank := w.core.Members().Rank(ep.Proc); rank >= 0 {
			w.onEnd(&w.targets[rank], cause.Failed())
		}
	}
}

func (s *Service) onRevoked(c *p2p.Comm) {
	if w := s.windows[c.Context()]; w != nil {
		w.endRequests(ft.ErrRevoked)
		w.wake()
	}
}
