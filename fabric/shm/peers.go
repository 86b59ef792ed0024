package shm

import (
	"bytes"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/futex"
	"github.com/banyan-hpc/banyan/proc"
)

// selfAddress is how peers find the segment s of this process.
func selfAddress(s *segment) (address, error) {
	pid := os.Getpid()
	started, err := startTime(pid)
	if err != nil {
		return address{}, err
	}
	h := s.head()
	return address{
		geometry: s.geometry, pid: uint32(pid), fd: uint32(s.fd), started: started,
		probe: addressOf(h.token[:]), token: h.token,
	}, nil
}

// startTime reads when a process was started: with the pid it names the
// process for good.
func startTime(pid int) (uint64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("shm: start time of process %d: %w", pid, err)
	}
	// The name may hold spaces and parentheses: count from its end.
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	const startField = 19 // field 22 of the line, the name being field 2
	if len(fields) <= startField {
		return 0, fmt.Errorf("shm: start time of process %d: short /proc entry", pid)
	}
	v, err := strconv.ParseUint(string(fields[startField]), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("shm: start time of process %d: %w", pid, err)
	}
	return v, nil
}

// attach makes the sending half of a connection and tells the peer.
func (p *Provider) attach(peer proc.ID, a *address) (*Conn, error) {
	c := &Conn{p: p, peer: peer, reader: reader{pid: int(a.pid), pidfd: -1}}
	if err := c.openProcess(a); err != nil {
		return nil, err
	}
	seg, err := openPeer(a, p.cfg.Self, p.cfg.Dir != "")
	if err != nil {
		if c.ended() {
			err = fabric.ErrPeerGone
		}
		_ = unix.Close(c.reader.pidfd)
		return nil, err
	}
	c.segment = seg
	if err := p.watch.add(c); err != nil {
		return nil, errors.Join(err, c.release())
	}
	c.start(a)
	p.conns[peer] = c
	seg.knock(p.cfg.Self, &p.self)
	p.meet(c)
	return c, nil
}

// openProcess takes hold of the peer's process, so that its pid cannot come to
// mean another one unnoticed.
func (c *Conn) openProcess(a *address) error {
	fd, err := unix.PidfdOpen(c.reader.pid, 0)
	if err != nil {
		if errors.Is(err, unix.ESRCH) {
			return fabric.ErrPeerGone
		}
		return fmt.Errorf("shm: pidfd_open(%d): %w", c.reader.pid, err)
	}
	started, err := startTime(c.reader.pid)
	if err != nil || started != a.started {
		_ = unix.Close(fd)
		return fabric.ErrPeerGone
	}
	c.reader.pidfd = fd
	return nil
}

// ended asks the kernel whether the peer's process has ended.
func (c *Conn) ended() bool {
	fds := []unix.PollFd{{Fd: int32(c.reader.pidfd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n == 1
}

func (c *Conn) start(a *address) {
	h := c.segment.head()
	c.bell = &h.bell
	c.fence = h.expedite == 0 || !futex.Registered()
	c.out = producer{ring: newRing(c.segment.slots, a.geometry)}
	c.live = true
	if !c.fence {
		c.out.limit = uint64(a.lines) - reservedLines
	}
	c.get = !c.p.cfg.NoGet && c.probe(a)
	how := "kernel copy (process_vm_readv)"
	if !c.get {
		how = "streaming through the ring"
	}
	c.p.cfg.Logf("shm: %v: large messages by %s", c.peer, how)
}

// probe tries whether this process may read the peer's memory, and whether it
// is the peer's: the token must be there.
func (c *Conn) probe(a *address) bool {
	var token [tokenBytes]byte
	if err := c.reader.read(token[:], a.probe); err != nil {
		c.p.cfg.Logf("shm: reading the memory of %v: %v", c.peer, err)
		return false
	}
	return token == a.token
}

// meet begins to poll the peer's slot here if it has knocked before.
func (p *Provider) meet(c *Conn) {
	if p.seen[c.peer/64]>>(c.peer%64)&1 != 0 {
		p.listen(c)
	}
}

// listen begins to poll the peer's slot; of one that has been cut off it takes
// nothing.
func (p *Provider) listen(c *Conn) {
	if c.reported {
		return
	}
	c.in = consumer{ring: newRing(p.own.slot(c.peer), p.own.geometry), cut: c.silenced}
	c.hasIn = true
	p.inbound = append(p.inbound, c)
}

// admit looks who has knocked since the last look.
func (p *Provider) admit() {
	for i := range p.seen {
		news := p.own.knockWord(i).Load() &^ p.seen[i]
		p.seen[i] |= news
		for ; news != 0; news &= news - 1 {
			id := proc.ID(i*64 + bits.TrailingZeros64(news))
			if int64(id) < int64(p.cfg.MaxProcs) {
				p.accept(id)
			}
		}
	}
}

// accept begins to listen to a newcomer and connects back, so that each side
// can return credit and announce its departure. If that fails it has gone or
// is none of ours, and that is reported after what it sent.
func (p *Provider) accept(id proc.ID) {
	if c := p.conns[id]; c != nil {
		p.listen(c)
		return
	}
	a, err := p.own.caller(id)
	if err == nil {
		_, err = p.attach(id, &a)
	}
	if err == nil {
		return
	}
	p.cfg.Logf("shm: connecting back to %v: %v", id, err)
	c := &Conn{p: p, peer: id, reader: reader{pidfd: -1}, segment: &segment{fd: -1}}
	c.out.maxFrame = p.own.maxFrame() // for Caps alone
	c.gone.Store(true)
	p.conns[id] = c
	p.listen(c)
	p.suspect()
}

// bury reports the peers that have ended, each after the last of its frames.
func (p *Provider) bury(s *fabric.Sink) int {
	p.watch.pending.Store(false)
	n := 0
	// Callbacks may connect: walk a copy. Ascending, so that order is stable.
	ended := make([]*Conn, 0, len(p.conns))
	for _, c := range p.conns {
		if !c.reported && (c.gone.Load() || c.in.departed || c.in.hungUp || c.in.corrupt) {
			ended = append(ended, c)
		}
	}
	slices.SortFunc(ended, func(a, b *Conn) int { return int(a.peer) - int(b.peer) })
	for _, c := range ended {
		n += p.conclude(s, c)
	}
	return n
}

// conclude delivers what is left of a peer and reports its end.
func (p *Provider) conclude(s *fabric.Sink, c *Conn) int {
	n := 0
	if c.gone.Load() && !c.hasIn && !c.silenced {
		p.admit() // it may have knocked last of all
	}
	for c.hasIn && !c.in.cut {
		got := c.in.poll(s, c.peer, batch)
		if got == 0 {
			break
		}
		n += got
	}
	if c.reported {
		return n
	}
	c.reported = true
	p.inbound = slices.DeleteFunc(p.inbound, func(x *Conn) bool { return x == c })
	if err := errors.Join(c.release(), p.own.free(c.peer)); err != nil {
		p.cfg.Logf("shm: releasing %v: %v", c.peer, err)
	}
	switch {
	case c.in.departed:
		s.Departed(c.peer)
	case c.in.corrupt:
		s.Down(c.peer, proc.Cause{Kind: proc.Corrupt})
	case c.in.hungUp:
		s.Down(c.peer, proc.Cause{Kind: proc.Connection})
	default:
		s.Down(c.peer, proc.Cause{Kind: proc.Unknown})
	}
	return n + 1
}
