package drill

import (
	"context"
	"errors"
	"fmt"

	"github.com/banyan-hpc/banyan"
)

// await waits for operations in the phase's way, and judges their ends.
func (r *rank) await(ph *phase, ops []under, wild map[int]*transfer) error {
	if len(ops) == 0 {
		return nil
	}
	r.step("%v for %d requests", ph.waits, len(ops))
	switch ph.waits {
	case waitAll, testAll, waitAllContext:
		return r.awaitAll(ph.waits, ops, wild)
	case waitEach, testEach, waitContext:
		return r.awaitEach(ph.waits, ops, wild)
	}
	reqs := make([]banyan.Request, len(ops))
	for i, u := range ops {
		reqs[i] = u.req
	}
	for left := len(ops); left > 0; {
		r.begin(ph.waits)
		out, err := r.some(ph.waits, reqs)
		if r.done(ph.waits, err) != nil {
			return err
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

// some waits until one request at least has ended.
func (r *rank) some(how Kind, reqs []banyan.Request) (out []banyan.Outcome, err error) {
	one := banyan.Outcome{}
	switch how {
	case waitSome:
		return banyan.WaitSome(reqs, nil)
	case waitAny:
		one.Index, one.Status, one.Err = banyan.WaitAny(reqs)
	case waitSomeContext, waitAnyContext:
		// Half of these waits have deadlines.
		err = r.patiently(&transfer{seed: byte(r.ops)}, func(ctx context.Context) (err error) {
			bind(ctx, reqs)
			if how == waitSomeContext {
				out, err = banyan.WaitSome(reqs, nil)
				return err
			}
			one.Index, one.Status, one.Err = banyan.WaitAny(reqs)
			if one.Index < 0 {
				return one.Err
			}
			return nil
		})
		if how == waitSomeContext || err != nil {
			return out, err
		}
	default:
		for done := false; ; r.w.Sleep(pause) {
			if how == testSome {
				if out, _, err = banyan.TestSome(reqs, nil); len(out) > 0 || err != nil {
					return out, err
				}
				continue
			}
			if one.Index, one.Status, done, one.Err = banyan.TestAny(reqs); done || one.Err != nil {
				break
			}
		}
	}
	return []banyan.Outcome{one}, nil
}

// bind has the waits for requests end with a context.
func bind(ctx context.Context, reqs []banyan.Request) []banyan.Request {
	for i, q := range reqs {
		reqs[i] = q.WithContext(ctx)
	}
	return reqs
}

// awaitEach waits for one request after the other.
func (r *rank) awaitEach(how Kind, ops []under, wild map[int]*transfer) error {
	for i := range ops {
		u := &ops[i]
		o := banyan.Outcome{}
		r.begin(how)
		switch how {
		case waitContext:
			o = r.untilDeadlines(u, wild)
		case testEach:
			for done := false; ; r.w.Sleep(pause) {
				if o.Status, done, o.Err = u.req.Test(); done || o.Err != nil {
					break
				}
			}
		default:
			o.Status, o.Err = u.req.Wait()
		}
		r.done(how, o.Err)
		if err := r.ended(u, o, wild); err != nil {
			return err
		}
	}
	return nil
}

// untilDeadlines waits with a context. A deadline cancels a receive: its buffer is unchanged, and it is
// posted again.
func (r *rank) untilDeadlines(u *under, wild map[int]*transfer) (o banyan.Outcome) {
	t := u.t
	for _, one := range wild {
		if t == nil {
			t = one // all have the same tag
		}
	}
	if t == nil { // another receive has taken its message
		o.Status, o.Err = u.req.Wait()
		return o
	}
	o.Err = r.patiently(t, func(ctx context.Context) (err error) {
		o.Status, err = u.req.WithContext(ctx).Wait()
		if !errors.Is(err, context.DeadlineExceeded) || u.buf == nil {
			return err
		}
		if err := still(u.buf); err != nil {
			return err
		}
		if u.again != nil {
			_, _ = u.again.Wait() // over: the request is the same
		}
		u.repost(t.tag)
		return err
	})
	return o
}

// awaitAll waits for all requests with one call, which returns one error. Receives from any source,
// which may stay pending, are waited for separately.
func (r *rank) awaitAll(how Kind, ops []under, wild map[int]*transfer) error {
	var named, others []under
	var reqs []banyan.Request
	for _, u := range ops {
		if u.t == nil {
			others = append(others, u)
			continue
		}
		named, reqs = append(named, u), append(reqs, u.req)
	}
	r.begin(how)
	var err error
	switch how {
	case waitAll:
		err = banyan.WaitAll(reqs)
	case waitAllContext:
		err = banyan.WaitAll(bind(r.live, reqs))
	default:
		for done := false; ; r.w.Sleep(pause) {
			if done, err = banyan.TestAll(reqs); done || err != nil {
				break
			}
		}
	}
	well := err == nil
	if r.done(how, err) != nil {
		err = r.excuseSome(err, named)
	}
	for _, u := range named {
		r.done(u.kind, nil) // the error does not name the failed ones
		if u.buf != nil && (!r.p.dies(u.t.src) || well && !r.null(u.on, u.t.src)) {
			err = errors.Join(err, u.t.intact(u.buf))
		}
		err = errors.Join(err, u.over())
	}
	return errors.Join(err, r.awaitEach(waitEach, others, wild))
}

// over frees a persistent request.
func (u *under) over() error {
	if u.again == nil {
		return nil
	}
	_, _ = u.again.Wait() // over: the request is the same
	return u.again.Free()
}

// pending continues a receive from any source after ErrProcFailedPending. It acknowledges the failure
// and waits if only survivors have messages for it. Otherwise it cancels the receive, which may have
// received a message meanwhile.
func (r *rank) pending(u *under, o *banyan.Outcome, wild map[int]*transfer) error {
	for errors.Is(o.Err, banyan.ErrProcFailedPending) {
		if err := r.excuseAny(o.Err); err != nil {
			return err
		}
		if r.hopeful(wild) {
			if err := r.acknowledge(r.wilds); err != nil {
				return err
			}
		} else {
			r.begin(cancel)
			u.req.Cancel()
			r.done(cancel, nil)
		}
		o.Status, o.Err = u.req.Wait()
	}
	return nil
}

// hopeful reports whether no rank with a message for a receive from any source is doomed.
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
			r.done(u.kind, err)
			return err
		}
		return r.caught(wild, o.Status, u.buf, r.done(u.kind, o.Err))
	}
	r.done(u.kind, o.Err)
	if err := u.over(); err != nil {
		return err
	}
	if u.buf != nil {
		return r.received(u.t, o.Status, u.buf, o.Err)
	}
	return r.sent(u.t, o.Err)
}
