package fabric

import (
	"errors"
	"fmt"

	"github.com/banyan-hpc/banyan/internal/proc"
)

// ErrUnsupported is the error of an operation that a provider does not have. Check [Caps] first.
var ErrUnsupported = errors.New("fabric: not supported by this provider")

// ErrClosed is the error of an operation on a closed provider or connection.
var ErrClosed = errors.New("fabric: closed")

// ErrPeerGone is the error of a Get or Connect whose peer ended before or during it.
var ErrPeerGone = errors.New("fabric: peer is gone")

// GoneError is ErrPeerGone with the cause of the peer's end.
type GoneError struct{ Cause proc.Cause }

// Error includes the cause.
func (e *GoneError) Error() string { return fmt.Sprintf("%v: %v", ErrPeerGone, e.Cause) }

// Unwrap returns ErrPeerGone.
func (e *GoneError) Unwrap() error { return ErrPeerGone }

// ErrNoPath is the error of Connect where the medium does not join these two processes and never
// will. The provider makes sure that the peer's Connect to this process returns the same, whichever
// was first. So another provider may be used for the pair.
var ErrNoPath = errors.New("fabric: no path to the peer on this medium")

// ErrNoAddress is the error of a look-up of a peer's address that is not known anywhere. The peer
// may still connect.
var ErrNoAddress = errors.New("fabric: the address of the peer is unknown")

// Class selects the part of the engine that handles a frame. The values are part of the wire
// format. Zero is no class.
type Class uint8

// The classes. Point-to-point has several, so that a frame needs no second header; control classes
// bypass matching and so work on revoked communicators.
const (
	ClassEager  Class = 1 // p2p: a whole message
	ClassFirst  Class = 2 // p2p: announces an eager message in fragments
	ClassFrag   Class = 3 // p2p: the next fragment of the stream from this peer
	ClassRTS    Class = 4 // p2p: request to send (rendezvous)
	ClassCTS    Class = 5 // p2p: clear to send: stream the data
	ClassFin    Class = 6 // p2p: the data have been pulled
	ClassFlow   Class = 7 // p2p: requests and grants of room for unexpected messages
	ClassColl   Class = 8 // collective fast paths
	ClassRMA    Class = 9 // p2p/rma: operations on windows
	ClassDetect Class = 16
	ClassRevoke Class = 17
	ClassAgree  Class = 18
	// ClassCorrected: collectives that complete in spite of unknown failures.
	ClassCorrected Class = 19
	ClassTest      Class = 24 // conformance tests; never sent by the engine
	// NumClasses bounds the classes: a larger one is corrupt.
	NumClasses = 32
)

// Sink receives the frames and events that a provider's Poll finds. The engine fills it once,
// before the first Poll. Frames of a class with nil Deliver are dropped and counted.
type Sink struct {
	// Deliver gets the sender, the 64-bit immediate and the borrowed payload.
	Deliver [NumClasses]func(from proc.ID, imm uint64, payload []byte)
	// Down reports that a peer failed; at most once per peer, never after Departed.
	Down func(peer proc.ID, cause proc.Cause)
	// Departed reports an orderly departure; at most once per peer.
	Departed func(peer proc.ID)
	// Place, if set, may be asked for the buffer of an arriving frame of n bytes, at most once per
	// frame, when its beginning has arrived; nil: no particular one. The payload is written to the
	// buffer as it arrives, also by later calls of Poll, until Placed reports that it is complete,
	// instead of Deliver. After Down, Departed or Invalidate nothing is written there any more.
	Place  func(from proc.ID, class Class, imm uint64, n int) []byte
	Placed func(from proc.ID, class Class, imm uint64, n int)
	// Returned reports that the n oldest payloads lent to a peer (Lender) may be changed again.
	Returned func(peer proc.ID, n int)
	// Moved reports that the n oldest parts that a Mover has started are complete, at the peer and here. Lost: they may
	// have been done, in part or not at all, and nothing of them happens any more, at the peer and here. It is not
	// called after the peer's end.
	Moved func(peer proc.ID, n int, lost bool)
	// Fetched reports that the read that a Fetcher has started under that token is complete, or has failed with err:
	// then the contents of local are undefined, and nothing is written there any more.
	Fetched func(peer proc.ID, token uint64, err error)
}

// LinkClass is the distance between two processes of a simulated machine.
type LinkClass uint8

