package shm

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/futex"
	"github.com/banyan-hpc/banyan/internal/proc"
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
// process for good. It reads the entry of the first thread, which has the same time: in
// place of /proc/PID/stat of the reader itself an emulator (QEMU's user mode) shows a file of
// its own with another time, so that peers would take the process for one that has ended.
func startTime(pid int) (uint64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/stat", pid, pid))
	if err != nil {
		return 0, fmt.Errorf("shm: start time of process %d: %w%s", pid, err, remedy(err))
	}
	v, err := startIn(statFields(b))
	if err != nil {
		return 0, fmt.Errorf("shm: start time of process %d: %w", pid, err)
	}
	return v, nil
}

// startIn finds a process's start among the fields of its entry in /proc.
func startIn(fields [][]byte) (uint64, error) {
	const startField = 19 // field 22 of the line, the name being field 2
	if len(fields) <= startField {
		return 0, errors.New("short /proc entry")
	}
	return strconv.ParseUint(string(fields[startField]), 10, 64)
}

// newConn makes a connection that is not made yet.
func newConn(p *Provider, peer proc.ID, a *address) *Conn {
	c := &Conn{p: p, peer: peer, reader: reader{pid: int(a.pid), pidfd: -1}, segment: &segment{fd: -1}}
	c.out.maxFrame, c.out.pace = a.maxFrame(), p.pace()
	return c
}

// attach makes the connection to a peer that has not knocked.
func (p *Provider) attach(c *Conn, a *address) error {
	if err := c.connect(a); err != nil {
		return p.makePermanent(c.peer, err)
	}
	p.conns[c.peer] = c
	c.checkRefusal()
	p.scheduleRetry() // whether it can connect back
	return nil
}

// connect makes the sending half and tells the peer. After an error nothing has
// changed, and it may be called again.
func (c *Conn) connect(a *address) error {
	if x := c.p.cfg.Exits; x != nil {
		c.execs = x.Execs(c.reader.pid) // before openPeer makes sure that the peer's program is there
	}
	if err := c.openProcess(a); err != nil {
		if errors.Is(err, fabric.ErrPeerGone) {
			c.exitCause, _ = c.exitRecord()
		}
		return err
	}
	seg, err := openPeer(a, c.p.cfg.Self, c.p.cfg.Dir != "")
	if err == nil && !setGate(gateOf(seg.slots), gateTaken) {
		err = errors.Join(errBarred, seg.close())
	}
	if err == nil {
		if err = c.p.watch.add(c, seg, a); err != nil {
			err = errors.Join(err, seg.close())
		}
	}
	if err != nil {
		if c.ended() {
			err = fabric.ErrPeerGone
		}
		if errors.Is(err, fabric.ErrPeerGone) {
			c.exitCause = c.queryExitCause() // while there is a descriptor to ask by
		}
		_ = unix.Close(c.reader.pidfd)
		c.reader.pidfd = -1
		return err
	}
	c.segment, c.address = seg, *a
	if c.polled.word != nil {
		c.p.deaths.words = append(c.p.deaths.words, c.polled)
	}
	c.start(a)
	seg.knock(c.p.cfg.Self, &c.p.self)
	return nil
}

// pace is that of a connection over which nothing has been sent.
func (p *Provider) pace() pace {
	return pace{near: p.cfg.EagerNear, far: p.cfg.EagerFar, reply: p.cfg.EagerReply}
}

// openProcess takes hold of the peer's process, so that its pid cannot come to
// mean another one unnoticed.
func (c *Conn) openProcess(a *address) error {
	fd, err := unix.PidfdOpen(c.reader.pid, 0)
	switch {
	case err == nil:
	case errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT):
		return fabric.ErrPeerGone // the latter two: it is a thread's id by now
	default:
		return fmt.Errorf("shm: pidfd_open(%d): %w%s", c.reader.pid, err, remedy(err))
	}
	started, err := startTime(c.reader.pid)
	switch {
	case err == nil && started == a.started:
		c.reader.pidfd = fd
		return nil
	case err == nil || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH):
		err = fabric.ErrPeerGone
	}
	_ = unix.Close(fd)
	return err
}

// remedy says what helps against an error of want.
func remedy(err error) string {
	switch {
	case errors.Is(err, unix.EMFILE):
		return ": raise this process's limit of open files (ulimit -n); it takes one for each peer"
	case errors.Is(err, unix.ENFILE):
		return ": raise the machine's limit of open files (sysctl fs.file-max)"
	case errors.Is(err, unix.ENOMEM):
		return ": raise the limit of address space (ulimit -v), of mappings (sysctl vm.max_map_count) or of memory"
	default:
		return ""
	}
}

