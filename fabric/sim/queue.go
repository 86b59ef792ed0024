package sim

// action is something that happens at an instant. It returns the activity that has to run because
// of it, or nil.
type action interface {
	happen(s *Sim) *task
}

// event is an action in the queue. Events of one instant happen in the order of queueing, by seq.
type event struct {
	at  Picos
	seq uint64
	act action
}

func (e *event) before(f *event) bool {
	return e.at < f.at || e.at == f.at && e.seq < f.seq
}

// queue is a heap with four children to a node, ordered by (at, seq). The keys of four siblings lie
// on two cache lines, and the heap is half as deep as a binary one. It allocates nothing per event
// once the slice has grown.
type queue struct {
	heap []event
	seq  uint64
}

// soonest is the instant of the first event, or never.
func (q *queue) soonest() Picos {
	if len(q.heap) == 0 {
		return never
	}
	return q.heap[0].at
}

func (q *queue) push(at Picos, act action) {
	q.seq++
	e := event{at, q.seq, act}
	q.heap = append(q.heap, e)
	h, i := q.heap, len(q.heap)-1
	for i > 0 {
		parent := (i - 1) / 4
		if !e.before(&h[parent]) {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = e
}

// pop removes the first event. Preconditions: the queue is not empty.
func (q *queue) pop() event {
	first := q.heap[0]
	n := len(q.heap) - 1
	e := q.heap[n]
	q.heap[n] = event{}
	q.heap = q.heap[:n]
	if n > 0 {
		q.sink(e)
	}
	return first
}

// sink puts e in its place, starting from the vacant root.
func (q *queue) sink(e event) {
	h, i := q.heap, 0
	for {
		child := 4*i + 1
		if child >= len(h) {
			break
		}
		least := child
		for c := child + 1; c < min(child+4, len(h)); c++ {
			if h[c].before(&h[least]) {
				least = c
			}
		}
		if !h[least].before(&e) {
			break
		}
		h[i] = h[least]
		i = least
	}
	h[i] = e
}