// The link classes, nearest first.
const (
	LinkSelf LinkClass = iota
	LinkNode
	LinkSwitch
	LinkAcross
)

// Caps are the capabilities of a connection. Sizes are bytes.
type Caps struct {
	Inline   int // longest payload within the header's own cache line or work request
	MaxFrame int // longest payload of TrySend
	Eager    int // suggested limit of the eager protocol
	Reply    int // the same for answers, if that is higher
	Get      bool
}

// Region names a piece of one process's memory for a peer. Key is opaque except to the provider
// that issued it; it is empty where the medium needs none.
type Region struct {
	Addr uint64
	Len  uint64
	Key  []byte
}

// ConnectSpec names the peer of a connection.
type ConnectSpec struct {
	Peer    proc.ID
	Address []byte // the result of the peer's Provider.Address
}

// Conn is a connection to one peer.
type Conn interface {
	// Peer is the process at the other end.
	Peer() proc.ID
	// Caps are fixed once the connection exists.
	Caps() Caps
	// TrySend sends one frame. It copies payload before it returns; it neither blocks nor
	// allocates. False means no credit: make progress and try again. Frames to an ended peer are
	// accepted or refused, never delivered; after Depart or Close they are refused.
	//
	// Preconditions: 0 < class < NumClasses, len(payload) <= Caps().MaxFrame.
	TrySend(class Class, imm uint64, payload []byte) bool
	// Expose makes local memory readable for the peer's Get. The caller keeps buf reachable and
	// unmoved (heap, not stack) until the peer is done.
	Expose(buf []byte) (Region, error)
	// Get copies from the peer's memory into local, len(local) bytes from remote.Addr+offset. It is
	// called without the engine's lock, from any goroutine, and is complete when it returns; on
	// error the contents of local are undefined. Errors: ErrUnsupported, ErrPeerGone, or one that
	// names the system call and the remedy.
	Get(local []byte, remote Region, offset uint64) error
	// Invalidate cuts the peer off: from now on nothing from it is delivered and nothing is sent to
	// it (rule E3), whether or not a frame of it has arrived. It does not wait.
	Invalidate()
}

// Lender is a Conn that can send a long payload without keeping a copy of it.
type Lender interface {
	Conn
	// TryLend is TrySend for a payload of 1 to Lends bytes that stays in place, reachable, unmoved
	// and unchanged, until Sink.Returned reports it.
	TryLend(class Class, imm uint64, payload []byte) bool
	// Received counts the frames from the peer, to distinguish an answer from an unrequested
	// message.
	Received() uint64
	// Lends is the longest payload of TryLend.
	Lends() int
	// Unsent reports whether the death of this process may lose a part of an accepted frame, because it
	// waits for room in the operating system or at the peer. Ready is true when that changes.
	Unsent() bool
	// DetachBuffers makes the connection continue without memory of others: lent payloads are
	// copied, and placed ones are read to the end and dropped. Neither is reported.
	DetachBuffers()
}

// Fetcher is a Conn whose adapter reads memory of the peer while this process does other things. The regions of Expose have a
// key then; Get does not read them.
type Fetcher interface {
	Conn
	// Fetch starts to read from remote into local, all of it, which stays in place until Sink.Fetched reports the token. Any
	// number of reads may be under way; they end in any order. Nothing is written to local after Down, Departed, Invalidate
	// and EndFetches, and nothing reported. On error nothing has started: errors as of Get.
	//
	// Preconditions: as TrySend.
	Fetch(local []byte, remote Region, token uint64) error
	// EndFetches ends all that is under way.
	EndFetches()
}

// Announcer is a Conn over which the peer reads some memory in place.
type Announcer interface {
	Conn
	// ReadInPlace reports whether a message from there is better announced.
	ReadInPlace(buf []byte) bool
}

// Traffic counts the frames of a connection since it was made, and its interruptions.
type Traffic struct {
	Sent, Received uint64 // frames, of all classes
	Broken, Healed uint64
}

// Burster is a Provider that may keep short frames back for others that follow. EndBurst sends them. It
// reports whether all frames that connections have accepted are with the operating system, so that the
// death of this process loses none. Preconditions: as Poll.
type Burster interface {
	Provider
	EndBurst() (all bool)
}

