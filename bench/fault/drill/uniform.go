package drill

import (
	"errors"
	"fmt"
	"slices"

	"github.com/banyan-hpc/banyan"
)

// The classes of outcomes, which survivors must share.
const (
	wentWell = iota
	endedByFailure
	endedByRevoke
)

// uniform performs operations that have the same outcome at all survivors. The ranks of agreed are
// known to have failed.
func (r *rank) uniform(d *banyan.Comm, m *validation, agreed uint64) error {
	if err := d.SetUniformity(banyan.UniformCollectives); err != nil {
		return err
	}
	plain := *m
	plain.validate = min(m.validate, ivalidate) // validateMultiple makes communicators, which all ranks make or none
	for i, op := range m.uniform {
		last := i == len(m.uniform)-1
		if op == allBridge {
			if err := r.bridge(d); err != nil {
				return err
			}
			continue
		}
		class := endedByRevoke
		var err error
		if last && len(m.revokers) > 0 && m.revokers[0] == r.me {
			err = r.revoke(d)
		} else {
			class, err = r.oneUniform(d, op, m.root, agreed)
		}
		if err != nil {
			return err
		}
		r.notes = append(r.notes, note{Kind: op.kind(), Value: uint64(class)})
		if class == endedByFailure && !last {
			if agreed, err = r.validate(d, &plain); err != nil {
				return err
			}
		}
	}
	return nil
}

// classified returns the class of an error of a uniform operation on a communicator of all ranks.
func (r *rank) classified(d *banyan.Comm, err error) (int, error) {
	switch {
	case err == nil:
		return wentWell, nil
	case errors.Is(err, banyan.ErrRevoked):
		r.failed++
		return endedByRevoke, nil
	}
	var failed *banyan.ProcFailedError
	if errors.As(err, &failed) && d != nil {
		err = r.inWorld(d, err)
	} else if errors.Is(err, banyan.ErrProcFailed) && len(r.p.doomed) > 0 {
		r.failed++
		return endedByFailure, nil // of the other side
	}
	return endedByFailure, r.excuseAny(err)
}

// oneUniform performs one operation and returns the class of its outcome.
func (r *rank) oneUniform(d *banyan.Comm, op uniformOp, root int, agreed uint64) (int, error) {
	r.step("uniform operation %d on %s", op, d.Name())
	r.begin(op.kind())
	data := series(r.me+1, 1, 2)
	var e *banyan.Comm
	var err error
	switch op {
	case allBarrier:
		err = d.Barrier()
	case allBcast:
		err = banyan.Bcast(d, data, root)
	case allAllreduce:
		err = banyan.Allreduce(d, data, data, banyan.Sum)
	case allDup:
		e, err = d.Dup()
	case allSplit:
		e, err = d.Split(r.me%2, -r.me)
	case allCreate:
		e, err = d.Create(d.Group())
	}
	r.done(op.kind(), err)
	class, wrong := r.classified(d, err)
	if e != nil {
		wrong = errors.Join(wrong, r.consists(e, r.created(op, agreed)), e.Free())
	}
	if made := e != nil; wrong == nil && op.kind() == uniformCreation && made != (err == nil) {
		wrong = fmt.Errorf("uniform operation %d made %v, with error %w", op, e, err)
	}
	if want := r.uniformResult(op, root, agreed, err); wrong == nil && !slices.Equal(data, want) {
		wrong = fmt.Errorf("uniform operation %d without %#x gave %#x, want %#x, with error %w", op, agreed, data, want, err)
	}
	return class, wrong
}

// uniformResult is what the buffer of an operation then has: after an error what it had before. The
// ranks of agreed take no part.
func (r *rank) uniformResult(op uniformOp, root int, agreed uint64, err error) []int64 {
	sum, ranks := r.me+1, 1
	switch {
	case err != nil:
	case op == allBcast && agreed>>root&1 == 0:
		sum = root + 1
	case op == allAllreduce:
		sum, ranks = 0, 0
		for rank := range r.p.n {
			if agreed>>rank&1 == 0 {
				sum, ranks = sum+rank+1, ranks+1
			}
		}
	}
	return series(sum, ranks, 2)
}

// consists returns an error if a communicator has other members than these ranks of the world, in
// their order.
func (r *rank) consists(c *banyan.Comm, want []int) error {
	g, err := r.c.Group().Include(want...)
	if err == nil && c.Group().Compare(g) != banyan.Identical {
		err = fmt.Errorf("%s has %d members, want the ranks %v", c.Name(), c.Size(), want)
	}
	return err
}

