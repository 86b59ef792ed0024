package rma

import (
	"fmt"
	"slices"

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
	blocks  fabric.Blocks      // nil: no other process reaches memory of this one
	sharer  fabric.Sharer      // nil: no adapter does either
	moving  map[proc.ID]*moves // by peer
	windows map[uint32]*Window // by context
	stalled []*target          // their connections have refused credit
	gone    []goneNotice       // likewise
	retries bool               // OnStall was called: a process without windows pays nothing
	// frame is where frames are put together.
	frame []byte
}

// New makes the service and registers its class. With aware false a peer's failure completes
// nothing: that is the baseline. Blocks and sharer may be nil.
func New(e *progress.Engine, p *p2p.Engine, blocks fabric.Blocks, sharer fabric.Sharer, aware bool) *Service {
	s := &Service{
		e: e, p: p, blocks: blocks, sharer: sharer, windows: make(map[uint32]*Window), moving: make(map[proc.ID]*moves),
	}
	e.Handle(fabric.ClassRMA, s.receive)
	e.HandleMoves(s.onMoved)
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
		s: s, core: c, rank: c.Rank(), ctx: c.Context(), runThrough: c.Profile() == p2p.RunThrough, mem: mem, notices: make([]uint64, notices),
		targets: make([]target, members.Size()), results: make(map[uint32]*result),
	}
	w.makeLock()
	if s.sharer != nil && len(mem) > 0 && members.Size() > 1 {
		w.shared, _ = s.sharer.Share(mem) // else messages reach it
	}
	if s.blocks != nil && len(mem) > 0 && members.Size() > 1 {
		if name, length, at, ok := s.blocks.BlockOf(mem); ok {
			w.at = place{name, uint64(length), uint64(at)}
		}
	}
	s.e.Lock()
	for rank := range w.targets {
		t := &w.targets[rank]
		t.w, t.rank, t.id = w, rank, members.Proc(rank)
		if s.e.View().Failed(t.id) {
			t.ended, t.how, w.impaired = true, failed, true
		}
	}
	for _, id := range c.AgreedEnded() {
		t := &w.targets[members.Rank(id)]
		t.ended, t.agreed = true, true
	}
	s.windows[w.ctx] = w
	if !s.retries {
		s.retries = true
		s.e.OnStall(s.retry)
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
		w.free(false)
	}
}

// receive handles a frame. The sender's rank is that of its connection.
func (s *Service) receive(from proc.ID, imm uint64, payload []byte) {
	w, k, token := s.windows[uint32(imm>>32)], kind(imm>>24), uint32(imm)%maxTokens
	if w == nil {
		if k.asks() {
			s.tellGone(s.e.Lookup(from), uint32(imm>>32))
		}
		return
	}
	if uint8(imm>>tokenBits)&generation != w.gen && k != kindGone {
		return // the window has been validated since
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
	if k == kindGone {
		w.onEnd(t, freed)
		return
	}
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

// retry sends the frames that connections have refused, and returns how many frames they took.
func (s *Service) retry() (sent int) {
	if len(s.stalled)+len(s.gone) == 0 {
		return 0
	}
	notices := s.gone
	s.gone = nil
	for _, g := range notices {
		sent += s.tellGone(g.to, g.ctx)
	}
	list := s.stalled
	s.stalled = nil
	for _, t := range list {
		t.stalled = false
		sent += t.pump()
		if len(t.out) == 0 {
			t.w.wake() // a local flush may wait for that
		}
	}
	return sent
}

// goneNotice tells a peer that this process has no window with a context.
type goneNotice struct {
	to  *progress.Endpoint
	ctx uint32
}

// maxGone bounds the notices that wait for credit. More are those of a peer that asks for windows which
// never were.
const maxGone = 1 << 12

// tellGone sends a notice, now or later, and returns the number of frames.
func (s *Service) tellGone(to *progress.Endpoint, ctx uint32) int {
	if to == nil || to.State != progress.Alive {
		return 0
	}
	s.frame = append(s.frame[:0], make([]byte, headBytes)...)
	if to.TrySend(fabric.ClassRMA, uint64(ctx)<<32|uint64(kindGone)<<24, s.frame) {
		return 1
	}
	switch g := (goneNotice{to, ctx}); {
	case slices.Contains(s.gone, g):
	case len(s.gone) == maxGone:
		s.e.Report(to.Proc, proc.Cause{Kind: proc.Corrupt})
	default:
		s.gone = append(s.gone, g)
	}
	return 0
}

// onEnd is called when a peer has failed or departed.
func (s *Service) onEnd(ep *progress.Endpoint, cause proc.Cause) {
	how := departed
	if cause.Failed() {
		how = failed
	}
	s.forget(ep.Proc)
	for _, w := range s.windows {
		if rank := w.core.Members().Rank(ep.Proc); rank >= 0 {
			w.onEnd(&w.targets[rank], how)
		}
	}
}

func (s *Service) onRevoked(c *p2p.Comm) {
	if w := s.windows[c.Context()]; w != nil {
		w.endRequests(ft.ErrRevoked)
		w.refresh()
		w.wake()
	}
}