// Meter is a Conn that counts its traffic. The engine calls it with its lock held.
type Meter interface {
	Conn
	// Traffic counts since the connection was made.
	Traffic() Traffic
}

// Awaiter is a Conn with a shortcut past Poll, for a goroutine that waits for one frame.
type Awaiter interface {
	Lender
	// Await polls a number of times for the next frame of the peer and receives it into buf, if it
	// has that class and immediate, fits, and comes alone. It returns its length, NotYet if nothing
	// came, or less: then Poll delivers it.
	Await(class Class, imm uint64, buf []byte, looks int) int
}

// NotYet is the result of Await when nothing has arrived.
const NotYet = -1

// Provider is one process's endpoint on one medium.
type Provider interface {
	// Name is "shm", "tcp", "verbs" or "sim".
	Name() string
	// Address is the blob by which peers connect: opaque, at most 256 bytes.
	Address() []byte
	// Connect makes the connection to a peer, or returns the existing one. It does not wait for the
	// peer: until the medium is ready TrySend returns false. ErrPeerGone, or a GoneError if the
	// cause is known: the peer has ended, and nothing of it will arrive.
	Connect(spec ConnectSpec) (Conn, error)
	// Lookup returns the connection to a peer, whichever side made it, or nil. A peer whose frames
	// Poll has delivered has one.
	Lookup(peer proc.ID) Conn
	// Inform reports to the provider that a peer has ended, as known from elsewhere. The next calls
	// of Poll deliver its arrived frames, then Down reports it with this cause, unless its
	// end has been reported or the provider has evidence of its own. A peer without a connection is
	// barred: its end is not reported, Connect returns ErrPeerGone, and a process that connects as
	// that peer is refused, which it may see as Down with cause proc.Refused. A provider that can
	// kill the peer does so, in case it is alive, and then reports proc.Fenced for a silent one
	// (proc.Heartbeat). It does not wait, and may be called by functions of the Sink.
	//
	// Preconditions: cause.Failed(), peer is another process.
	Inform(peer proc.ID, cause proc.Cause)
	// Poll delivers arrived frames and evidence into s, a bounded number, and returns the number.
	// It returns 0 only if there was nothing.
	Poll(s *Sink) int
	// Ready reports, after Host.Arm, whether Poll would deliver something or a connection that
	// refused a frame has credit again: the latter once per return of credit, because the sender
	// may have given up.
	Ready() bool
	// Depart announces an orderly departure on every connection, after all frames sent before, and
	// to later newcomers. Nothing can be sent after it: TrySend returns false, Connect ErrClosed.
	Depart()
	// Close frees everything, also with traffic in flight. It announces nothing to peers beyond
	// Depart: without Depart they see a failure.
	Close() error
}

// Registrar is a Provider whose adapter reads and writes memory itself. Expose of registered memory returns a region
// with a key, and Get reads into registered memory without a copy.
type Registrar interface {
	Provider
	// Register lets the adapter reach memory, which stays in place until Deregister or Close. It is pinned when it is
	// first used; memory that cannot be is used as if it were not registered. Any goroutine may call it.
	Register(mem []byte)
	// Deregister ends the registration: a Get of a peer from it fails. The memory must not be in use. Any
	// goroutine may call it.
	Deregister(mem []byte)
}

// Sharer is a Provider whose adapter lets peers write and read memory of this process without its participation.
type Sharer interface {
	Provider
	// Share lets peers access memory, which must stay in place, until Unshare or Close. Errors name the missing
	// feature, or are ErrClosed. Any goroutine may call it.
	Share(mem []byte) (Region, error)
	// Unshare ends the access: operations of peers under way are lost, and nothing is written to the memory once it
	// has returned. Any goroutine may call it.
	Unshare(r Region)
}

// Mover is a Conn to a peer that writes and reads shared memory of the peer (Sharer).
type Mover interface {
	Conn
	// Moves reports whether there is a path at the moment: TryPut and TryGet are not NoPath.
	Moves() bool
	// TryPut starts to write a first part of local to the shared memory remote, at an offset, and gives its length. Local
	// stays in place, unchanged, until Sink.Moved reports the part. NoRoom: make progress and try again. NoPath: use
	// frames. Parts are complete in any order towards frames of TrySend, and towards each other where they overlap.
	//
	// Preconditions: len(local) > 0, and as TrySend.
	TryPut(local []byte, remote Region, offset uint64) (n int)
	// TryGet is TryPut in the other direction: it reads into local.
	TryGet(local []byte, remote Region, offset uint64) (n int)
	// TryNotify is TryPut with a frame behind the part that ends local, if that is all of local. The frame is delivered once
	// the part is complete at the peer, and all parts of earlier calls that put. It is complete with its part: if that is
	// reported as lost, the frame may have been delivered, and is not afterwards.
	TryNotify(local []byte, remote Region, offset uint64, class Class, imm uint64, payload []byte) (n int)
}

