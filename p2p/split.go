package p2p

import (
	"encoding/binary"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// Where a sender can write to the buffer of a long message, as it lies in a block or by a call of the kernel, the
// receiver asks it to copy parts, in a CTS that names the buffer. The sender does that if it makes progress meanwhile. The
// receiver waits only for a part that the sender is copying, and the sender says by a Fin that it has.

// beginPull asks the sender of a receive to share the copy, if that is possible. If this process has
// announced a message to the sender, that one is busy with it.
func beginPull(j *progress.Job) {
	r := j.Arg.(*Request)
	l, e := r.link, r.comm.e
	if len(r.buf) < r.total || l.announced > 0 || r.err != nil || l.ep.State != progress.Alive {
		return
	}
	to, message, ok := l.ep.Offer(r.buf[:r.total])
	if !ok {
		return
	}
	r.offered = true
	e.control(l, fabric.ClassCTS, r.remote, appendOffer(e.scratch[:0], offer{r.wire(), message, to}))
}

// offer is where a sender may copy to.
type offer struct {
	receiver uint64 // the receiver's request
	message  uint32
	to       fabric.Region
}

const offerFixed = 8 + 4 + 8

func appendOffer(b []byte, o offer) []byte {
	le := binary.LittleEndian
	b = le.AppendUint64(b, o.receiver)
	b = le.AppendUint32(b, o.message)
	b = le.AppendUint64(b, o.to.Addr)
	return append(b, o.to.Key...)
}

// decodeOffer decodes an offer, but for the length of the region. The region's key is a part of b.
func decodeOffer(b []byte) (o offer, ok bool) {
	if len(b) < offerFixed {
		return o, false
	}
	le := binary.LittleEndian
	o.receiver, o.message, o.to.Addr = le.Uint64(b), le.Uint32(b[8:]), le.Uint64(b[12:])
	o.to.Key = b[offerFixed:]
	return o, true
}

// onOffer shares the copy of an announced message.
func (e *Engine) onOffer(l *link, r *Request, payload []byte) {
	o, ok := decodeOffer(payload)
	if !ok || r.busy {
		e.refused++
		return
	}
	l.finCount++ // no reply
	o.to.Len, o.to.Key = uint64(r.total), append(r.region.Key[:0], o.to.Key...)
	r.region, r.remote, r.message, r.parts = o.to, o.receiver, o.message, 0
	r.busy = true
	r.job = progress.Job{Run: runPush, Done: donePush, Arg: r}
	e.p.Submit(&r.job)
}

// runPush copies without the lock, as runPull does, but not for long: nothing waits for this process to copy.
func runPush(j *progress.Job) {
	r := j.Arg.(*Request)
	r.parts, r.shared, r.pushed = r.link.ep.Help(r.buf, r.region, r.message, r.parts)
}

// donePush says that the parts are complete, and continues with the answer that has come meanwhile.
func donePush(j *progress.Job) {
	r := j.Arg.(*Request)
	l, e := r.link, r.comm.e
	if r.shared && l.ep.State == progress.Alive {
		e.p.Submit(j)
		return
	}
	waits := r.pushed
	r.busy, r.shared, r.pushed = false, false, false
	switch {
	case r.err != nil && (l.ep.State != progress.Alive || l.shut): // the peer ended during the copy
		l.removeActive(r)
		r.Finish()
	case r.settled:
		e.endAnnouncement(l, r)
		r.Finish()
	case r.streamTo != 0:
		e.stream(l, r, r.streamTo)
	case waits:
		e.control(l, fabric.ClassFin, r.remote, nil)
	}
}

// unmatched is announced for answers that come only if no receive has matched the message.
func (e *Engine) unmatched(wire uint64, l *link) *Request {
	if r := e.announced(wire, l); r != nil && !r.busy {
		return r
	}
	return nil
}

// writeTime bounds the wait for a sender that has ended the connection while it copies a part, and lives.
const writeTime fabric.Time = 1_000_000_000

// awaitQuiet ends a receive whose sender has ended, perhaps in the middle of a part, when nothing writes to the buffer any
// more.
func awaitQuiet(r *Request) {
	e := r.comm.e
	until := e.p.Host().Now() + writeTime
	r.busy = true
	r.job.Run = func(*progress.Job) { r.shared = r.link.ep.Writes() && e.p.Host().Now() < until }
	r.job.Done = func(j *progress.Job) {
		if r.shared {
			e.p.Submit(j)
			return
		}
		r.busy = false
		e.copied(r)
	}
	r.job.Begin = nil
	e.p.Submit(&r.job)
}

// onPushed notes that the sender has copied its parts.
func (e *Engine) onPushed(l *link, r *Request) {
	l.finCount++
	if r.pushed = true; !r.busy {
		e.copied(r)
	}
}
