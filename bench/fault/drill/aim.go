package drill

import (
	"math/rand/v2"
	"time"
)

// aim has a rank die within an operation of a kind. It adds the operation to a phase for which the
// others are late, so that it is likely to be under way.
func (p *plan) aim(r *rand.Rand, victim int, k Kind) doom {
	delay := time.Duration(r.IntN(200)) * time.Microsecond
	if k == finalizeKind {
		return doom{aim: noKind, last: true, delay: delay}
	}
	number := r.IntN(len(p.phases))
	ph := &p.phases[number]
	peer := (victim + 1 + r.IntN(p.n-1)) % p.n
	to := transfer{src: victim, dst: peer, send: between(r, isend, lastNonblocking), recv: irecv}
	from := transfer{src: peer, dst: victim, send: between(r, isend, lastNonblocking), recv: irecv}
	size := sizes[r.IntN(len(sizes))]
	switch {
	case k <= lastSend:
		to.send = k
		p.put(r, ph, number, to, max(size, sizes[len(sizes)-2])) // not done before it is received
	case k <= lastExchange:
		to.send = k
		p.put(r, ph, number, to, size)
	case k <= lastReceive:
		from.recv = k
		p.put(r, ph, number, from, size)
	case k <= messageContext:
		from.recv = mprobe + k - messageRecv
		p.put(r, ph, number, from, sizes[len(sizes)-1])
	case k <= lastWait:
		ph.waits = k
		p.put(r, ph, number, from, size)
	case k <= lastCollective:
		ph.shared = p.drawShared(r, k)
	case k <= lastRepair:
		ph.repair = p.drawRepair(r)
		ph.repair.aim(k, victim)
	case k <= lastValidation:
		ph.validation = p.drawValidation(r)
		ph.validation.aim(k)
	case k == failureAck:
		ph.ack = true
	case k == cancel:
		from.recv = irecvAny
		p.put(r, ph, number, from, size)
	}
	for rank := range ph.late {
		if rank != victim {
			ph.late[rank] = time.Duration(r.IntN(3000)) * time.Microsecond
		}
	}
	d := doom{aim: k, in: number, delay: delay}
	if d.after = k >= barrier && k <= lastCollective && r.IntN(2) == 0; d.after && r.IntN(2) == 0 {
		d.delay = 0
	}
	return d
}
