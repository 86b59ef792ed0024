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

// Revocations tells the members of a communicator that it has been revoked, so that all who live
// hear of it if one who lives has (S1-28). It does so in the cheaper of two ways that does:
//
// While nothing goes wrong, down the binomial tree below whoever has revoked: a frame for each
// member.
//
// As soon as a member is known to have ended, or not to have the communicator, or two have revoked at once, by flooding a binomial
// graph: of the members in their order and without those known to be gone, each tells the ones at the distances 1, 2, 4 … in
// both directions, once, and again when the graph closes over a gap. A flood goes over whatever the trees have left
// out: among those who know the same ends the graph is connected, and an end becomes known to all. Two trees may leave
// somebody out, as each stops where the other one has been; but where it stops somebody has heard of both, and floods.
//
// A member that does not have the communicator, because it comes to make it later, has failed to make it or has forgotten it, does not know
// the others, and cannot pass anything on. So it answers that it is absent. Who hears that goes round it as round the dead: along
// the ring of distance 1 everybody who has heard finds the next member in each direction that lives and has the communicator. If it is made later
// it has been revoked from the start, and tells as if it had been revoked there: whoever has told it may have died before it heard the answer.
//
// So in one revocation none of many members sends more than
// a frame to each child and each neighbour, and one more for each end and each who is absent.
//
// Of few members, whoever revokes or hears of it first tells all it is connected to, since who shares a core with
// others, and has not been told by its next turn, waits until all of them have had theirs. A notice says whom it is being told to by
// those it has come from; nobody tells them again, in the tree either: a frame that has been sent
// arrives, unless its sender ends or its receiver, and then all flood.
//
// Its methods are called with the engine's lock held.
type Revocations struct {
	e    *progress.Engine
	out  *Outbox
	hear func(context uint32) (known, news bool) // see StartRevocations
	wait func(context uint32)                    // the same

	told    map[uint32]*revocation
	fresh   []telling // not in told yet: that costs as much as all else, and nobody waits for it
	catchUp func()    // rememberAll
	order   []uint32  // of told: the oldest first
	gone    ft.Set    // processes that have ended
	few     int       // so many members at most are told by all who are connected to them
	via     notice    // what is being heard, if
	hears   bool
	over    bool
	batch   *batch            // where notices are gathered; nil: they are sent at once
	frame   [noticeBytes]byte // scratch
}

// batch is what is to be sent together, with what there is for one member in as few frames as possible.
type batch struct {
	receivers []proc.ID // the first to have been told something first
	frames    map[proc.ID][]byte
}

// revocation is one that this process has heard of.
type revocation struct {
	members agree.Group
	root    uint32    // whose tree it was passed down; flood: none
	absent  ft.Set    // members that do not have the communicator
	flooded []proc.ID // who has been told over the graph
	room    [16]proc.ID
}

// telling is what Tell has been called for.
type telling struct {
	notice
	members agree.Group
}

// notice is what frames are made of: that a communicator has been revoked, and by which member. Of few members told has
// a bit for each rank that is known to have been sent one with this root.
type notice struct {
	context, root uint32
	told          uint64
}

// What stands in the place of a root.
const (
	flood  = 1<<32 - 1 // the notice is to be passed on over the graph
	absent = 1<<32 - 2 // it is an answer: its sender does not have the communicator
)

const (
	noticeBytes = 16
	// fewMembers is the bits of notice.told. One frame takes 0.1 µs, a turn of a process that shares a core 2 µs.
	fewMembers = 64
	// maxNotices is how many a frame has at most.
	maxNotices = 16
	// maxRevocations bounds those that are remembered: a member that nobody has told of an older one, because
	// all who were to do it have died, is not told any more.
	maxRevocations = 1024
)

// StartRevocations is called once, before the first frame can arrive. Hear gets the context
// of a communicator that another member has revoked, and reports whether it is known here, and whether this is news. If it is known, Tell is to
// have been called, by then or before. Wait gets one that is not: if the communicator is made later Tell is to be called then.
func StartRevocations(
	e *progress.Engine, out *Outbox, hear func(context uint32) (known, news bool), wait func(context uint32),
) *Revocations {
	r := &Revocations{e: e, out: out, hear: hear, wait: wait, told: make(map[uint32]*revocation), few: fewMembers}
	r.catchUp = r.rememberAll
	e.Handle(fabric.ClassRevoke, r.heard)
	e.OnEnd(r.ended)
	return r
}

// Tell passes on that a communicator has been revoked, here or by who has been heard. The members are in the same
// order at all of them, and this process is one.
func (r *Revocations) Tell(context uint32, members agree.Group) {
	if r.over {
		return
	}
	n := notice{context: context, root: uint32(members.Rank(r.e.Self()))}
	if r.hears && r.via.context == context {
		n = r.via
	}
	if r.fresh = append(r.fresh, telling{n, members}); len(r.fresh) == 1 {
		r.e.Defer(r.catchUp)
	}
	switch size := members.Size(); {
	case int64(n.root) >= int64(size) || r.bereft(members):
		r.rememberAll()
		r.inundate(context, r.told[context])
	case size <= r.few:
		r.herald(n, members)
	default:
		r.descend(n, members)
	}
}

// rememberAll remembers those that have been told of and not been remembered.
func (r *Revocations) rememberAll() {
	for _, t := range r.fresh {
		r.remember(t.context, &revocation{members: t.members, root: t.root})
	}
	clear(r.fresh)
	r.fresh = r.fresh[:0]
}

