package progress

import (
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/shm"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// State is what this process knows of a peer.
type State uint8

// The states of a peer. A departed peer has finalized; a failed one is dead.
const (
	Alive State = iota
	Departed
	Failed
)

// Endpoint is the way to one peer. It is used with the engine's lock held,
// except where a method says otherwise.
type Endpoint struct {
	Proc  proc.ID
	State State
	// MaxFrame and Get are Caps of the connection, at hand.
	MaxFrame int
	Get      bool
	// Lends is the longest payload of TryLend, 0 where there is none.
	Lends int
	// AlwaysEager is the length up to which Eager is true at all times.
	AlwaysEager int
	// MaxEager is the length beyond which Eager is never true.
	MaxEager int

	// Accepted: the peer connected. Tried says why the providers before this one do
	// not join the two; only who connects knows.
	Accepted bool
	Tried    []error

	shm  *shm.Conn // the connection, if it is by shared memory
	conn fabric.Conn
	by   fabric.Provider // whose connection it is, and who is believed about the end
	// lender is the connection, if it is one.
	lender  fabric.Lender
	awaiter fabric.Awaiter
	reply   int // Caps.Reply
}

// TrySend hands a frame to the peer; false means no credit. Preconditions as
// fabric.Conn.
func (ep *Endpoint) TrySend(class fabric.Class, imm uint64, payload []byte) bool {
	if ep.shm != nil {
		return ep.shm.TrySend(class, imm, payload)
	}
	return ep.conn.TrySend(class, imm, payload)
}

// TryShort is TrySend for the shortest frames by shared memory, inlined into
// its caller; false means: try TrySend.
func (ep *Endpoint) TryShort(class fabric.Class, imm uint64, payload []byte) bool {
	return ep.shm.TryShort(class, imm, payload)
}

// Eager reports whether the connection would rather have a message of n bytes
// sent at once than announced.
func (ep *Endpoint) Eager(n int) bool {
	if ep.shm != nil {
		return ep.shm.Eager(n)
	}
	return n <= ep.MaxEager
}

const (
	// awaitMax bounds how long Await looks at one peer only: about ten
	// microseconds, so that the others do not wait noticeably.
	awaitMax = 512
	// awaitCheck is how many of them pass between two looks at who wants the lock.
	awaitCheck = 64
	// awaitFrames is after how many frames the others get their turn, though this
	// peer's come without end. They are counted already.
	awaitFrames = 64
)

// Await receives the next frame of the peer into buf, if it comes at once, is
// of that class and immediate, and fits; it answers its length, or a negative
// number. It is a short way round Poll for who waits for just that frame.
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
		if n := ep.shm.Await(class, imm, buf, e.awaitSpins); n != shm.NotYet || looks == 0 {
			return n
		}
	}
}

// Spins is how often a wait looks before it yields, for who looks at something of its own before it
// waits. Precondition: the lock is held.
func (e *Engine) Spins() int { return e.spins }

// Contended reports whether somebody waits for the lock.
func (e *Engine) Contended() bool { return e.contenders.Load() != 0 }

// Reply is the length up to which the connection would rather have an answer sent
// at once than announced.
func (ep *Endpoint) Reply() int {
	if ep.shm != nil {
		return ep.shm.Reply()
	}
	return ep.reply
}

// Received is the number of frames that have come from the peer, where the
// connection counts them; else 0.
func (ep *Endpoint) Received() uint64 {
	if ep.shm != nil {
		return ep.shm.Received()
	}
	if ep.lender != nil {
		return ep.lender.Received()
	}
	return 0
}

// Conn is the connection, for what is not on every message's path.
func (ep *Endpoint) Conn() fabric.Conn { return ep.conn }

func (ep *Endpoint) attach(c fabric.Conn) {
	caps := c.Caps()
	ep.conn = c
	ep.MaxFrame, ep.MaxEager, ep.Get = caps.MaxFrame, caps.Eager, caps.Get
	ep.AlwaysEager, ep.reply = ep.MaxEager, caps.Reply
	if l, ok := c.(fabric.Lender); ok {
		ep.lender, ep.Lends = l, l.Lends()
	}
	ep.awaiter, _ = c.(fabric.Awaiter)
	if s, ok := c.(*shm.Conn); ok {
		ep.shm, ep.AlwaysEager = s, s.AlwaysEager()
	}
}

const pageProcs = 64

// table maps process ids to endpoints: pages made on first use, so that memory
// follows the peers talked to plus n/8 bytes.
type table struct{ pages []*[pageProcs]*Endpoint }

func (t *table) get(id proc.ID) *Endpoint {
	if i := int(id / pageProcs); i < len(t.pages) && t.pages[i] != nil {
		return t.pages[i][id%pageProcs]
	}
	return nil
}

// disconnect has frames go by the contract, which says what a closed connection
// does.
func (t *table) disconnect() {
	for _, page := range t.pages {
		for i := 0; page != nil && i < pageProcs; i++ {
			if page[i] != nil {
				page[i].shm = nil
			}
		}
	}
}

func (t *table) put(ep *Endpoint) {
	i := int(ep.Proc / pageProcs)
	for len(t.pages) <= i {
		t.pages = append(t.pages, nil)
	}
	if t.pages[i] == nil {
		t.pages[i] = new([pageProcs]*Endpoint)
	}
	t.pages[i][ep.Proc%pageProcs] = ep
}
