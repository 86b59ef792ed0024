package drill

import (
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"

	"github.com/banyan-hpc/banyan"
)

// validation is a recovery in place by all ranks. They validate and use collectives until there is no
// new failure. Then follow uniform operations, and an exchange in which failures revoke.
type validation struct {
	validate Kind  // which of the three
	spoilers []int // ranks that call broadcasts and make communicators alone before a validate
	root     int
	uniform  []uniformOp
	revokers []int // ranks that revoke instead of the last of these
	within   banyan.ErrorRange
}

// uniformOp is an operation with the same outcome at all survivors.
type uniformOp int

const (
	allBarrier uniformOp = iota
	allBcast
	allAllreduce
	allDup
	allSplit
	allCreate
	allBridge // an intercommunicator and its merge
	uniformOps
)

func (o uniformOp) kind() Kind {
	if o < allDup {
		return uniformCollective
	}
	return uniformCreation
}

func (p *plan) drawValidation(r *rand.Rand) *validation {
	m := &validation{
		validate: between(r, validate, validateMultiple), root: r.IntN(p.n),
		spoilers: r.Perm(p.n)[:r.IntN(2)], within: banyan.ErrorRange(r.IntN(3)),
	}
	for range r.IntN(4) {
		m.uniform = append(m.uniform, uniformOp(r.IntN(int(uniformOps))))
	}
	if r.IntN(4) == 0 && !slices.Contains(m.uniform, allBridge) { // one of its sides may end before the other starts
		m.revokers = r.Perm(p.n)[:1]
	}
	return m
}

// aim includes an operation of a kind.
func (m *validation) aim(k Kind) {
	m.revokers = nil
	switch k {
	case uniformCollective:
		m.uniform = []uniformOp{allAllreduce, allBarrier, allBcast}
	case uniformCreation:
		m.uniform = []uniformOp{allBridge, allSplit}
	case rangedExchange:
		m.uniform = nil
	default:
		m.validate = k
	}
}

// validation does this rank's part on a communicator of its own.
func (r *rank) validation(m *validation) error {
	d, err := r.dup(r.c)
	if err != nil {
		return err
	}
	if err := r.spoil(d, m); err != nil {
		return err
	}
	agreed, err := r.validate(d, m)
	for round := 0; err == nil; round++ {
		if round > r.p.n {
			return fmt.Errorf("%d rounds of collectives and validates", round)
		}
		failed := r.block(d, m, agreed)
		if err = errors.Join(r.excuseMost(d, failed), r.spoil(d, m)); err != nil {
			return err
		}
		was := agreed
		if agreed, err = r.validate(d, m); err == nil && agreed == was {
			if failed != nil {
				return fmt.Errorf("validate gives %#x as the one before, and yet: %w", agreed, failed)
			}
			break
		}
	}
	if err == nil {
		err = r.uniform(d, m, agreed)
	}
	if err != nil {
		return err
	}
	return errors.Join(d.Free(), r.ranged(m))
}

// excuseMost is excuseAny for ranks of a communicator; nil is no error.
func (r *rank) excuseMost(c *banyan.Comm, err error) error {
	if err == nil {
		return nil
	}
	return r.excuseAny(r.inWorld(c, err))
}

// spoil has some ranks call broadcasts and make communicators that the others do not.
func (r *rank) spoil(d *banyan.Comm, m *validation) error {
	if !slices.Contains(m.spoilers, r.me) {
		return nil
	}
	for range 2 {
		if err := r.excuseMost(d, banyan.Bcast(d, []int64{-1}, r.me)); err != nil {
			return err
		}
	}
	if m.validate == validateMultiple {
		return nil // it needs duplicates that all have made
	}
	e, err := d.Dup()
	if err != nil {
		return err
	}
	return e.Free()
}

