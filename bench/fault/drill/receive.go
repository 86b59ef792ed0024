package drill

import (
	"context"
	"errors"
	"fmt"

	"github.com/banyan-hpc/banyan"
)

// receive receives a message without an early receive.
func (r *rank) receive(t *transfer, ph *phase, wild map[int]*transfer) error {
	r.step("receive %+v", *t)
	if t.recv >= mprobe {
		return r.matched(t)
	}
	c, buf := r.on(t), fresh(t.size)
	var st banyan.Status
	var err error
	r.begin(t.recv)
	switch t.recv {
	case recvAny:
		buf = fresh(ph.longest())
		st, err = c.Recv(buf, banyan.AnySource, t.tag)
		return r.caught(wild, st, buf, r.done(recvAny, err))
	case recvAnyTag:
		st, err = c.Recv(buf, t.src, banyan.AnyTag)
	case recvNow:
		st, err = c.Recv(buf, t.src, t.tag)
	case recvContext:
		err = r.patiently(t, func(ctx context.Context) (err error) {
			if st, err = c.WithContext(ctx).Recv(buf, t.src, t.tag); errors.Is(err, context.DeadlineExceeded) {
				if err := still(buf); err != nil {
					return err
				}
			}
			return err
		})
	default:
		st, err = r.look(c, t)
	}
	if r.done(t.recv, err); err == nil && t.recv >= probe {
		if st.Source != banyan.ProcNull && st.Count != t.size {
			return fmt.Errorf("%v found %+v, want %+v", t.recv, st, *t)
		}
		r.begin(recvNow)
		st, err = c.Recv(buf, t.src, t.tag)
		r.done(recvNow, err)
	}
	return r.received(t, st, buf, err)
}

// look probes.
func (r *rank) look(c *banyan.Comm, t *transfer) (st banyan.Status, err error) {
	switch t.recv {
	case probe:
		return c.Probe(t.src, t.tag)
	case probeContext:
		err = r.patiently(t, func(ctx context.Context) (err error) {
			st, err = c.WithContext(ctx).Probe(t.src, t.tag)
			return err
		})
		return st, err
	}
	for found := false; ; r.w.Sleep(pause) {
		if st, found, err = c.Iprobe(t.src, t.tag); found || err != nil {
			return st, err
		}
	}
}

// matched receives a message that was claimed by a probe.
func (r *rank) matched(t *transfer) error {
	r.begin(t.recv)
	m, err := r.claim(r.on(t), t)
	if r.done(t.recv, err) != nil {
		return r.received(t, banyan.Status{}, nil, err)
	}
	how := messageRecv + t.recv - mprobe
	buf := fresh(t.size)
	var st banyan.Status
	r.begin(how)
	switch how {
	case messageRecv, messageContext:
		st, err = m.Recv(buf)
	case messageIrecv:
		st, err = m.Irecv(buf).Wait()
	}
	return r.received(t, st, buf, r.done(how, err))
}

func (r *rank) claim(c *banyan.Comm, t *transfer) (m *banyan.Message, err error) {
	switch t.recv {
	case mprobe:
		return c.Mprobe(t.src, t.tag)
	case mprobeContext:
		err = r.patiently(t, func(ctx context.Context) (err error) {
			m, err = c.WithContext(ctx).Mprobe(t.src, t.tag)
			return err
		})
		return m, err
	}
	for found := false; ; r.w.Sleep(pause) {
		if m, found, err = c.Improbe(t.src, t.tag); found || err != nil {
			return m, err
		}
	}
}

// caught judges the end of a receive from any source.
func (r *rank) caught(wild map[int]*transfer, st banyan.Status, buf []byte, err error) error {
	if err != nil {
		return r.excuseAny(err)
	}
	t := wild[st.Source]
	if t == nil {
		return fmt.Errorf("a receive from any source got %+v, which no rank sent, or which came before", st)
	}
	delete(wild, st.Source)
	return t.check(st, buf)
}
