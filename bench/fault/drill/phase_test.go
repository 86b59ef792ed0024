package drill

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/banyan-hpc/banyan"
)

// under is an operation under way.
type under struct {
	t     *transfer
	req   banyan.Request
	buf   []byte // of a receive
	again *banyan.Persistent
}

// phase does this rank's part of a phase, in the order of the package's comment.
func (r *rank) phase(number int, ph *phase) error {
	var recvs, sends []under
	wild := map[int]*transfer{} // by source
	// Of their own, since a failure that is acknowledged there puts no receive in doubt
	// any more: in a later phase it should.
	var err error
	if r.wilds, err = r.c.Dup(); err != nil {
		return err
	}
	mine := func(of func(*transfer) int, do func(*transfer) error) error {
		for i := range ph.transfers {
			if t := &ph.transfers[i]; of(t) == r.me {
				if err := do(t); err != nil {
					return fmt.Errorf("%+v: %w", *t, err)
				}
			}
		}
		return nil
	}
	src, dst := func(t *transfer) int { return t.src }, func(t *transfer) int { return t.dst }
	err = errors.Join(
		mine(dst, func(t *transfer) error {
			if t.wild() {
				wild[t.src] = t
			}
			if t.recv <= irecvAny && t.send != exchange {
				recvs = append(recvs, r.post(t, ph))
			}
			return nil
		}),
		mine(src, func(t *transfer) error {
			if t.send < sendNow {
				sends = append(sends, r.begin(t))
			}
			return nil
		}),
	)
	for i := range ph.transfers {
		err = errors.Join(err, r.blocking(ph, i))
	}
	err = errors.Join(err,
		mine(dst, func(t *transfer) error {
			if t.recv > irecvAny && t.send != exchange {
				return r.receive(t, ph, wild)
			}
			return nil
		}),
		r.await(ph, recvs, wild), r.rest(wild), r.await(ph, sends, nil), r.wilds.Free(),
	)
	if err != nil {
		return err
	}
	return r.together(ph)
}

// on is the communicator of a message.
func (r *rank) on(t *transfer) *banyan.Comm {
	switch {
	case t.anyTag():
		return r.tags
	case t.wild():
		return r.wilds
	}
	return r.c
}

// longest is room for any message of the phase.
func (ph *phase) longest() (n int) {
	for _, t := range ph.transfers {
		n = max(n, t.size)
	}
	return n
}

// post posts a receive before anything else of the phase is done.
func (r *rank) post(t *transfer, ph *phase) under {
	r.step("post %+v", *t)
	u := under{t: t, buf: make([]byte, t.size)}
	switch t.recv {
	case recvInit:
		u.again = r.on(t).RecvInit(u.buf, t.src, t.tag)
		u.req = u.again.Start()
	case irecvAnyTag:
		u.req = r.on(t).Irecv(u.buf, t.src, banyan.AnyTag)
	case irecvAny:
		u.t, u.buf = nil, make([]byte, ph.longest())
		u.req = r.on(t).Irecv(u.buf, banyan.AnySource, t.tag)
	default:
		u.req = r.on(t).Irecv(u.buf, t.src, t.tag)
	}
	return u
}

// begin begins a send.
func (r *rank) begin(t *transfer) under {
	r.step("begin %+v", *t)
	c, data := r.on(t), t.fill()
	u := under{t: t}
	switch t.send {
	case issend:
		u.req = c.Issend(data, t.dst, t.tag)
	case sendInit, ssendInit:
		if u.again = c.SendInit(data, t.dst, t.tag); t.send == ssendInit {
			u.again = c.SsendInit(data, t.dst, t.tag)
		}
		u.req = u.again.Start()
	default:
		u.req = c.Isend(data, t.dst, t.tag)
	}
	return u
}

// blocking does the i-th transfer if it is a send or an exchange that blocks.
func (r *rank) blocking(ph *phase, i int) error {
	t := &ph.transfers[i]
	switch {
	case t.back:
	case t.send == exchange:
		switch back := &ph.transfers[i+1]; r.me {
		case t.src:
			return r.exchange(t, back)
		case t.dst:
			return r.exchange(back, t)
		}
	case t.src != r.me:
	case t.send == sendNow:
		r.step("send %+v", *t)
		return r.sent(t, r.on(t).Send(t.fill(), t.dst, t.tag))
	case t.send == ssendNow:
		r.step("ssend %+v", *t)
		return r.sent(t, r.on(t).Ssend(t.fill(), t.dst, t.tag))
	}
	return nil
}

func (r *rank) exchange(out, in *transfer) error {
	r.step("exchange %+v", *out)
	buf := make([]byte, in.size)
	st, err := r.c.Sendrecv(out.fill(), out.dst, out.tag, buf, in.src, in.tag)
	return r.received(in, st, buf, err)
}

// receive receives what was not posted early.
func (r *rank) receive(t *transfer, ph *phase, wild map[int]*transfer) error {
	r.step("receive %+v", *t)
	c, buf := r.on(t), make([]byte, t.size)
	var st banyan.Status
	var err error
	switch t.recv {
	case recvAny:
		buf = make([]byte, ph.longest())
		st, err = c.Recv(buf, banyan.AnySource, t.tag)
		return r.caught(wild, st, buf, err)
	case recvAnyTag:
		st, err = c.Recv(buf, t.src, banyan.AnyTag)
	case recvNow:
		st, err = c.Recv(buf, t.src, t.tag)
	case probeRecv, iprobeRecv:
		if st, err = r.probe(c, t); err == nil && st.Count == t.size {
			st, err = c.Recv(buf, t.src, t.tag)
		}
	default:
		var m *banyan.Message
		if m, err = r.mprobe(c, t); err == nil {
			st, err = m.Recv(buf)
		}
	}
	return r.received(t, st, buf, err)
}

