package fabric

import (
	"errors"
	"fmt"

	"github.com/banyan-hpc/banyan/internal/proc"
)

// ErrUnsupported answers an operation that a provider does not have. Ask
// [Caps] first.
var ErrUnsupported = errors.New("fabric: not supported by this provider")

// ErrClosed answers an operation on a closed provider or connection.
var ErrClosed = errors.New("fabric: closed")

// ErrPeerGone answers a Get or Put whose peer ended before or during it.
var ErrPeerGone = errors.New("fabric: peer is gone")

// GoneError is ErrPeerGone of a peer of whose end more is known.
type GoneError struct{ Cause proc.Cause }

// Error says how the peer ended.
func (e *GoneError) Error() string { return fmt.Sprintf("%v: %v", ErrPeerGone, e.Cause) }

// Unwrap gives the class.
func (e *GoneError) Unwrap() error { return ErrPeerGone }

// ErrNoPath answers Connect where the medium does not join these two processes
// and never will: the provider has seen to it that the peer's Connect to this
// process gets the same answer, whichever was first. So another provider may be
// used for the pair.
var ErrNoPath = errors.New("fabric: no path to the peer on this medium")

// ErrNoAddress answers the question for the address of a peer where nobody can tell it. Nothing is
// known of the peer then; it may connect.
var ErrNoAddress = errors.New("fabric: nobody can tell the address of the peer")

// Class says which part of the engine a frame is for. The values are part of
// the wire format. Zero is no class.
type Class uint8

// The classes. Point-to-point owns several, so that a frame needs no second
// header; control classes bypass matching and so work on revoked communicators.
const (
	ClassEager  Class = 1 // p2p: a whole message
	ClassFirst  Class = 2 // p2p: announces an eager message in fragments
	ClassFrag   Class = 3 // p2p: the next fragment of the stream from this peer
	ClassRTS    Class = 4 // p2p: request to send (rendezvous)
	ClassCTS    Class = 5 // p2p: clear to send: stream the data
	ClassFin    Class = 6 // p2p: the data have been pulled
	ClassFlow   Class = 7 // p2p: room for unexpected messages: asked for, granted
	ClassColl   Class = 8 // collective fast paths
	ClassDetect Class = 16
	ClassRevoke Class = 17
	ClassAgree  Class = 18
	ClassTest   Class = 24 // conformance tests; never sent by the engine
	// NumClasses bounds the classes: a larger one is corrupt.
	NumClasses = 32
)

// Sink receives what a provider's Poll finds. The engine fills it once, before
// the first Poll. Deliver[c] is nil where nothing listens: such frames are
// dropped and counted.
type Sink struct {
	// Deliver gets the sender, the 64-bit immediate and the borrowed payload.
	Deliver [NumClasses]func(from proc.ID, imm uint64, payload []byte)
	// Down reports that a peer failed; at most once per peer, never after
	// Departed.
	Down func(peer proc.ID, cause proc.Cause)
	// Departed reports an orderly departure; at most once per peer.
	Departed func(peer proc.ID)
	// Place, if set, may be asked where the payload of an arriving frame of n bytes
	// should go, at most once per frame, when its beginning has come; nil: nowhere
	// in particular. What has a place is written there as it arrives, also by later
	// calls of Poll, until Placed tells that it is whole, in Deliver's stead. After
	// Down, Departed or Invalidate nothing is written there any more.
	Place  func(from proc.ID, class Class, imm uint64, n int) []byte
	Placed func(from proc.ID, class Class, imm uint64, n int)
	// Returned tells that the n oldest payloads lent to a peer (Lender) may be
	// changed again.
	Returned func(peer proc.ID, n int)
}

// LinkClass orders media by distance, for the choice of trees and thresholds.
type LinkClass uint8

// The link classes, nearest first.
const (
	LinkSelf LinkClass = iota
	LinkNode
	LinkSwitch
	LinkAcross
)

// Caps states what a connection can do and how fast about. Sizes are bytes.
type Caps struct {
	Inline   int // payload up to here travels in the header's own cache line or work request
	MaxFrame int // largest payload of TrySend
	Eager    int // suggested limit of the eager protocol
	Reply    int // the same for answers, where that is higher
	Get      bool
	// GetBlocks: Get copies in the calling thread, so it is called without the
	// engine's lock and is complete when it returns.
	GetBlocks bool
	Put       bool
	Link      LinkClass
	LatencyNs int // one way, order of magnitude
	MBps      int // bandwidth, order of magnitude
}

// MemKind is where memory lies.
type MemKind uint8

// MemHost is ordinary memory of the process. Device kinds will follow.
const MemHost MemKind = 0

// Region is a piece of one process's memory as a peer names it. Key is opaque
// to everybody but the provider that issued it; it is empty where the medium
// needs none.
type Region struct {
	Addr uint64
	Len  uint64
	Kind MemKind
	Key  []byte
}

// Rail numbers parallel connections between one pair of processes.
type Rail uint8

// ConnectSpec says to whom to connect.
type ConnectSpec struct {
	Peer    proc.ID
	Address []byte // the blob that the peer's Provider.Address gave
	Rail    Rail
}