// ended asks the kernel whether the peer's process has ended.
func (c *Conn) ended() bool {
	fds := []unix.PollFd{{Fd: int32(c.reader.pidfd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n == 1
}

// processEnded reports whether the peer's process is known to be no more, also when its pidfd has been given back: no thread of
// it will ever write anything. A peer in this very process never has.
func (c *Conn) processEnded() bool {
	if c.address.pid == 0 {
		return false
	}
	again := Conn{reader: reader{pid: int(c.address.pid), pidfd: -1}}
	if err := again.openProcess(&c.address); err != nil {
		return errors.Is(err, fabric.ErrPeerGone)
	}
	defer unix.Close(again.reader.pidfd)
	return again.ended()
}

func (c *Conn) start(a *address) {
	h := c.segment.head()
	c.bell = &h.bell
	c.needsBarrier = h.membarrier == 0 || !futex.Registered()
	c.out = producer{ring: newRing(c.segment.slots, a.geometry), pace: c.p.pace()}
	c.live = true
	if !c.needsBarrier {
		c.out.limit = uint64(a.lines) - reservedLines
	}
	// One that was half has said that it cannot get, and capabilities are fixed.
	c.get = c.halfOpen == nil && !c.p.cfg.NoGet && c.probe(a)
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

// reapPeers reports the peers that have ended, each after the last of its frames.
func (p *Provider) reapPeers(s *fabric.Sink) int {
	p.watch.reapPending.Store(false)
	p.releaseEnded()
	n := p.retryIncomplete()
	// Callbacks may connect: walk a copy. Ascending, so that order is stable.
	ended := make([]*Conn, 0, len(p.conns))
	for _, c := range p.conns {
		if !c.reported && (c.gone.Load() || c.ending || c.in.departed || c.in.hungUp || c.in.corrupt) {
			ended = append(ended, c)
		}
	}
	slices.SortFunc(ended, func(a, b *Conn) int { return int(a.peer) - int(b.peer) })
	for _, c := range ended {
		n += p.finishPeer(s, c)
	}
	return n
}

// endedPeer are what is still held of a peer whose end has been reported. To give it
// back takes longer than to report.
type endedPeer struct {
	c *Conn
	// keepSlot: it has to read in its slot that it has been given up.
	keepSlot bool
}

// releaseEnded gives back what is held of peers whose end has been reported.
func (p *Provider) releaseEnded() {
	for _, r := range p.ended {
		err := r.c.release()
		if !r.keepSlot {
			err = errors.Join(err, p.own.free(r.c.peer))
		}
		if err != nil {
			p.cfg.Logf("shm: releasing %v: %v", r.c.peer, err)
		}
	}
	p.ended = nil
}

// finishPeer delivers what is left of a peer and reports its end.
func (p *Provider) finishPeer(s *fabric.Sink, c *Conn) int {
	n := 0
	if c.gone.Load() && c.killPending {
		c.killPeer()
	}
	if c.gone.Load() && !c.exitWatched { // else all see it in the record
		p.notifyPeers(c)
	}
	if (c.gone.Load() || c.ending) && !c.hasIn && !c.invalidated {
		p.acceptKnocks() // it may have knocked last of all
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
	p.deaths.forget(c)
	if c.gone.Load() && c.exitCause.Kind == proc.Unknown && c.reader.pidfd >= 0 {
		c.exitCause = c.queryExitCause() // it may be told by now
	}
	givenUp := c.halfOpen != nil && c.ending
	if c.gone.Load() && !c.ending && c.departedInHeader() {
		c.exitCause = proc.Cause{Kind: proc.Departed}
	}
	if c.in.corrupt {
		c.killPeer()
	}
	c.closeSend()
	c.hasIn, c.halfOpen = false, nil
	if c.reader.pidfd >= 0 && !c.gone.Load() { // else the watcher says no more of it
		p.watch.forget(c)
	}
	p.ended = append(p.ended, endedPeer{c, givenUp})
	p.requestReap() // the next Poll clears them away: who waits for the news is told first
	switch {
	case c.in.departed:
		s.Departed(c.peer)
	case c.in.corrupt:
		s.Down(c.peer, proc.Cause{Kind: proc.Corrupt})
	case c.in.hungUp:
		s.Down(c.peer, proc.Cause{Kind: proc.Connection})
	case c.ending && !c.endCause.Failed():
		s.Departed(c.peer)
	case c.ending:
		s.Down(c.peer, c.endCause)
	case !c.exitCause.Failed():
		s.Departed(c.peer)
	default:
		s.Down(c.peer, c.exitCause)
	}
	return n + 1
}