// validate returns the agreed failures.
func (r *rank) validate(d *banyan.Comm, m *validation) (agreed uint64, err error) {
	known, err := r.members(d.GetFailed())
	if err != nil {
		return 0, err
	}
	r.step("%v %s, of which %#x have failed", m.validate, d.Name(), known)
	var failed banyan.Group
	switch m.validate {
	case validate:
		r.begin(validate)
		failed, err = d.Validate()
	case ivalidate:
		r.begin(ivalidate)
		failed, err = d.Ivalidate().Wait()
	default:
		failed, err = r.several(d)
	}
	if r.done(m.validate, err) != nil {
		return 0, err
	}
	if agreed, err = r.members(failed); err != nil {
		return 0, err
	}
	acked, err := r.members(d.FailureGetAcked())
	if err == nil && (known&^agreed != 0 || agreed&^acked != 0) {
		err = fmt.Errorf("%v gives %#x, known to have failed were %#x, acknowledged have been %#x",
			m.validate, agreed, known, acked)
	}
	for rest := agreed; rest != 0; rest &= rest - 1 {
		if rank := bits.TrailingZeros64(rest); !r.p.dies(rank) {
			err = errors.Join(err, fmt.Errorf("%v gives rank %d, which lives", m.validate, rank))
		} else {
			r.blamed[rank] = true
		}
	}
	r.notes = append(r.notes, note{Kind: m.validate, Value: agreed})
	return agreed, err
}

// several validates the communicator together with one of the same members and one of half of them, in
// an order that differs from rank to rank.
func (r *rank) several(d *banyan.Comm) (failed banyan.Group, err error) {
	e, err := r.dup(d)
	if err != nil {
		return failed, err
	}
	half, err := r.half(d)
	if err != nil {
		return failed, err
	}
	all := []*banyan.Comm{d, e, half}
	for i := range r.me % 6 {
		all[i%3], all[(i+1)%3] = all[(i+1)%3], all[i%3]
	}
	r.begin(validateMultiple)
	got, err := banyan.ValidateMultiple(all...)
	if err == nil {
		failed = got[slices.Index(all, d)]
		if same := got[slices.Index(all, e)]; same.Compare(failed) != banyan.Identical {
			err = errors.New("two communicators of the same ranks have other failures")
		}
	}
	return failed, errors.Join(err, e.Free(), half.Free())
}

// half is the communicator of the ranks with even or odd numbers.
func (r *rank) half(c *banyan.Comm) (*banyan.Comm, error) {
	var mine []int
	for rank := r.me % 2; rank < c.Size(); rank += 2 {
		mine = append(mine, rank)
	}
	g, err := c.Group().Include(mine...)
	if err != nil {
		return nil, err
	}
	return c.CreateGroup(g, 1)
}

// block uses every collective and checks that the survivors alone contribute.
func (r *rank) block(d *banyan.Comm, m *validation, agreed uint64) error {
	left := int64((uint64(1)<<r.p.n - 1) &^ agreed)
	r.step("collectives on %s without %#x", d.Name(), agreed)
	sum, root, all := []int64{1 << r.me}, []int64{int64(-2 - r.me)}, make([]int64, d.Size())
	fill(all, -1)
	reduced := []int64{1 << r.me}
	r.begin(allreduce)
	err := errors.Join(d.Barrier(), banyan.Allreduce(d, sum, sum, banyan.Sum))
	if r.done(allreduce, err) == nil && sum[0] != left {
		return fmt.Errorf("sum on %s without %#x gave %#x", d.Name(), agreed, sum[0])
	}
	if err == nil {
		err = banyan.Bcast(d, root, m.root)
	}
	want := int64(-2 - m.root)
	if agreed>>m.root&1 == 1 {
		want = int64(-2 - r.me)
	}
	if err == nil && root[0] != want {
		return fmt.Errorf("broadcast from %d on %s without %#x gave %d, want %d",
			m.root, d.Name(), agreed, root[0], want)
	}
	if err == nil {
		err = banyan.Reduce(d, reduced, reduced, banyan.Sum, m.root)
	}
	if err == nil && r.me == m.root && reduced[0] != left {
		return fmt.Errorf("reduction on %s without %#x gave %#x", d.Name(), agreed, reduced[0])
	}
	if err == nil {
		err = banyan.Allgather(d, []int64{int64(r.me)}, all)
	}
	for rank, got := range all {
		want := int64(rank)
		if agreed>>rank&1 == 1 {
			want = -1
		}
		if err == nil && got != want {
			return fmt.Errorf("gathering on %s without %#x gave %v", d.Name(), agreed, all)
		}
	}
	return err
}