// Conn is a connection to one peer.
type Conn interface {
	// Peer is the process at the other end.
	Peer() proc.ID
	// Caps are fixed once the connection exists.
	Caps() Caps
	// TrySend hands over one frame. It copies payload before it returns; it
	// neither blocks nor allocates. False means no credit: make progress and
	// try again. Frames to a peer that is gone are accepted or refused, never
	// delivered; once this process has departed or closed they are refused.
	//
	// Preconditions: 0 < class < NumClasses, len(payload) <= Caps().MaxFrame.
	TrySend(class Class, imm uint64, payload []byte) bool
	// Expose names local memory so that the peer can Get it. The caller keeps
	// buf reachable and unmoved (heap, not stack) until the peer is done.
	Expose(buf []byte) (Region, error)
	// Get copies from the peer's memory into local, len(local) bytes from
	// remote.Addr+offset. With Caps.GetBlocks it is called without the
	// engine's lock, from any goroutine, and is complete when it returns;
	// on error the contents of local are undefined. Errors: ErrUnsupported,
	// ErrPeerGone, or one that names the system call and the cure.
	Get(local []byte, remote Region, offset uint64) error
	// Invalidate cuts the peer off: from now on nothing from it is delivered
	// and nothing is sent to it (rule E3), whether it has been heard before or
	// not. It does not wait.
	Invalidate()
}

// Lender is a Conn that can send a payload without keeping a copy of it, for
// long messages.
type Lender interface {
	Conn
	// TryLend is TrySend for a payload of 1 to Lends bytes that stays where it is,
	// reachable, unmoved and unchanged, until Sink.Returned has told so.
	TryLend(class Class, imm uint64, payload []byte) bool
	// Received counts the frames that have come from the peer, so that an answer can be
	// told from a message that nobody has asked for.
	Received() uint64
	// Lends is the longest payload of TryLend.
	Lends() int
	// DetachBuffers has the connection go on without memory that is not its own: what is
	// lent is copied, and what has a place is read to the end and dropped. Nobody
	// is told of either.
	DetachBuffers()
}

// Awaiter is a Conn with a short way round Poll, for who waits for one frame.
type Awaiter interface {
	Lender
	// Await looks a number of times for the next frame of the peer and receives it
	// into buf, if it is of that class and immediate, fits, and comes alone. It answers
	// its length, NotYet if nothing came, or less: what came is Poll's.
	Await(class Class, imm uint64, buf []byte, looks int) int
}

// NotYet is what Await answers when nothing has come.
const NotYet = -1

// Provider is one process's endpoint on one medium.
type Provider interface {
	// Name is "shm", "tcp", "verbs" or "sim".
	Name() string
	// Address is the blob by which peers connect: opaque, at most 256 bytes.
	Address() []byte
	// Connect makes the connection to a peer, or gives the one that exists.
	// It does not wait for the peer: until the medium is ready TrySend answers
	// false. ErrPeerGone, a GoneError where it is known how: the peer has ended, and
	// nothing of it will come.
	Connect(spec ConnectSpec) (Conn, error)
	// Lookup gives the connection to a peer if there is one, whichever side
	// made it; else nil. A peer whose frames Poll has delivered has one.
	Lookup(peer proc.ID) Conn
	// Inform tells the provider that a peer has ended, as is known from elsewhere.
	// What has arrived from it is delivered by the next calls of Poll, then Down
	// reports it with this cause, unless its end has been reported or evidence of
	// its own says how the peer ended. One that there is no connection to is barred:
	// nobody is told, Connect answers ErrPeerGone, and whoever comes as that peer is
	// refused, which it may learn as Down with cause proc.Expelled. A provider that may
	// kill the peer does so, lest it live after all, and then says proc.Fenced of one that
	// was silent (proc.Heartbeat). It does not wait, and may be called
	// by what Poll calls.
	//
	// Preconditions: cause.Failed(), peer is another process.
	Inform(peer proc.ID, cause proc.Cause)
	// Poll delivers arrived frames and evidence into s, a bounded number, and
	// says how many. It returns 0 only if nothing was there.
	Poll(s *Sink) int
	// Ready reports, after Host.Arm, whether Poll would deliver something or
	// a connection that refused a frame has credit again: the latter once per
	// return of credit, because the sender may have given up.
	Ready() bool
	// Depart announces an orderly departure on every connection, after what
	// was sent before, and to whoever connects later. Nothing can be sent after
	// it: TrySend answers false, Connect ErrClosed.
	Depart()
	// Close frees everything, also with traffic in flight. It does not tell
	// peers more than Depart did: without Depart they see a failure.
	Close() error
}

// Time is nanoseconds since an origin fixed per job in the simulator and per
// process elsewhere. Only differences mean something.
type Time int64

// Forever is a deadline that never comes.
const Forever = Time(1<<63 - 1)

// Parker lets one goroutine wait until another unparks it. An Unpark before
// the Park is kept, one of them.
type Parker interface {
	Park()
	// ParkUntil is Park that also ends at a time of Host.Now.
	ParkUntil(deadline Time)
	Unpark()
}

// Host is the clock, the scheduler and the one sleeping place of a process.
// All waiting and concurrency below the root package goes through it, so that
// the simulator can own both.
type Host interface {
	// Now is the time. Virtual in the simulator.
	Now() Time
	// Go starts fn as a concurrent activity of this process.
	Go(fn func())
	// Pause returns after about d nanoseconds. Any activity may pause; the bell
	// does not end it.
	Pause(d Time)
	// NewParker makes a parker for one goroutine at a time.
	NewParker() Parker
	// Patience is how often the engine polls without result before it yields,
	// and how often, and for how long at most, it yields before it sleeps.
	Patience() (spins, yields int, most Time)
	// Yield lets others run: goroutines of this process, then processes of
	// this machine.
	Yield()
	// Relax is Yield for who polls in vain again and again: other processes first, and
	// goroutines of this one at least now and then, or as soon as they have a processor.
	Relax()
	// Arm announces that the process is about to sleep. After it every arrival
	// rings the bell; what arrived before is found by Provider.Ready.
	Arm()
	// Sleep ends at the first ring since Arm or at the deadline. It also
	// disarms.
	Sleep(until Time)
	// Disarm undoes Arm without sleeping.
	Disarm()
	// Ring wakes this process from Sleep. Any goroutine may call it.
	Ring()
}
