package predict

import "github.com/banyan-hpc/banyan/fabric/sim"

// happening is the kind of an event.
type happening uint8

const (
	goesOn   happening = iota // a rank's core is free again
	leaves                    // the frame that a rank sends leaves its core
	received                  // a rank has handled a frame
	lands                     // a frame comes to its receiver's node
	arrives                   // a frame can be polled
	credited                  // a credit comes back
	acked                     // an acknowledgement comes to a node
)

// event happens to a rank, or to a flow of its edge to its parent.
type event struct {
	at   sim.Picos
	seq  uint64
	rank int32
	down bool
	what happening
}

// queue is a heap with four children to a node, as the simulator's. Events of one instant keep their order.
type queue struct {
	heap []event
	seq  uint64
}

func before(a, b *event) bool { return a.at < b.at || a.at == b.at && a.seq < b.seq }

func (q *queue) push(e event) {
	q.seq++
	e.seq = q.seq
	q.heap = append(q.heap, e)
	h, i := q.heap, len(q.heap)-1
	for i > 0 {
		up := (i - 1) / 4
		if !before(&e, &h[up]) {
			break
		}
		h[i] = h[up]
		i = up
	}
	h[i] = e
}

// pop takes out the first event. Precondition: there is one.
func (q *queue) pop() event {
	h := q.heap
	first, e := h[0], h[len(h)-1]
	h = h[:len(h)-1]
	q.heap = h
	i := 0
	for child := 1; child < len(h); child = 4*i + 1 {
		least := child
		for c := child + 1; c < min(child+4, len(h)); c++ {
			if before(&h[c], &h[least]) {
				least = c
			}
		}
		if !before(&h[least], &e) {
			break
		}
		h[i] = h[least]
		i = least
	}
	if len(h) > 0 {
		h[i] = e
	}
	return first
}
