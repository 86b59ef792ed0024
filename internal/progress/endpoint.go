package progress

import (
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/shm"
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/few"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// State is the state of a peer, as known to this process.
type State uint8

// The states of a peer. A departed peer has finalized; a failed one is dead.
const (
	Alive State = iota
	Departed
	Failed
)

// Endpoint is the path to one peer. Use it with the engine's lock held, unless a method states
// otherwise.
type Endpoint struct {
	Proc  proc.ID
	State State
	// MaxFrame and Get are copies of the connection's Caps.
	MaxFrame int
	Get      bool
	// Lends is the longest payload of TryLend; 0 if the connection cannot lend.
	Lends int
	// AlwaysEager is the length up to which Eager is always true.
	AlwaysEager int
	// MaxEager is the length beyond which Eager is never true.
	MaxEager int

	// Accepted: the peer connected. Tried holds the reasons why earlier providers do not join the
	// pair; only the connecting side has them.
	Accepted bool
	Tried    []error
	// Reported: Report was called for the peer, so its end may be what another process believes.
	Reported bool

	shm  *shm.Conn // the connection, if it uses shared memory
	conn fabric.Conn
	by   fabric.Provider // the provider of the connection; only its reports of the peer's end count
	// lender, awaiter and fetcher are the connection, if it has these methods.
	lender  fabric.Lender
	awaiter fabric.Awaiter
	fetcher fabric.Fetcher
	viewer  fabric.Viewer // the same
	// announcer is the connection, if it has that method and is not over shared memory.
	announcer fabric.Announcer
	reply     int // Caps.Reply
	// turn is that of the peer when it was last looked at, patience the number of polls that a wait for
	// the peer may still take in it: see runs.
	turn     uint32
	patience int
}

// TrySend sends a frame to the peer; false means no credit. Preconditions as fabric.Conn.
func (ep *Endpoint) TrySend(class fabric.Class, imm uint64, payload []byte) bool {
	if ep.shm != nil {
		return ep.shm.TrySend(class, imm, payload)
	}
	return ep.conn.TrySend(class, imm, payload)
}

// TryShort is TrySend for the shortest frames by shared memory, inlined into its caller; false
// means: try TrySend.
func (ep *Endpoint) TryShort(class fabric.Class, imm uint64, payload []byte) bool {
	return ep.shm.TryShort(class, imm, payload)
}

// Eager reports whether the connection prefers to send a message of n bytes at once instead of
// announcing it.
func (ep *Endpoint) Eager(n int) bool {
	if ep.shm != nil {
		return ep.shm.Eager(n)
	}
	return n <= ep.MaxEager
}

// Ahead reports whether a message of n bytes may be sent at once to a peer that takes it late.
func (ep *Endpoint) Ahead(n int) bool { return ep.shm != nil && ep.shm.Ahead(n) }

// ReadInPlace reports whether the peer reads memory where it lies: in a block, or by its adapter.
func (ep *Endpoint) ReadInPlace(buf []byte) bool {
	if ep.shm != nil {
		return ep.shm.ReadInPlace(buf)
	}
	return ep.announcer != nil && ep.announcer.ReadInPlace(buf)
}

const (
	// awaitMax bounds how long Await polls one peer alone: about ten microseconds.
	awaitMax = 512
	// awaitCheck is the number of polls between two checks of the lock's contenders.
	awaitCheck = 64
	// awaitFrames is the number of frames after which the other peers get a turn, though this
	// peer's frames keep arriving.
	awaitFrames = 64
)

// patientAwait lets Await poll up to so many times.
func (e *Engine) patientAwait(polls int) {
	e.awaitLooks, e.awaitSpins = min(polls, awaitMax)/awaitCheck, min(polls, awaitCheck)+1
}

// AwaitFrame is Await over shared memory; elsewhere it does not wait. NotYet: no frame has come.
func (e *Engine) AwaitFrame(ep *Endpoint, class fabric.Class, imm uint64) int {
	if ep.shm == nil {
		return NotYet
	}
	return e.Await(ep, class, imm, nil)
}

// NotYet is the result of Await without a frame.
const NotYet = shm.NotYet

// Next gives the payload of the next frame of the peer where it lies, if the frame has come over shared memory, has
// that class and immediate and is short; else nil. Advance takes that frame.
func (ep *Endpoint) Next(class fabric.Class, imm uint64) []byte {
	if ep.shm == nil {
		return nil
	}
	return ep.shm.Next(class, imm)
}

// NextIs is Next for any immediate, which it gives.
func (ep *Endpoint) NextIs(class fabric.Class) (imm uint64, ok bool) {
	if ep.shm == nil {
		return 0, false
	}
	return ep.shm.NextIs(class)
}

// Advance takes the frame that Next or NextIs has given.
func (ep *Endpoint) Advance() { ep.shm.Advance() }

// ReadNow copies memory of the peer that this process has mapped, or does nothing.
func (ep *Endpoint) ReadNow(local []byte, remote fabric.Region) bool {
	return ep.shm != nil && ep.shm.ReadNow(local, remote)
}

// Offer lets the peer copy parts of an announced message into memory of this process: see shm.Conn.Offer.
func (ep *Endpoint) Offer(local []byte) (to fabric.Region, message uint32, ok bool) {
	if ep.shm == nil {
		return to, 0, false
	}
	return ep.shm.Offer(local)
}

// EndOffer allows the next Offer, and reports whether the message is complete. Precondition: the peer no longer writes.
func (ep *Endpoint) EndOffer() (complete bool) { return ep.shm == nil || ep.shm.EndOffer() }

// GetOffered copies an offered message, but for parts that the peer has claimed. It is called without the lock.
func (ep *Endpoint) GetOffered(local []byte, remote fabric.Region) (theirs bool, err error) {
	return ep.conn.(*shm.Conn).GetOffered(local, remote)
}

// Writes reports whether the peer, which has ended, may still be copying parts: see shm.Conn.Writes. It is called
// without the lock.
func (ep *Endpoint) Writes() bool { return ep.conn.(*shm.Conn).Writes() }

// Help copies some parts of a message that the peer offers: see shm.Conn.Help. It is called without the lock.
func (ep *Endpoint) Help(local []byte, to fabric.Region, message, mine uint32) (copied uint32, more, waits bool) {
	if c, ok := ep.conn.(*shm.Conn); ok {
		return c.Help(local, to, message, mine)
	}
	return mine, false, false
}

// Viewer is the connection if this process can look at memory of the peer; else nil.
func (ep *Endpoint) Viewer() fabric.Viewer { return ep.viewer }

// Await receives the next frame of the peer into buf, if it comes at once, has that class and
// immediate, and fits. It returns the length, or a negative number. It is a shortcut past Poll for
// a goroutine that waits for exactly that frame.
func (e *Engine) Await(ep *Endpoint, class fabric.Class, imm uint64, buf []byte) int {
	if ep.shm == nil {
		return e.awaitStream(ep, class, imm, buf)
	}
	if ep.shm.Received()%awaitFrames == 0 {
		return -1
	}
	for looks := e.awaitLooks; ; looks-- {
		if e.contenders.Load() != 0 {
			return -1
		}
		n := ep.shm.Await(class, imm, buf, e.awaitSpins)
		switch {
		case n != shm.NotYet:
			return n
		case looks > 0:
		case e.crowded:
			return e.awaitRunning(ep, class, imm, buf)
		default:
			return n
		}
	}
}

// awaitRunning is Await while the peer has a core.
func (e *Engine) awaitRunning(ep *Endpoint, class fabric.Class, imm uint64, buf []byte) int {
	for ep.runs(awaitPolls) && e.contenders.Load() == 0 {
		if n := ep.shm.Await(class, imm, buf, awaitPolls); n != shm.NotYet {
			ep.answered()
			return n
		}
	}
	return -1
}

// Spins is the number of polls of a wait before it yields, for callers that poll something of their
// own first. Precondition: the lock is held.
func (e *Engine) Spins() int { return e.spins }

// Contended reports whether a goroutine waits for the lock.
func (e *Engine) Contended() bool { return e.contenders.Load() != 0 }

// Reply is the length up to which the connection prefers to send an answer at once instead of
// announcing it.
func (ep *Endpoint) Reply() int {
	if ep.shm != nil {
		return ep.shm.Reply()
	}
	return ep.reply
}

// Received is the number of frames received from the peer, where the connection counts them; else
// 0.
func (ep *Endpoint) Received() uint64 {
	if ep.shm != nil {
		return ep.shm.Received()
	}
	if ep.lender != nil {
		return ep.lender.Received()
	}
	return 0
}

// Unsent reports whether the death of this process may lose a part of an accepted frame.
func (ep *Endpoint) Unsent() bool { return ep.lender != nil && ep.lender.Unsent() }

// Traffic counts the frames to and from the peer, where the connection counts them; else it is zero.
func (ep *Endpoint) Traffic() fabric.Traffic {
	if m, ok := ep.conn.(fabric.Meter); ok {
		return m.Traffic()
	}
	return fabric.Traffic{}
}

// Conn is the connection, for calls that are not on every message's path.
func (ep *Endpoint) Conn() fabric.Conn { return ep.conn }

// Fetcher is the connection if its adapter reads the peer's memory; else nil.
func (ep *Endpoint) Fetcher() fabric.Fetcher { return ep.fetcher }

func (ep *Endpoint) attach(c fabric.Conn) {
	caps := c.Caps()
	ep.conn = c
	ep.MaxFrame, ep.MaxEager, ep.Get = caps.MaxFrame, caps.Eager, caps.Get
	ep.AlwaysEager, ep.reply = ep.MaxEager, caps.Reply
	if l, ok := c.(fabric.Lender); ok {
		ep.lender, ep.Lends = l, l.Lends()
	}
	ep.awaiter, _ = c.(fabric.Awaiter)
	ep.fetcher, _ = c.(fabric.Fetcher)
	ep.viewer, _ = c.(fabric.Viewer)
	if s, ok := c.(*shm.Conn); ok {
		ep.shm, ep.AlwaysEager = s, s.AlwaysEager()
	} else if a, ok := c.(fabric.Announcer); ok {
		ep.announcer, ep.AlwaysEager = a, min(ep.MaxEager, ep.MaxFrame)
	}
}

const pageProcs = 64

// table maps process ids to endpoints. It allocates pages on first use, so that memory grows with
// the peers in use, plus n/8 bytes. That of a sparse engine grows with the peers only.
type table struct {
	pages  []*[pageProcs]*Endpoint
	sparse bool // few has them, and there are no pages
	few    few.Map[proc.ID, *Endpoint]
	// failed are peers of a sparse engine that failed without a connection. They have no endpoint in
	// memory: get makes one.
	failed ft.Set
}

func (t *table) get(id proc.ID) *Endpoint {
	if i := int(id / pageProcs); i < len(t.pages) && t.pages[i] != nil {
		return t.pages[i][id%pageProcs]
	}
	if ep := t.few.Get(id); ep != nil || !t.failed.Has(id) {
		return ep
	}
	return &Endpoint{Proc: id, State: Failed}
}

// disconnect sends frames through the contract, which defines the behaviour of a closed connection.
func (t *table) disconnect() {
	for _, page := range t.pages {
		for i := 0; page != nil && i < pageProcs; i++ {
			if page[i] != nil {
				page[i].shm = nil
			}
		}
	}
	for _, ep := range t.few.All() {
		ep.shm = nil
	}
}

func (t *table) put(ep *Endpoint) {
	if t.sparse {
		t.few.Put(ep.Proc, ep)
		return
	}
	i := int(ep.Proc / pageProcs)
	for len(t.pages) <= i {
		t.pages = append(t.pages, nil)
	}
	if t.pages[i] == nil {
		t.pages[i] = new([pageProcs]*Endpoint)
	}
	t.pages[i][ep.Proc%pageProcs] = ep
}