// The results of a Mover that starts nothing.
const (
	NoRoom = 0
	NoPath = -1
)

// BlockName names a block among the processes that may open it.
type BlockName [24]byte

// Blocks is a Provider over which processes share memory: a block is memory of one process that others
// map. It stays as long as one of them uses it, also if others die, and is not used again for something else.
// So a process that is about to die changes nothing but the block.
type Blocks interface {
	Provider
	// MakeBlock makes a block of n > 0 zeroed bytes, aligned to 8. Any goroutine may call it. Errors name
	// the missing memory or permission; ErrUnsupported: this provider makes none.
	MakeBlock(n int) (mem []byte, name BlockName, err error)
	// OpenBlock maps n bytes of a block of a connected peer. Errors: ErrPeerGone, ErrUnsupported, or one
	// that describes an invalid name or memory. Preconditions: as Poll.
	OpenBlock(owner proc.ID, name BlockName, n int) ([]byte, error)
	// BlockOf gives the block of this process that holds memory: its name and length, and where the memory begins
	// in it. False: there is none. Any goroutine may call it.
	BlockOf(mem []byte) (name BlockName, length, at int, ok bool)
	// CloseBlock ends the use of memory of MakeBlock or OpenBlock. Any goroutine may call it.
	CloseBlock(mem []byte) error
}

// Viewer is a Conn of a provider with Blocks: this process can look at memory in blocks of the peer.
type Viewer interface {
	Conn
	// View maps the memory that the peer has exposed, read only, until end is called, once, by any
	// goroutine. The view outlives the peer, the connection and the owner's use of the block. A view that
	// is alone has a mapping of its own, so that every access after end is a fault. Errors: ErrUnsupported
	// for memory outside of blocks, ErrPeerGone, or one that describes the invalid region. Preconditions:
	// as Poll.
	View(remote Region, alone bool) (mem []byte, end func() error, err error)
}

// Time is nanoseconds since an origin fixed per job in the simulator and per process elsewhere.
// Only differences have a meaning.
type Time int64

// Forever is a deadline that never comes.
const Forever = Time(1<<63 - 1)

// Parker lets one goroutine wait until another unparks it. An Unpark before the Park is kept, one
// of them.
type Parker interface {
	Park()
	// ParkUntil is Park that also ends at a time of Host.Now.
	ParkUntil(deadline Time)
	Unpark()
}

// Host is the clock, the scheduler and the one sleeping place of a process. All waiting and
// concurrency below the root package uses it, so that the simulator can control both.
type Host interface {
	// Now is the time. Virtual in the simulator.
	Now() Time
	// Go starts fn as a concurrent activity of this process.
	Go(fn func())
	// Pause returns after about d nanoseconds. Any activity may pause; the bell does not end it.
	Pause(d Time)
	// NewParker makes a parker for one goroutine at a time.
	NewParker() Parker
	// Patience is the number of polls without result before the engine yields, and the number, and
	// the longest time, of yields before it sleeps.
	Patience() (spins, yields int, most Time)
	// Yield lets others run: goroutines of this process, then processes of this machine.
	Yield()
	// Relax is Yield for a goroutine that polls repeatedly without result: other processes first,
	// and goroutines of this one at least now and then, or as soon as they have a processor.
	Relax()
	// Wanted lets the other goroutines of this process run, and reports whether they have kept its
	// processors for long: a sleep would then keep one of them from them.
	Wanted() bool
	// Arm announces that the process is about to sleep. Every later arrival rings the bell;
	// Provider.Ready finds earlier ones.
	Arm()
	// Sleep ends at the first ring since Arm or at the deadline. It also disarms.
	Sleep(until Time)
	// Disarm undoes Arm without sleeping.
	Disarm()
	// Ring wakes this process from Sleep. Any goroutine may call it.
	Ring()
}
