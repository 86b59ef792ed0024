package control

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/ft/agree"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// Revocations notifies the members of a communicator that it has been revoked. If one living member
// knows of a revocation, all living members learn of it (ULFM 17.3.1). It has two ways.
//
// Without failures a notice goes down the binomial tree whose root is the revoking member: one
// frame for each member.
//
// The notice floods a binomial graph as soon as a member is known to have ended, or does not have
// the communicator, or two members have revoked at once. Among the members in their order, without
// those known to have ended, each notifies the ones at the distances 1, 2, 4 … in both directions,
// once, and again when the graph closes over a gap. A flood reaches all members that the trees have
// missed: the graph is connected among members that know the same ends, and each end becomes known
// to all. Two trees may miss a member, as each stops where the other has been; but the member where
// it stops has received both, and floods.
//
// A member may not have the communicator: it makes it later, has failed to make it, or has
// forgotten it. It does not know the other members, so it cannot forward the notice, and answers
// that it is absent. A member that receives this answer bypasses it like an ended one: along the
// ring of distance 1 each notified member finds the next one in each direction that lives and has
// the communicator. If the absent member makes the communicator later, it is revoked from the
// start, and the member sends notices as if it had revoked it, because the member that notified it
// may have failed before the answer arrived.
//
// So in a revocation among many members each sends at most one frame to each child and each
// neighbour, and one more for each ended and each absent member.
//
// Among few members, the revoking member and each newly notified one first notify all that they are
// connected to: a process that shares a core and is not notified by its next turn waits until all
// others on the core have run. A notice names the members that have been sent one; no other member
// notifies these, in the tree either. A frame that has been sent arrives unless its sender or
// receiver ends, and then all flood.
//
// Its methods are called with the engine's lock held.
type Revocations struct {
	e         *progress.Engine
	out       *Outbox
	onNotice  func(context uint32) (known, news bool) // see StartRevocations
	onUnknown func(context uint32)                    // the same

	records  map[uint32]*revocation
	recent   []recentNotice // not in records yet: that takes as long as everything else, and is not urgent
	catchUp  func()         // recordRecent, bound once
	order    []uint32       // of records: the oldest first
	ended    ft.Set         // processes that have ended
	flatSize int            // up to this size all connected members are notified at once
	current  notice         // the received notice that is being handled, if handling
	handling bool
	stopped  bool
	batch    *batch            // collects notices; nil: they are sent at once
	frame    [noticeBytes]byte // scratch
}

// batch collects notices, to be sent in as few frames for each member as possible.
type batch struct {
	receivers []proc.ID // in the order of their first notice
	frames    map[proc.ID][]byte
}

// revocation is a revocation that this process knows.
type revocation struct {
	members agree.Group
	root    uint32    // root of its tree; or rootFlood
	absent  ft.Set    // members that do not have the communicator
	flooded []proc.ID // members notified over the graph
	room    [16]proc.ID
}

// recentNotice is a call of Notify that is not in records yet.
type recentNotice struct {
	notice
	members agree.Group
}

// notice is the content of frames: a communicator has been revoked, by the member root. Among few
// members, notified has a bit for each rank that has been sent a notice with this root.
type notice struct {
	context, root uint32
	notified      uint64
}

// Special roots.
const (
	rootFlood  = 1<<32 - 1 // the notice is to be flooded
	rootAbsent = 1<<32 - 2 // the notice is an answer: its sender does not have the communicator
)

const (
	noticeBytes = 16
	// notifyAllMax is the number of bits of notice.notified. A frame takes 0.1 µs, a turn of a
	// process that shares a core 2 µs.
	notifyAllMax = 64
	// maxNotices bounds the notices of a frame.
	maxNotices = 16
	// maxRevocations bounds the records. A member that missed an older revocation, because all
	// members that were to notify it have failed, is not notified any more.
	maxRevocations = 1024
)