// pause lets others have the core between two looks.
const pause = 50 * time.Microsecond

func (r *rank) probe(c *banyan.Comm, t *transfer) (banyan.Status, error) {
	if t.recv == probeRecv {
		return c.Probe(t.src, t.tag)
	}
	for {
		if st, found, err := c.Iprobe(t.src, t.tag); found || err != nil {
			return st, err
		}
		r.w.Sleep(pause)
	}
}

func (r *rank) mprobe(c *banyan.Comm, t *transfer) (*banyan.Message, error) {
	if t.recv == mprobeRecv {
		return c.Mprobe(t.src, t.tag)
	}
	for {
		if m, found, err := c.Improbe(t.src, t.tag); found || err != nil {
			return m, err
		}
		r.w.Sleep(pause)
	}
}

// caught judges the end of a receive from any source.
func (r *rank) caught(wild map[int]*transfer, st banyan.Status, buf []byte, err error) error {
	if err != nil {
		return r.excuseAny(err)
	}
	t := wild[st.Source]
	if t == nil {
		return fmt.Errorf("a receive from any source got %+v, which nobody sent, or which came before", st)
	}
	delete(wild, st.Source)
	return t.check(st, buf)
}

// rest receives by name what receives from any source have left, since these end at
// the death of anybody.
func (r *rank) rest(wild map[int]*transfer) error {
	for _, src := range sortedKeys(wild) {
		t := wild[src]
		r.step("rest %+v", *t)
		buf := make([]byte, t.size)
		st, err := r.wilds.Recv(buf, src, t.tag)
		if err := r.received(t, st, buf, err); err != nil {
			return err
		}
	}
	return nil
}

func sortedKeys(m map[int]*transfer) (keys []int) {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// How requests are waited for.
const (
	waitEach = iota
	waitSome
	waitAny
	testEach
	waits
)

// await waits for operations and judges their ends.
func (r *rank) await(ph *phase, ops []under, wild map[int]*transfer) error {
	reqs := make([]banyan.Request, len(ops))
	for i, u := range ops {
		reqs[i] = u.req
	}
	r.step("wait for %d requests, way %d", len(ops), ph.waits)
	for left := len(ops); left > 0; {
		var out []banyan.Outcome
		switch ph.waits {
		case waitSome:
			var err error
			if out, err = banyan.WaitSome(reqs, nil); err != nil {
				return err
			}
		case waitAny:
			i, st, err := banyan.WaitAny(reqs)
			out = append(out, banyan.Outcome{Index: i, Status: st, Err: err})
		default:
			i := len(ops) - left
			out = append(out, r.finish(i, ops[i].req, ph.waits == testEach))
		}
		for _, o := range out {
			if o.Index < 0 {
				return fmt.Errorf("%d of %d requests are left, and none is active", left, len(ops))
			}
			left--
			reqs[o.Index] = banyan.Request{}
			if err := r.ended(&ops[o.Index], o, wild); err != nil {
				return err
			}
		}
	}
	return nil
}

// finish waits for one request, or tests it again and again.
func (r *rank) finish(i int, req banyan.Request, test bool) banyan.Outcome {
	o := banyan.Outcome{Index: i}
	if !test {
		o.Status, o.Err = req.Wait()
		return o
	}
	for done := false; ; r.w.Sleep(pause) {
		if o.Status, done, o.Err = req.Test(); done || o.Err != nil {
			return o
		}
	}
}

// pending goes on with a receive from any source that a death has put in doubt: it
// acknowledges the failure and waits on where only the living have something to send,
// else it takes the receive back, which may have got a message meanwhile.
func (r *rank) pending(u *under, o *banyan.Outcome, wild map[int]*transfer) error {
	for errors.Is(o.Err, banyan.ErrProcFailedPending) {
		if err := r.excuseAny(o.Err); err != nil {
			return err
		}
		if r.hopeful(wild) {
			r.step("acknowledge and wait for a receive from any source")
			if err := r.wilds.FailureAck(); err != nil {
				return err
			}
		} else {
			u.req.Cancel()
		}
		o.Status, o.Err = u.req.Wait()
	}
	return nil
}

// hopeful reports whether no rank that has a message for a receive from any source is
// doomed.
func (r *rank) hopeful(wild map[int]*transfer) bool {
	for src := range wild {
		if r.p.dies(src) {
			return false
		}
	}
	return true
}

// ended judges one operation that has been waited for.
func (r *rank) ended(u *under, o banyan.Outcome, wild map[int]*transfer) error {
	if u.t == nil {
		if err := r.pending(u, &o, wild); err != nil || o.Status.Cancelled {
			return err
		}
		return r.caught(wild, o.Status, u.buf, o.Err)
	}
	if u.again != nil {
		_, _ = u.again.Wait() // over: the request is the same
		if err := u.again.Free(); err != nil {
			return err
		}
	}
	if u.buf != nil {
		return r.received(u.t, o.Status, u.buf, o.Err)
	}
	return r.sent(u.t, o.Err)
}