func (r *Revocations) remember(context uint32, v *revocation) {
	if r.told[context] == nil {
		if len(r.order) == maxRevocations {
			delete(r.told, r.order[0])
			r.order = slices.Delete(r.order, 0, 1)
		}
		r.order = append(r.order, context)
	}
	r.told[context] = v
}

// bereft reports whether some member has ended.
func (r *Revocations) bereft(members agree.Group) bool {
	if r.gone.Len() == 0 {
		return false
	}
	for p := range r.gone.All() {
		if members.Rank(p) >= 0 {
			return true
		}
	}
	return false
}

// heard takes in a frame: what is none is dropped, as its sender may only be newer.
func (r *Revocations) heard(from proc.ID, _ uint64, payload []byte) {
	if len(payload) >= 2*noticeBytes {
		defer r.together()()
	}
	for ; len(payload) >= noticeBytes && !r.over; payload = payload[noticeBytes:] {
		r.notice(from, notice{
			binary.LittleEndian.Uint32(payload), binary.LittleEndian.Uint32(payload[4:]), binary.LittleEndian.Uint64(payload[8:]),
		})
	}
}

// notice takes in one of them.
func (r *Revocations) notice(from proc.ID, n notice) {
	known := false
	if r.again(n) {
		return
	}
	if n.root != absent {
		var news bool
		r.via, r.hears = n, true
		known, news = r.hear(n.context)
		r.hears = false
		if news {
			return
		}
	}
	r.rememberAll()
	v := r.told[n.context]
	switch {
	case v != nil && n.root == absent:
		v.absent.Add(from)
		r.inundate(n.context, v)
	case v != nil:
		if v.root != n.root {
			r.inundate(n.context, v)
		}
	case n.root != absent && !known: // else it was so long ago that it has been forgotten
		r.wait(n.context)
		r.send(from, notice{context: n.context, root: absent})
	}
}

// again reports whether a notice says no more than one that has come in this round: so many come where not all are connected.
func (r *Revocations) again(n notice) bool {
	for i := range r.fresh {
		if t := &r.fresh[i]; t.context == n.context {
			return t.root == n.root
		}
	}
	return false
}

// descend tells the children in the tree below the notice's root, the one with most below it first.
func (r *Revocations) descend(n notice, members agree.Group) {
	size := members.Size()
	at := (members.Rank(r.e.Self()) - int(n.root) + size) % size
	for bit := 1; at+bit < size; bit *= 2 {
		if bit > at {
			r.send(members.Proc((at+bit+int(n.root))%size), n)
		}
	}
}

// herald tells the children in the tree below the notice's root, and all who are connected, but for those who
// have been told. It looks first who that is, for all of them to hear of each other.
func (r *Revocations) herald(n notice, members agree.Group) {
	size, self := members.Size(), members.Rank(r.e.Self())
	at := (self - int(n.root) + size) % size
	told := n.told | 1<<self | 1<<n.root
	var next uint64
	for left := ^told & (1<<size - 1); left != 0; left &= left - 1 {
		rank := bits.TrailingZeros64(left)
		below := (rank-int(n.root)+size)%size - at
		child := below > at && below&(below-1) == 0
		if child || r.e.HasEndpoint(members.Proc(rank)) {
			next |= 1 << rank
		}
	}
	for n.told = told | next; next != 0; next &= next - 1 {
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

// together has notices be gathered, and be sent when its result is called.
func (r *Revocations) together() (send func()) {
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

// inundate tells the neighbours in the graph of one communicator, but for those who have been told so.
func (r *Revocations) inundate(context uint32, v *revocation) {
	for to := range r.neighbours(v) {
		if v.flood(to) {
			r.send(to, notice{context: context, root: flood})
		}
	}
}

// flood reports whether somebody is yet to be told, and notes that it will be.
func (v *revocation) flood(to proc.ID) bool {
	if slices.Contains(v.flooded, to) {
		return false
	}
	if v.flooded == nil {
		v.flooded = v.room[:0]
	}
	v.flooded = append(v.flooded, to)
	return true
}

// ended closes the graphs over a gap.
func (r *Revocations) ended(ep *progress.Endpoint, _ proc.Cause) {
	r.gone.Add(ep.Proc)
	if r.over {
		return
	}
	r.rememberAll()
	defer r.together()()
	for _, context := range r.order {
		if v := r.told[context]; v.members.Rank(ep.Proc) >= 0 {
			r.inundate(context, v)
		}
	}
}

func (n notice) append(frame []byte) []byte {
	frame = binary.LittleEndian.AppendUint32(frame, n.context)
	frame = binary.LittleEndian.AppendUint32(frame, n.root)
	return binary.LittleEndian.AppendUint64(frame, n.told)
}

// neighbours runs over those of this process in the graph of a communicator; some come twice.
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

// neighbour is the member at a distance, or the next beyond it, that lives and has the communicator: this process if
// there is no other.
func (r *Revocations) neighbour(v *revocation, by, step int) proc.ID {
	n := v.members.Size()
	for at := v.members.Rank(r.e.Self()) + by; ; at += step {
		if p := v.members.Proc((at%n + n) % n); !r.gone.Has(p) && !v.absent.Has(p) {
			return p
		}
	}
}

// Stop has nothing be passed on any more, for a process that departs.
func (r *Revocations) Stop() { r.over = true }
