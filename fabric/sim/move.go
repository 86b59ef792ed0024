package sim

import (
	"github.com/banyan-hpc/banyan/fabric"
)

const (
	// mostMoves is the number of moves that are under way from one process to another, moveBytes the longest. They are few
	// and short, so that all cases occur in small tests.
	mostMoves, moveBytes = 4, 100
	// pathless is how long there is no path after a loss.
	pathless = 50 * Microsecond
)

// Share implements fabric.Sharer.
func (e *endpoint) Share(mem []byte) (fabric.Region, error) {
	switch {
	case !e.p.sim.cfg.Moves:
		return fabric.Region{}, fabric.ErrUnsupported
	case e.closed:
		return fabric.Region{}, fabric.ErrClosed
	case e.shares == nil:
		e.shares = make(map[uint64][]byte)
	}
	e.shared++
	e.shares[e.shared] = mem
	return fabric.Region{Addr: e.shared, Len: uint64(len(mem))}, nil
}

// Unshare implements fabric.Sharer.
func (e *endpoint) Unshare(r fabric.Region) { delete(e.shares, r.Addr) }

// move is a write to or a read from memory of the peer that is under way. As an event it is its arrival, and then its
// completion. The adapter reads and writes local memory at that instant.
type move struct {
	flow      *flow
	put       bool
	at        uint64 // the name of the memory
	offset    uint64
	local     []byte
	data      []byte // the result of a get
	behind    *frame // is delivered after it; nil: nothing is
	there     bool
	done      bool
	abandoned bool // it is lost
}

// Moves implements fabric.Mover.
func (c *conn) Moves() bool {
	f := (*flow)(c)
	return f.from.sim.cfg.Moves && !f.dead() && !f.from.end.closed && !f.from.end.departed && f.from.clock >= f.pathless
}

// TryPut implements fabric.Mover.
func (c *conn) TryPut(local []byte, remote fabric.Region, offset uint64) int {
	return c.move(local, remote, offset, true, nil)
}

// TryGet implements fabric.Mover.
func (c *conn) TryGet(local []byte, remote fabric.Region, offset uint64) int {
	return c.move(local, remote, offset, false, nil)
}

// TryNotify implements fabric.Mover.
func (c *conn) TryNotify(local []byte, remote fabric.Region, offset uint64, class fabric.Class, imm uint64, payload []byte) int {
	s := c.from.sim
	fr := s.frames.get(len(payload))
	fr.flow, fr.class, fr.imm = (*flow)(c), class, imm
	copy(fr.payload, payload)
	n := c.move(local, remote, offset, true, fr)
	if n < len(local) {
		s.frames.put(fr)
	}
	return n
}

// move does not use the peer's core: o_send + L + n·G, and L back. It has a frame behind it if that is not nil and the move is of
// all of local. Moves arrive in their order.
func (c *conn) move(local []byte, remote fabric.Region, offset uint64, put bool, behind *frame) int {
	f := (*flow)(c)
	p, s := f.from, f.from.sim
	p.step()
	n := min(len(local), moveBytes)
	if n < len(local) {
		behind = nil
	}
	switch {
	case !c.Moves() || offset > remote.Len || uint64(len(local)) > remote.Len-offset:
		return fabric.NoPath
	case len(f.moves) >= mostMoves || behind != nil && !f.admits():
		p.clock += s.cfg.CPU.EmptyPoll
		p.settle()
		if behind != nil {
			f.refuse()
		}
		return fabric.NoRoom
	}
	if behind != nil {
		f.used++
	}
	p.clock += f.link.SendOverhead
	p.settle()
	m := &move{flow: f, put: put, at: remote.Addr, offset: offset, local: local[:n], behind: behind}
	f.moves = append(f.moves, m)
	f.lastMove = max(f.lastMove, f.afterHold(p.clock, n))
	s.push(f.lastMove, m)
	return n
}

// afterHold is when n bytes arrive that leave at an instant, if ever.
func (f *flow) afterHold(at Picos, n int) Picos {
	if at = f.hold(at); at == never {
		return never
	}
	return at + f.link.Latency + Picos(n)*f.link.GapPerByte
}

func (m *move) happen(s *Sim) *task {
	f := m.flow
	switch {
	case m.abandoned || f.broken:
	case !m.there:
		m.arrive(s)
	case !f.back.shut && !f.back.invalidated && f.from.end.open():
		m.complete(s)
	}
	return nil
}

// arrive is the move at the peer.
func (m *move) arrive(s *Sim) {
	f := m.flow
	if f.shut || f.invalidated || !f.to.end.open() {
		return // the end of the peer, or that of this process, is on its way
	}
	mem, ok := f.to.end.shares[m.at]
	f.moved++
	lost := !ok || happens(draw(s.cfg.Seed, forMoves, uint64(f.from.id), uint64(f.to.id), f.moved), s.cfg.MoveLoss)
	switch {
	case lost && ok && m.put:
		copy(mem[m.offset:], m.local[:f.moved%uint64(len(m.local)+1)]) // a part of it has been done
	case lost:
	case m.put:
		copy(mem[m.offset:], m.local)
		if m.behind != nil {
			f.from.count.Sent++
			f.from.count.SentBytes += uint64(len(m.behind.payload))
			f.to.end.enqueue(m.behind)
			m.behind = nil
		}
	default:
		m.data = append([]byte(nil), mem[m.offset:][:len(m.local)]...)
	}
	if lost {
		f.loseMoves(s)
		return
	}
	m.there = true
	if at := f.back.afterHold(s.present(), len(m.data)); at < never {
		s.push(at, m)
	}
}

// complete is the move's end at its origin. The oldest are reported first.
func (m *move) complete(s *Sim) {
	f := m.flow
	copy(m.local, m.data)
	m.done = true
	n := 0
	for n < len(f.moves) && f.moves[n].done {
		n++
	}
	if n > 0 {
		f.moves = f.moves[n:]
		f.reportMoves(s, n, false)
	}
}

// loseMoves makes all moves under way void, and has no others for a while.
func (f *flow) loseMoves(s *Sim) {
	n := len(f.moves)
	for _, m := range f.moves {
		if m.abandoned = true; m.behind != nil {
			f.giveCredit()
		}
	}
	f.moves = nil
	f.pathless = s.present() + pathless
	f.reportMoves(s, n, true)
}

func (f *flow) reportMoves(s *Sim, n int, lost bool) {
	fr := s.frames.get(0)
	fr.flow, fr.kind, fr.imm, fr.lost = f.back, frameMoved, uint64(n), lost
	f.from.end.enqueue(fr)
}

var (
	_ fabric.Sharer = (*endpoint)(nil)
	_ fabric.Mover  = (*conn)(nil)
)
