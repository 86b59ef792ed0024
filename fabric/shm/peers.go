package shm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/futex"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// selfAddress is the address by which peers find the segment s of this process.
func selfAddress(s *segment) (address, error) {
	pid := os.Getpid()
	started, err := startTime(pid)
	if err != nil {
		return address{}, err
	}
	h := s.head()
	a := address{
		geometry: s.geometry, pid: uint32(pid), fd: uint32(s.fd), started: started,
		probe: addressOf(h.token[:]), token: h.token,
	}
	if s.shared {
		a.frontFD, a.frontAt, a.pagesAt = uint32(s.front.fd), uint64(s.front.at), uint64(s.front.pages)
	}
	return a, nil
}

// startTime reads the start time of a process: with the pid it identifies the process. It reads the
// entry of the first thread, which has the same time: in place of the reader's own /proc/PID/stat
// an emulator (QEMU's user mode) shows a file with another time, so that peers would take the
// process for an ended one.
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

// startIn finds the start time among the fields of a /proc entry.
func startIn(fields [][]byte) (uint64, error) {
	const startField = 19 // field 22 of the line; field 2 is the name
	if len(fields) <= startField {
		return 0, errors.New("short /proc entry")
	}
	return strconv.ParseUint(string(fields[startField]), 10, 64)
}

// newConn allocates a connection that is not connected yet.
func newConn(p *Provider, peer proc.ID, a *address) *Conn {
	c := &Conn{p: p, peer: peer, reader: reader{pid: int(a.pid)}, segment: p.unmapped}
	c.reader.handle.started = a.started
	c.maxFrame, c.out.pace = a.maxFrame(), p.pace()
	return c
}

// attach connects to a peer that has not knocked.
func (p *Provider) attach(c *Conn, a *address) error {
	if err := c.connect(a); err != nil {
		return p.makePermanent(c.peer, err)
	}
	p.conns[c.peer] = c
	c.checkRefusal()
	p.awaitBack()
	return nil
}

// connect makes the sending half and knocks. After an error nothing has changed, and it may be
// called again.
func (c *Conn) connect(a *address) error {
	if err := c.openHandle(a); err != nil {
		return err
	}
	c.reader.known() // if it is the process that has the segment
	seg, err := c.openPeer(a)
	if err == nil && !setGate(&cursorsOf(seg.page(c.p.cfg.Self)).gate, gateTaken) {
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
		c.reader.closeHandle()
		return err
	}
	c.segment, c.address = seg, *a
	if c.polled.word != nil {
		c.p.deaths.words = append(c.p.deaths.words, c.polled)
	}
	c.start(a)
	seg.knock(c.p.cfg.Self, c.p.encoded)
	return nil
}

// openHandle takes hold of the process that has the peer's pid. It is the peer if it has the segment with the token
// of the peer's address. Where the kernel's record reports its end, and its front may be in the memory of the node,
// the pidfd is put off.
func (c *Conn) openHandle(a *address) error {
	r := &c.reader
	if x := c.p.cfg.Exits; x != nil {
		c.execs = x.Execs(r.pid) // before it is certain that the peer's program is there
		if c.p.own.shared && a.frontFD != 0 && x.Watched(r.pid) {
			r.handle.state.Store(putOff)
			return nil
		}
	}
	fd, err := r.openPidfd()
	if err == nil {
		r.handle.set(fd)
	} else if errors.Is(err, fabric.ErrPeerGone) {
		c.exitCause, _ = c.exitRecord()
	}
	return err
}

// pace is that of a connection over which nothing has been sent.
func (p *Provider) pace() pace {
	return pace{near: p.cfg.EagerNear, far: p.cfg.EagerFar, reply: p.cfg.EagerReply}
}

// remedy names the limit to raise after an error of shortage.
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
	fd, err := c.reader.openLate()
	if err != nil {
		return errors.Is(err, fabric.ErrPeerGone)
	}
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n == 1
}