// StartRevocations is called once, before the first frame can arrive.
//
// hear gets the context of a communicator that another member has revoked. It returns known if this
// process has the communicator, in which case Notify has been called, now or before; and news if it
// was not revoked before. wait gets a context that is not known: if the communicator is made later,
// Notify is to be called then.
func StartRevocations(
	e *progress.Engine, out *Outbox, hear func(context uint32) (known, news bool), wait func(context uint32),
) *Revocations {
	r := &Revocations{e: e, out: out, onNotice: hear, onUnknown: wait,
		flatSize: notifyAllMax}
	r.catchUp = r.recordRecent
	e.Handle(fabric.ClassRevoke, r.onFrame)
	e.OnEndLater(r.onEnd)
	return r
}

// Notify forwards that a communicator has been revoked, by this process or by the notice at hand.
// The members are in the same order at all of them and include this process.
func (r *Revocations) Notify(context uint32, members agree.Group) {
	if r.stopped {
		return
	}
	r.e.FinishEnds() // so that the notice of a failure is sent before
	n := notice{context: context, root: uint32(members.Rank(r.e.Self()))}
	if r.handling && r.current.context == context {
		n = r.current
	}
	if r.recent = append(r.recent, recentNotice{n, members}); len(r.recent) == 1 {
		r.e.Defer(r.catchUp)
	}
	switch size := members.Size(); {
	case int64(n.root) >= int64(size) || r.anyEnded(members):
		r.recordRecent()
		r.flood(context, r.records[context])
	case size <= r.flatSize:
		r.notifyAll(n, members)
	default:
		r.notifyChildren(n, members)
	}
}

// recordRecent moves the recent notices to the records.
func (r *Revocations) recordRecent() {
	for _, t := range r.recent {
		r.record(t.context, &revocation{members: t.members, root: t.root})
	}
	clear(r.recent)
	r.recent = r.recent[:0]
}

func (r *Revocations) record(context uint32, v *revocation) {
	if r.records[context] == nil {
		if len(r.order) == maxRevocations {
			delete(r.records, r.order[0])
			r.order = slices.Delete(r.order, 0, 1)
		}
		r.order = append(r.order, context)
	}
	if r.records == nil {
		r.records = make(map[uint32]*revocation)
	}
	r.records[context] = v
}

// anyEnded reports whether a member has ended.
func (r *Revocations) anyEnded(members agree.Group) bool {
	if r.ended.Len() == 0 {
		return false
	}
	for p := range r.ended.All() {
		if members.Rank(p) >= 0 {
			return true
		}
	}
	return false
}

// onFrame handles a frame. Malformed ones are dropped, since the sender may be newer.
func (r *Revocations) onFrame(from proc.ID, _ uint64, payload []byte) {
	if len(payload) >= 2*noticeBytes {
		defer r.startBatch()()
	}
	for ; len(payload) >= noticeBytes && !r.stopped; payload = payload[noticeBytes:] {
		r.receive(from, notice{
			binary.LittleEndian.Uint32(payload), binary.LittleEndian.Uint32(payload[4:]),
			binary.LittleEndian.Uint64(payload[8:]),
		})
	}
}

// receive handles a notice.
func (r *Revocations) receive(from proc.ID, n notice) {
	known := false
	if r.isRepeat(n) {
		return
	}
	if n.root != rootAbsent {
		var news bool
		r.current, r.handling = n, true
		known, news = r.onNotice(n.context)
		r.handling = false
		if news {
			return
		}
	}
	r.recordRecent()
	v := r.records[n.context]
	switch {
	case v != nil && n.root == rootAbsent:
		v.absent.Add(from)
		r.flood(n.context, v)
	case v != nil:
		if v.root != n.root {
			r.flood(n.context, v)
		}
	case n.root != rootAbsent && !known: // known: so long ago that it has been forgotten
		r.onUnknown(n.context)
		r.send(from, notice{context: n.context, root: rootAbsent})
	}
}

// isRepeat reports whether a notice has nothing new against one of this round. There are many such
// where not all members are connected.
func (r *Revocations) isRepeat(n notice) bool {
	for i := range r.recent {
		if t := &r.recent[i]; t.context == n.context {
			return t.root == n.root
		}
	}
	return false
}

// notifyChildren notifies the children in the tree below the notice's root, the largest subtree
// first.
func (r *Revocations) notifyChildren(n notice, members agree.Group) {
	size := members.Size()
	at := (members.Rank(r.e.Self()) - int(n.root) + size) % size
	for bit := 1; at+bit < size; bit *= 2 {
		if bit > at {
			r.send(members.Proc((at+bit+int(n.root))%size), n)
		}
	}
}

