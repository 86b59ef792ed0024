package drill

import (
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"

	"github.com/banyan-hpc/banyan"
)

// mend is a recovery in place that all ranks take part in: they validate, and use collectives, until nobody new has failed;
// then follow operations that end alike at all, and an exchange in which failures revoke.
type mend struct {
	validate Kind  // which of the three
	spoilers []int // ranks that call a broadcast and make communicators which the others do not, before a validate
	root     int
	uniform  []uniformOp
	revokers []int // ranks that revoke in place of the last of these
	within   banyan.ErrorRange
}

// uniformOp is an operation with the same outcome at all.
type uniformOp int

const (
	allBarrier uniformOp = iota
	allBcast
	allAllreduce
	allDup
	allSplit
	allCreate
	allBridge // an intercommunicator, and what is merged of it
	uniformOps
)

func (o uniformOp) kind() Kind {
	if o < allDup {
		return uniformCollective
	}
	return uniformCreation
}

func (p *plan) drawMend(r *rand.Rand) *mend {
	m := &mend{
		validate: between(r, validate, validateMultiple), root: r.IntN(p.n),
		spoilers: r.Perm(p.n)[:r.IntN(2)], within: banyan.ErrorRange(r.IntN(3)),
	}
	for range r.IntN(4) {
		m.uniform = append(m.uniform, uniformOp(r.IntN(int(uniformOps))))
	}
	if r.IntN(4) == 0 && !slices.Contains(m.uniform, allBridge) { // of which one side may end before the other begins
		m.revokers = r.Perm(p.n)[:1]
	}
	return m
}

// aim has an operation of a kind be in it.
func (m *mend) aim(k Kind) {
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

// mend does this rank's part on a communicator of its own.
func (r *rank) mend(m *mend) error {
	d, err := r.dup(r.c)
	if err != nil {
		return err
	}
	if err := r.spoil(d, m); err != nil {
		return err
	}
	gone, err := r.validate(d, m)
	for round := 0; err == nil; round++ {
		if round > r.p.n {
			return fmt.Errorf("%d rounds of collectives and validates", round)
		}
		failed := r.block(d, m, gone)
		if err = errors.Join(r.excuseMost(d, failed), r.spoil(d, m)); err != nil {
			return err
		}
		was := gone
		if gone, err = r.validate(d, m); err == nil && gone == was {
			if failed != nil {
				return fmt.Errorf("validate gives %#x as the one before, and yet: %w", gone, failed)
			}
			break
		}
	}
	if err == nil {
		err = r.alike(d, m)
	}
	if err != nil {
		return err
	}
	return errors.Join(d.Free(), r.ranged(m))
}

// excuseMost answers nil where there is no error as well.
func (r *rank) excuseMost(c *banyan.Comm, err error) error {
	if err == nil {
		return nil
	}
	return r.excuseAny(r.inWorld(c, err))
}

// spoil has one rank call broadcasts that the others do not, and make communicators.
func (r *rank) spoil(d *banyan.Comm, m *mend) error {
	if !slices.Contains(m.spoilers, r.me) {
		return nil
	}
	for range 2 {
		if err := r.excuseMost(d, banyan.Bcast(d, []int64{-1}, r.me)); err != nil {
			return err
		}
	}
	if m.validate == validateMultiple {
		return nil // which needs duplicates that all have made
	}
	e, err := d.Dup()
	if err != nil {
		return err
	}
	return e.Free()
}

// validate gives who is agreed to have failed.
func (r *rank) validate(d *banyan.Comm, m *mend) (gone uint64, err error) {
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
		req := d.Ivalidate(&failed)
		_, err = req.Wait()
	default:
		failed, err = r.several(d)
	}
	if r.done(m.validate, err) != nil {
		return 0, err
	}
	if gone, err = r.members(failed); err != nil {
		return 0, err
	}
	acked, err := r.members(d.FailureGetAcked())
	if err == nil && (known&^gone != 0 || gone&^acked != 0) {
		err = fmt.Errorf("%v gives %#x, known to have failed were %#x, acknowledged have been %#x", m.validate, gone, known, acked)
	}
	for rest := gone; rest != 0; rest &= rest - 1 {
		if rank := bits.TrailingZeros64(rest); !r.p.dies(rank) {
			err = errors.Join(err, fmt.Errorf("%v gives rank %d, which lives", m.validate, rank))
		} else {
			r.blamed[rank] = true
		}
	}
	r.notes = append(r.notes, note{Kind: m.validate, Value: gone})
	return gone, err
}

// several validates the communicator with one of the same members and one of half of them, in an order that differs from rank
// to rank.
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

// half is of the ranks with even or odd numbers.
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

// block uses every collective, and compares the outcome with what those make of it who are not gone.
func (r *rank) block(d *banyan.Comm, m *mend, gone uint64) error {
	left := int64((uint64(1)<<r.p.n - 1) &^ gone)
	r.step("collectives on %s without %#x", d.Name(), gone)
	sum, root, all := []int64{1 << r.me}, []int64{int64(-2 - r.me)}, make([]int64, d.Size())
	fill(all, -1)
	reduced := []int64{1 << r.me}
	r.begin(allreduce)
	err := errors.Join(d.Barrier(), banyan.Allreduce(d, sum, banyan.Sum))
	if r.done(allreduce, err) == nil && sum[0] != left {
		return fmt.Errorf("sum on %s without %#x gave %#x", d.Name(), gone, sum[0])
	}
	if err == nil {
		err = banyan.Bcast(d, root, m.root)
	}
	want := int64(-2 - m.root)
	if gone>>m.root&1 == 1 {
		want = int64(-2 - r.me)
	}
	if err == nil && root[0] != want {
		return fmt.Errorf("broadcast from %d on %s without %#x gave %d, want %d", m.root, d.Name(), gone, root[0], want)
	}
	if err == nil {
		err = banyan.Reduce(d, reduced, banyan.Sum, m.root)
	}
	if err == nil && r.me == m.root && reduced[0] != left {
		return fmt.Errorf("reduction on %s without %#x gave %#x", d.Name(), gone, reduced[0])
	}
	if err == nil {
		err = banyan.Allgather(d, []int64{int64(r.me)}, all)
	}
	for rank, got := range all {
		want := int64(rank)
		if gone>>rank&1 == 1 {
			want = -1
		}
		if err == nil && got != want {
			return fmt.Errorf("gathering on %s without %#x gave %v", d.Name(), gone, all)
		}
	}
	return err
}