// processEnded reports whether the peer's process is known to have ended, also after its pidfd was
// closed: no thread of it will ever write. A peer in this very process never has.
func (c *Conn) processEnded() bool {
	if c.address.pid == 0 {
		return false
	}
	again := Conn{reader: reader{pid: int(c.address.pid)}}
	fd, err := again.reader.openProcess(c.address.started)
	if err != nil {
		return errors.Is(err, fabric.ErrPeerGone)
	}
	again.reader.handle.set(fd)
	defer again.reader.closeHandle()
	return again.ended()
}

func (c *Conn) start(a *address) {
	h := c.segment.head()
	c.bell = &h.bell
	c.needsBarrier = h.membarrier == 0 || !futex.Registered()
	c.out = producer{ring: shortRing(c.segment.page(c.p.cfg.Self)), pace: c.p.pace(), stop: earnFrames}
	c.ring = ringState{}
	c.theirs.claims = &c.out.cur.claims
	c.live = true
	c.out.fast = !c.needsBarrier
	c.out.setLimit()
	// A half-open connection has announced that it cannot get, and capabilities are fixed.
	c.get = c.halfOpen == nil && !c.p.cfg.NoGet && c.reads(a)
	if log := c.p.cfg.Log; log.Enabled(context.Background(), slog.LevelInfo) {
		how := "kernel copy (process_vm_readv)"
		if !c.get {
			how = "streaming through the ring"
		}
		log.Info("large messages by "+how, "peer", int(c.peer))
	}
}

// reads reports whether this process may read the peer's memory. The right to take a descriptor of the
// peer is the same one (ptrace(2), PTRACE_MODE_ATTACH_REALCREDS). Without it this tries, and checks by the
// token that the memory is the peer's. Of the processes that share the node's memory it tries one: they have
// one launcher and one user. If another one refuses all the same, its first long message finds out.
func (c *Conn) reads(a *address) bool {
	if c.p.reads && (c.traced || c.segment.shared && c.p.readsNode) {
		return true
	}
	var token [tokenBytes]byte
	if err := c.reader.read(token[:], a.probe); err != nil {
		c.p.cfg.Log.Info("its memory cannot be read", "peer", int(c.peer), "reason", err)
		return false
	}
	c.p.readsNode = c.p.readsNode || c.segment.shared && token == a.token
	return token == a.token
}

// reapPeers reports the peers that have ended, each after the last of its frames.
func (p *Provider) reapPeers(s *fabric.Sink) int {
	p.watch.reapPending.Store(false)
	p.releaseEnded()
	n := p.retryIncomplete()
	// Callbacks may connect: iterate over a copy, ascending, so that the order is stable.
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

// endedPeer is a peer whose end has been reported and whose resources are still held: freeing them
// takes longer than reporting.
type endedPeer struct {
	c *Conn
	// keepSlot: the peer has to read in its slot that it has been given up.
	keepSlot bool
}

// releaseEnded frees the resources of peers whose end has been reported, and kills what runs in their place.
func (p *Provider) releaseEnded() {
	for _, r := range p.ended {
		r.c.endSuccessor()
		err := r.c.release()
		if !r.keepSlot {
			err = errors.Join(err, p.own.free(r.c.peer, r.c.in.long || r.c.in.left))
		}
		if err != nil {
			p.cfg.Log.Info("releasing a connection failed", "peer", int(r.c.peer), "reason", err)
		}
	}
	p.ended = nil
}

// finishPeer delivers the remaining frames of a peer and reports its end.
func (p *Provider) finishPeer(s *fabric.Sink, c *Conn) int {
	n := 0
	if c.gone.Load() && !c.exitWatched { // else all processes see it in the record
		p.notifyPeers(c)
	}
	if (c.gone.Load() || c.ending) && !c.hasIn && !c.invalidated {
		p.acceptKnocks() // its knock may be its last act
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
	p.removeInbound(c)
	p.deaths.forget(c)
	if !p.polling || c.suspected.Load() { // else the report comes first
		p.ExitCause(c.peer)
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
	if !c.reader.handle.none() && !c.gone.Load() { // else the watcher has stopped watching it
		p.watch.forget(c)
	}
	p.ended = append(p.ended, endedPeer{c, givenUp})
	p.requestReap() // the next Poll releases it: the report comes first
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