// notifyAll notifies the children in the tree below the notice's root and all connected members,
// except those notified before. It collects them first, so that each notice names all of them.
func (r *Revocations) notifyAll(n notice, members agree.Group) {
	size, self := members.Size(), members.Rank(r.e.Self())
	at := (self - int(n.root) + size) % size
	reached := n.notified | 1<<self | 1<<n.root
	var next uint64
	for left := ^reached & (1<<size - 1); left != 0; left &= left - 1 {
		rank := bits.TrailingZeros64(left)
		below := (rank-int(n.root)+size)%size - at
		child := below > at && below&(below-1) == 0
		if child || r.e.HasEndpoint(members.Proc(rank)) {
			next |= 1 << rank
		}
	}
	for n.notified = reached | next; next != 0; next &= next - 1 {
		r.send(members.Proc(bits.TrailingZeros64(next)), n)
	}
}

func (r *Revocations) send(to proc.ID, n notice) {
	if b := r.batch; b != nil {
		if b.frames[to] == nil {
			b.receivers = append(b.receivers, to)
		}
		b.frames[to] = n.append(b.frames[to])
		return
	}
	r.out.Send(to, fabric.ClassRevoke, n.append(r.frame[:0]))
}

// startBatch collects notices until the returned function sends them.
func (r *Revocations) startBatch() (send func()) {
	b, before := &batch{frames: make(map[proc.ID][]byte)}, r.batch
	r.batch = b
	return func() {
		r.batch = before
		for _, to := range b.receivers {
			for part := range slices.Chunk(b.frames[to], maxNotices*noticeBytes) {
				r.out.Send(to, fabric.ClassRevoke, part)
			}
		}
	}
}

// flood notifies the neighbours in the graph of one communicator, each once.
func (r *Revocations) flood(context uint32, v *revocation) {
	for to := range r.neighbours(v) {
		if v.markFlooded(to) {
			r.send(to, notice{context: context, root: rootFlood})
		}
	}
}

// markFlooded reports whether a member has not been notified over the graph before, and marks it.
func (v *revocation) markFlooded(to proc.ID) bool {
	if slices.Contains(v.flooded, to) {
		return false
	}
	if v.flooded == nil {
		v.flooded = v.room[:0]
	}
	v.flooded = append(v.flooded, to)
	return true
}

// onEnd closes the graphs over a gap.
func (r *Revocations) onEnd(ep *progress.Endpoint, _ proc.Cause) {
	r.ended.Add(ep.Proc)
	if r.stopped {
		return
	}
	r.recordRecent()
	defer r.startBatch()()
	for _, context := range r.order {
		if v := r.records[context]; v.members.Rank(ep.Proc) >= 0 {
			r.flood(context, v)
		}
	}
}

func (n notice) append(frame []byte) []byte {
	frame = binary.LittleEndian.AppendUint32(frame, n.context)
	frame = binary.LittleEndian.AppendUint32(frame, n.root)
	return binary.LittleEndian.AppendUint64(frame, n.notified)
}

// neighbours iterates over this process's neighbours in the graph; some come twice.
func (r *Revocations) neighbours(v *revocation) func(func(proc.ID) bool) {
	return func(yield func(proc.ID) bool) {
		for distance := 1; distance < v.members.Size(); distance *= 2 {
			for _, step := range []int{1, -1} {
				if to := r.neighbour(v, distance*step, step); to != r.e.Self() && !yield(to) {
					return
				}
			}
		}
	}
}

// neighbour is the first member from a distance on that lives and has the communicator: this
// process if there is no other.
func (r *Revocations) neighbour(v *revocation, by, step int) proc.ID {
	n := v.members.Size()
	for at := v.members.Rank(r.e.Self()) + by; ; at += step {
		if p := v.members.Proc((at%n + n) % n); !r.ended.Has(p) && !v.absent.Has(p) {
			return p
		}
	}
}

// Stop ends the forwarding, for a process that departs.
func (r *Revocations) Stop() { r.stopped = true }