// created are the ranks of a communicator that an operation makes.
func (r *rank) created(op uniformOp, agreed uint64) (ranks []int) {
	for rank := range r.p.n {
		if op != allSplit || rank%2 == r.me%2 && agreed>>rank&1 == 0 {
			ranks = append(ranks, rank)
		}
	}
	if op == allSplit {
		slices.Reverse(ranks)
	}
	return ranks
}

// bridge makes an intercommunicator of the even ranks and the odd ones, and merges it.
func (r *rank) bridge(d *banyan.Comm) error {
	if err := d.SetUniformity(banyan.UniformNothing); err != nil {
		return err
	}
	half, err := r.half(d) // is local
	if err != nil {
		return err
	}
	err = errors.Join(d.SetUniformity(banyan.UniformCollectives), half.SetUniformity(banyan.UniformCreation))
	if err != nil {
		return err
	}
	r.step("CreateInter on %s", half.Name())
	r.begin(uniformCreation)
	inter, err := half.CreateInter(0, d, 1-r.me%2, 3)
	r.done(uniformCreation, err)
	class, err := r.classified(nil, err)
	if err != nil {
		return err
	}
	r.notes = append(r.notes, note{Kind: uniformCreation, Value: uint64(class)})
	if class == wentWell {
		r.step("Merge of %s", inter.Name())
		r.begin(uniformCreation)
		merged, err := inter.Merge(r.me%2 == 0)
		r.done(uniformCreation, err)
		if class, err = r.classified(nil, err); err != nil {
			return err
		}
		r.notes = append(r.notes, note{Kind: uniformCreation, Value: uint64(class)})
		if merged != nil {
			err = errors.Join(r.consists(merged, r.oddFirst()), merged.Free())
		}
		if err := errors.Join(err, inter.Free()); err != nil {
			return err
		}
	}
	return half.Free()
}

// oddFirst are all ranks, the odd ones first.
func (r *rank) oddFirst() (ranks []int) {
	for i := range 2 * r.p.n {
		if rank := i % r.p.n; rank%2 == 1-i/r.p.n {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

// ranged exchanges messages on a communicator of half of the ranks, which failures within a range
// revoke.
func (r *rank) ranged(m *validation) error {
	d, err := r.dup(r.c)
	if err != nil {
		return err
	}
	c, err := r.half(d)
	if err != nil {
		return err
	}
	before, job := c.GetFailed().Size(), r.c.GetFailed().Size()
	if err := c.SetErrorRange(m.within); err != nil {
		return err
	}
	r.step("exchange on %s, errors within %v", c.Name(), m.within)
	right, left := (c.Rank()+1)%c.Size(), (c.Rank()+c.Size()-1)%c.Size()
	for range 3 { // also after an error: others wait for this rank
		r.begin(rangedExchange)
		_, err := c.Sendrecv(nil, right, 1, nil, left, 1)
		r.done(rangedExchange, err)
		if err = r.inRange(c, m.within, before, err); err != nil {
			return err
		}
	}
	now, known := c.GetFailed().Size(), r.c.GetFailed().Size()
	revoked := c.IsRevoked()
	switch {
	case !revoked && (m.within == banyan.ErrorsGroup && now > 0 || m.within == banyan.ErrorsUniverse && known > job):
		err = fmt.Errorf("%s is not revoked by failures within %v: %d of %d", c.Name(), m.within, now, known)
	case revoked && (m.within == banyan.ErrorsLocal || len(r.p.doomed) == 0 ||
		m.within == banyan.ErrorsGroup && c.GetFailed().Size() == 0):
		err = fmt.Errorf("%s is revoked, with failures within %v: %d of %d", c.Name(), m.within, now, known)
	}
	return errors.Join(err, c.Free(), d.Free())
}

// inRange judges an error of an exchange: failures in the range revoke the communicator. In a range of
// the whole job, failures known before do not count.
func (r *rank) inRange(c *banyan.Comm, within banyan.ErrorRange, before int, err error) error {
	var failed *banyan.ProcFailedError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, banyan.ErrRevoked) && within != banyan.ErrorsLocal:
		r.failed++
		return nil
	case errors.As(err, &failed) && (within == banyan.ErrorsLocal || within == banyan.ErrorsUniverse && before > 0):
		return r.excuseAny(r.inWorld(c, err))
	}
	return fmt.Errorf("errors within %v: %w", within, err)
}
