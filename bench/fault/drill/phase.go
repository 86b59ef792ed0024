package drill

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/banyan-hpc/banyan"
)

// under is an operation under way.
type under struct {
	t     *transfer // nil: a receive from any source
	kind  Kind
	on    *banyan.Comm
	req   banyan.Request
	buf   []byte // of a receive
	again *banyan.Persistent
}

// mine calls do for each transfer with this rank at the given end.
func (r *rank) mine(ph *phase, end func(*transfer) int, do func(*transfer) error) error {
	for i := range ph.transfers {
		if t := &ph.transfers[i]; end(t) == r.me {
			if err := do(t); err != nil {
				return fmt.Errorf("%+v: %w", *t, err)
			}
		}
	}
	return nil
}

func sender(t *transfer) int   { return t.src }
func receiver(t *transfer) int { return t.dst }

// phase does this rank's part of a phase, in the order that the package comment gives.
func (r *rank) phase(ph *phase) error {
	var recvs, sends []under
	wild := map[int]*transfer{} // by source
	// A communicator for this phase: after a failure is acknowledged there, receives are not pending
	// any more, and in a later phase they must be.
	var err error
	if r.wilds, err = r.dup(r.c); err != nil {
		return err
	}
	if late := ph.late[r.me]; late > 0 {
		r.w.Sleep(late)
	}
	err = errors.Join(
		r.mine(ph, receiver, func(t *transfer) error {
			if t.wild() {
				wild[t.src] = t
			}
			if t.recv <= lastPosted && !t.exchanged() {
				recvs = append(recvs, r.post(t, ph))
			}
			return nil
		}),
		r.mine(ph, sender, func(t *transfer) error {
			if t.send <= lastNonblocking {
				sends = append(sends, r.start(t))
			}
			return nil
		}),
	)
	for i := range ph.transfers {
		err = errors.Join(err, r.blocking(ph, i))
	}
	err = errors.Join(err,
		r.mine(ph, receiver, func(t *transfer) error {
			if t.recv > lastPosted && !t.exchanged() {
				return r.receive(t, ph, wild)
			}
			return nil
		}),
		r.await(ph, recvs, wild), r.rest(wild), r.await(ph, sends, nil), r.wilds.Free(),
	)
	delete(r.acked, r.wilds)
	if err == nil && ph.ack {
		err = errors.Join(r.acknowledge(r.c), r.acknowledge(r.tags))
	}
	if err != nil {
		return err
	}
	err = r.collectives(&ph.shared)
	if err == nil && ph.repair != nil {
		err = r.recover(ph.repair)
	}
	if err == nil && ph.validation != nil {
		err = r.validation(ph.validation)
	}
	if err == nil && ph.interplay != nil {
		err = r.interplay(ph.interplay)
	}
	return err
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

// longest is the size of the longest message of the phase.
func (ph *phase) longest() (n int) {
	for _, t := range ph.transfers {
		n = max(n, t.size)
	}
	return n
}

// post posts a receive at the start of the phase.
func (r *rank) post(t *transfer, ph *phase) under {
	r.step("post %+v", *t)
	r.begin(t.recv)
	u := under{t: t, kind: t.recv, on: r.on(t), buf: fresh(t.size)}
	if t.recv == recvInit {
		u.again = u.on.RecvInit(u.buf, t.src, t.tag)
	}
	if t.recv == irecvAny {
		u.t, u.buf = nil, fresh(ph.longest())
	}
	u.repost(t.tag)
	return u
}

// repost posts the receive, or posts it again after its cancellation.
func (u *under) repost(tag int) {
	switch u.kind {
	case recvInit:
		u.req = u.again.Start()
	case irecvAnyTag:
		u.req = u.on.Irecv(u.buf, u.t.src, banyan.AnyTag)
	case irecvAny:
		u.req = u.on.Irecv(u.buf, banyan.AnySource, tag)
	default:
		u.req = u.on.Irecv(u.buf, u.t.src, tag)
	}
}

// start starts a send.
func (r *rank) start(t *transfer) under {
	r.step("begin %+v", *t)
	r.begin(t.send)
	c, data := r.on(t), t.fill()
	u := under{t: t, kind: t.send, on: c}
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

// blocking performs the i-th transfer if it is a blocking send or exchange.
func (r *rank) blocking(ph *phase, i int) error {
	t := &ph.transfers[i]
	if t.exchanged() {
		if t.back {
			return nil
		}
		switch back := &ph.transfers[i+1]; r.me {
		case t.src:
			return r.exchange(t, back)
		case t.dst:
			return r.exchange(back, t)
		}
		return nil
	}
	if t.src != r.me || t.send <= lastNonblocking {
		return nil
	}
	r.step("%v %+v", t.send, *t)
	r.begin(t.send)
	var err error
	switch c := r.on(t); t.send {
	case sendNow:
		err = c.Send(t.fill(), t.dst, t.tag)
	case ssendNow:
		err = c.Ssend(t.fill(), t.dst, t.tag)
	case sendContext:
		err = c.WithContext(r.live).Send(t.fill(), t.dst, t.tag)
	case ssendContext:
		err = c.WithContext(r.live).Ssend(t.fill(), t.dst, t.tag)
	}
	return r.sent(t, r.done(t.send, err))
}

func (r *rank) exchange(out, in *transfer) error {
	r.step("exchange %+v", *out)
	buf := fresh(in.size)
	var st banyan.Status
	var err error
	r.begin(out.send)
	switch out.send {
	case exchange:
		st, err = r.c.Sendrecv(out.fill(), out.dst, out.tag, buf, in.src, in.tag)
	case exchangeContext:
		st, err = r.c.WithContext(r.live).Sendrecv(out.fill(), out.dst, out.tag, buf, in.src, in.tag)
	case exchangeInter:
		st, err = r.across(out, in, buf)
	}
	return r.received(in, st, buf, r.done(out.send, err))
}

// across exchanges messages on an intercommunicator with the peer alone on the other side. It returns
// the ranks of the status and of the error as ranks of the world.
func (r *rank) across(out, in *transfer, buf []byte) (st banyan.Status, err error) {
	if r.null(r.c, out.dst) { // the other side would be empty
		return banyan.Status{Source: banyan.ProcNull}, nil
	}
	world := r.c.Group()
	tag := min(out.tag, in.tag)
	group := func(ranks ...int) (*banyan.Comm, error) {
		g, err := world.Include(ranks...)
		if err != nil {
			return nil, err
		}
		return r.c.CreateGroup(g, tag)
	}
	two, err := group(min(r.me, out.dst), max(r.me, out.dst))
	if err != nil {
		return st, err
	}
	defer func() { err = errors.Join(err, two.Free()) }()
	one, err := group(r.me)
	if err != nil {
		return st, err
	}
	defer func() { err = errors.Join(err, one.Free()) }()
	remote := 0
	if r.me < out.dst {
		remote = 1
	}
	inter, err := one.CreateInter(0, two, remote, tag)
	if err != nil {
		return st, renamed(err, remote, out.dst)
	}
	st, err = inter.Sendrecv(out.fill(), 0, out.tag, buf, 0, in.tag)
	if err == nil && st.Source != 0 {
		err = fmt.Errorf("%s: got %+v, want the source 0", inter.Name(), st)
	}
	st.Source = in.src
	return st, errors.Join(renamed(err, 0, out.dst), inter.Free())
}

// renamed is an error with the number of a rank in the world. An error that names another rank than
// was, or more, stays as it is.
func renamed(err error, was, world int) error {
	var failed *banyan.ProcFailedError
	if !errors.As(err, &failed) {
		return err
	}
	named := *failed
	if named.Ranks = []int{world}; !slices.Equal(failed.Ranks, []int{was}) {
		return fmt.Errorf("names ranks %v, want %d: %v", failed.Ranks, was, err) //nolint:errorlint // it is no excuse
	}
	return &named
}

// pause yields the core between two polls.
const pause = 50 * time.Microsecond

// firstDeadline doubles each time that it ends a call.
const firstDeadline = 20 * time.Microsecond

// patiently makes a call with a context: half of the calls with one that does not end, the others with
// deadlines until none ends the call.
func (r *rank) patiently(t *transfer, call func(context.Context) error) error {
	if t.seed%2 == 0 {
		return call(r.live)
	}
	for d := firstDeadline; ; d *= 2 {
		ctx, stop := r.host.deadline(r.live, d)
		err := call(ctx)
		stop()
		if !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
	}
}

// rest receives by name the messages that receives from any source have left: any death ends those.
func (r *rank) rest(wild map[int]*transfer) error {
	for _, src := range slices.Sorted(maps.Keys(wild)) {
		t := wild[src]
		r.step("rest %+v", *t)
		buf := fresh(t.size)
		r.begin(recvNow)
		st, err := r.wilds.Recv(buf, src, t.tag)
		if err := r.received(t, st, buf, r.done(recvNow, err)); err != nil {
			return err
		}
	}
	return nil
}
