package drill

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/banyan-hpc/banyan"
)

// interplay is a recovery whose operations overlap.
type interplay struct {
	kind    int
	revoker int
}

// The kinds of interplay.
const (
	overlapping = iota // two agreements and a shrink are under way at once
	crosswise          // two communicators shrink, in an order that differs from rank to rank
	notified           // one rank revokes, and the others wait for nothing else
	twoSided           // an intercommunicator shrinks and merges
	interplays
)

func (p *plan) drawInterplay(r *rand.Rand) *interplay {
	return &interplay{kind: r.IntN(interplays), revoker: r.IntN(p.n)}
}

// interplay does this rank's part on communicators of its own.
func (r *rank) interplay(p *interplay) error {
	switch p.kind {
	case crosswise:
		return r.crosswise()
	case notified:
		return r.notified(p.revoker)
	case twoSided:
		return r.twoSided()
	}
	return r.overlapping()
}

// overlapping waits for its operations in one of two orders, and judges them in the same order at all
// ranks.
func (r *rank) overlapping() error {
	c, err := r.dup(r.c)
	if err != nil {
		return err
	}
	r.step("two agreements and a shrink on %s", c.Name())
	known, err := r.members(c.GetFailed())
	if err != nil {
		return err
	}
	flag := flagOf(r.me)
	for _, k := range []Kind{iagree, iagree, ishrink} {
		r.begin(k)
	}
	first, second, shrink := c.Iagree(flag), c.Iagree(flag), c.Ishrink()
	reqs := []banyan.Request{first.Request(), second.Request(), shrink.Request()}
	errs := make([]error, len(reqs))
	for i := range reqs {
		k := i
		if r.me%2 == 1 {
			k = len(reqs) - 1 - i
		}
		_, errs[k] = reqs[k].Wait()
	}
	_, err = r.judgeAgree(c, iagree, flag, first.Value(), r.done(iagree, errs[0]))
	_, err2 := r.judgeAgree(c, iagree, flag, second.Value(), r.done(iagree, errs[1]))
	if err = errors.Join(err, err2, r.done(ishrink, errs[2])); err != nil {
		return err
	}
	left := shrink.Value()
	return errors.Join(r.shrunk(c, left, known, ishrink), left.Free(), c.Free())
}

// crosswise shrinks two communicators of the same members.
func (r *rank) crosswise() error {
	var comms, left [2]*banyan.Comm
	var known [2]uint64
	var reqs [2]banyan.Result[*banyan.Comm]
	var err error
	for i := range comms {
		if comms[i], err = r.dup(r.c); err != nil {
			return err
		}
	}
	r.step("two shrinks")
	for i := range comms {
		k := (i + r.me) % 2
		if known[k], err = r.members(comms[k].GetFailed()); err != nil {
			return err
		}
		r.begin(ishrink)
		reqs[k] = comms[k].Ishrink()
	}
	for i := range comms {
		left[i], err = reqs[i].Wait()
		if r.done(ishrink, err) != nil {
			return err
		}
		err = r.shrunk(comms[i], left[i], known[i], ishrink)
		if err = errors.Join(err, left[i].Free(), comms[i].Free()); err != nil {
			return err
		}
	}
	return nil
}

// notified waits for a message that no rank sends. A dead revoker is the source of some rank's receive,
// which then revokes.
func (r *rank) notified(revoker int) error {
	c, err := r.dup(r.c)
	if err != nil {
		return err
	}
	if r.me != revoker {
		source := (r.me + 1) % r.p.n
		r.step("wait for a revocation of %s", c.Name())
		r.begin(recvNow)
		_, err := c.Recv(nil, source, 5)
		switch r.done(recvNow, err); {
		case err == nil && !r.null(c, source):
			return errors.New("a receive got a message that no rank has sent")
		case errors.Is(err, banyan.ErrRevoked):
			r.failed++
		default:
			if err := r.excuse(err, source); err != nil {
				return err
			}
		}
	}
	return errors.Join(r.revoke(c), c.Free())
}

// twoSided makes an intercommunicator of the even ranks and the odd ones, shrinks it, and merges the
// sides.
func (r *rank) twoSided() error {
	c, err := r.dup(r.c)
	if err != nil {
		return err
	}
	half, err := r.half(c)
	if err != nil {
		return err
	}
	r.step("CreateInter on %s", half.Name())
	inter, err := half.CreateInter(0, c, 1-r.me%2, 3)
	made := uint64(1)
	if err != nil {
		made = 0
		if err := errors.Join(r.excuseInter(err), r.revoke(half)); err != nil {
			return err
		}
	}
	all, _, err := r.agree(c, agree, ^uint64(1)|made)
	if err != nil {
		return err
	}
	if all&1 == 1 {
		if inter, err = r.shrinkInter(inter); err != nil {
			return err
		}
	}
	if inter != nil {
		err = inter.Free()
	}
	return errors.Join(err, half.Free(), c.Free())
}

// excuseInter excuses an error of an operation on two groups: its ranks are of one or the other.
func (r *rank) excuseInter(err error) error {
	r.failed++
	if len(r.p.doomed) > 0 && (errors.Is(err, banyan.ErrProcFailed) || errors.Is(err, banyan.ErrRevoked)) {
		return nil
	}
	return err
}

// shrinkInter shrinks an intercommunicator, and merges it if both sides have survivors. It returns the
// intercommunicator that is left.
func (r *rank) shrinkInter(inter *banyan.Comm) (*banyan.Comm, error) {
	r.step("Shrink %s", inter.Name())
	known, err := r.members(inter.GetFailed())
	if err != nil {
		return nil, err
	}
	r.begin(shrink)
	left, err := inter.Shrink()
	if r.done(shrink, err) != nil {
		return nil, err
	}
	if err := errors.Join(r.shrunk(inter, left, known, shrink), inter.Free()); err != nil {
		return nil, err
	}
	if left == nil || left.Size() == 0 || left.RemoteGroup().Size() == 0 {
		return left, nil
	}
	r.step("Merge %s", left.Name())
	merged, err := left.Merge(r.me%2 == 0)
	if err != nil {
		return left, errors.Join(r.excuseInter(err), r.revoke(left))
	}
	if merged == nil {
		return left, fmt.Errorf("the merge of %s made nothing", left.Name())
	}
	return left, merged.Free()
}
