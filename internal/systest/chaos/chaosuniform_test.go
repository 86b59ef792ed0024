package chaos

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/banyan-hpc/banyan"
)

// classOf is the class of an error: the first that it names, which is the common class of a uniform
// operation.
func classOf(err error) string {
	if err == nil {
		return "success"
	}
	for _, class := range []error{banyan.ErrProcFailed, banyan.ErrRevoked, banyan.ErrDeparted, banyan.ErrArgument,
		banyan.ErrClosed} {
		if err == class { //nolint:errorlint // its wrapped error is looked at below
			return class.Error()
		}
	}
	if failed, ok := err.(*banyan.ProcFailedError); ok && failed != nil { //nolint:errorlint // as above
		return banyan.ErrProcFailed.Error()
	}
	switch e := err.(type) { //nolint:errorlint // as above
	case interface{ Unwrap() error }:
		return classOf(e.Unwrap())
	case interface{ Unwrap() []error }:
		return classOf(e.Unwrap()[0])
	}
	return "other"
}

// uniform runs operations with the same outcome at all living ranks. In some of them one rank
// revokes instead.
func (k *chaosRank) uniform() error {
	d, err := k.copied(k.c)
	if d == nil {
		return err
	}
	level := banyan.UniformCreation
	if k.detector { // otherwise ranks wait for ever for a rank that has met a failure
		level += banyan.Uniformity(k.draw(-11, 2))
	}
	if err := d.SetUniformity(level); err != nil {
		return err
	}
	class := ""
	program := make([]int, 1+k.draw(-12, 6))
	for i := range program {
		program[i] = k.draw(-13-i, 8)
	}
	among := slices.Contains(program, 0) // a revocation may come between the ranks of CreateGroup
	for i, what := range program {
		if !among && k.draw(k.me*8+i, 8*k.n) == 0 {
			err = d.Revoke()
			class = classOf(banyan.ErrRevoked)
		} else {
			class, err = k.alike(d, level, what)
		}
		if err != nil {
			return fmt.Errorf("%d: %w", i, err)
		}
		k.say(d, "uniform", "%d %s", what, class)
		if class == classOf(banyan.ErrRevoked) {
			break // at all ranks
		}
		if class != "success" && k.draw(-20-i, 2) == 0 {
			if _, err := k.validated(d); err != nil {
				return err
			}
		}
	}
	left, err := k.shrink(d)
	return errors.Join(err, k.free(left), k.free(d))
}

// alike runs one operation and returns the class of its outcome.
func (k *chaosRank) alike(d *banyan.Comm, level banyan.Uniformity, what int) (string, error) {
	var e *banyan.Comm
	var err error
	makes := true
	switch {
	case what == 0:
		e, err = d.CreateGroup(d.Group(), 4)
	case what == 1:
		e, err = d.Create(d.Group())
	case !k.detector, what == 2:
		e, err = d.Dup()
	case what == 3:
		e, err = d.Split(k.draw(k.me, 2), d.Rank())
	case level < banyan.UniformCollectives:
		e, err = d.SplitByNode(0)
	default:
		makes, err = false, k.collective(d, what)
	}
	class := classOf(err)
	switch {
	case k.excuse(err) != nil:
		return class, err
	case !makes:
		return class, nil
	case (e == nil) != (err != nil):
		return class, fmt.Errorf("made %v with error %w", e, err)
	case err != nil:
		return class, nil
	case e.Uniformity() != level:
		return class, fmt.Errorf("%s has uniformity %v, want %v", e.Name(), e.Uniformity(), level)
	}
	err = k.agree(e)
	return class, errors.Join(err, k.free(e))
}

// collective runs one collective and checks its result.
func (k *chaosRank) collective(d *banyan.Comm, what int) error {
	one := []int64{1}
	switch what {
	case 4:
		return d.Barrier()
	case 5:
		root := k.draw(-14, d.Size())
		one[0] = int64(d.Rank())
		if err := banyan.Bcast(d, one, root); err != nil {
			return err
		}
		if one[0] != int64(root) && !slices.Contains(k.inWorld(d.FailureGetAcked()), k.inWorld(d.Group())[root]) {
			return fmt.Errorf("bcast from %d gave %d", root, one[0])
		}
		return nil
	case 6:
		if err := banyan.Allreduce(d, one, one, banyan.Sum); err != nil {
			return err
		}
		if want := d.Size() - d.FailureGetAcked().Size(); one[0] != int64(want) {
			return fmt.Errorf("allreduce gave %d, want %d", one[0], want)
		}
		return nil
	}
	return banyan.Reduce(d, one, one, banyan.Sum, k.draw(-15, d.Size()))
}

// ranges has failures revoke a communicator of some of the ranks.
func (k *chaosRank) ranges() error {
	c, err := k.half(k.c)
	if made, err := k.made(err); err != nil || !made {
		return errors.Join(err, k.free(c))
	}
	before := failedIn(k.w.Comm())
	within := banyan.ErrorRange(k.draw(-16, 3))
	if err := errors.Join(c.SetErrorRange(within), k.exchange(c, within), k.ranged(c, within, before)); err != nil {
		return fmt.Errorf("range %v: %w", within, err)
	}
	d, err := c.Dup() // has the same range
	if err == nil {
		err = k.ranged(d, within, before)
	}
	if k.excuse(err) != nil {
		return fmt.Errorf("range %v, of a duplicate: %w", within, err)
	}
	flag := uint64(1)
	if c.IsRevoked() {
		flag = 0
	}
	flag, err = c.Agree(flag)
	k.say(c, "revoked by failures", "%d", flag)
	if k.excuse(err) != nil || within == banyan.ErrorsLocal && flag == 0 {
		return fmt.Errorf("range %v, agreed that it is not revoked: %d: %w", within, flag, err)
	}
	// A revocation comes, or the simulation ends
	for flag == 0 && !c.IsRevoked() && (k.detector || within == banyan.ErrorsUniverse) {
		k.w.Sleep(50 * time.Microsecond)
	}
	return errors.Join(k.free(d), k.free(c))
}

// failedIn counts the known failures among the ranks of a communicator.
func failedIn(c *banyan.Comm) int { return c.GetFailed().Size() }

// exchange communicates, and checks that failures in the range are reported as revocations.
func (k *chaosRank) exchange(c *banyan.Comm, within banyan.ErrorRange) error {
	if within != banyan.ErrorsUniverse && (within != banyan.ErrorsGroup || !k.detector) {
		return nil // some would wait for a rank that has left
	}
	old := failedIn(c)
	var err error
	local := false // an error of a failure that has not revoked
	right, left := (c.Rank()+1)%c.Size(), (c.Rank()+c.Size()-1)%c.Size()
	for range 2 {
		_, serr := c.Sendrecv(nil, right, 6, nil, left, 6)
		err = errors.Join(err, serr)
		local = local || banyan.ClassOf(serr) == banyan.ClassProcFailed
	}
	switch {
	case k.excuse(err) != nil:
		return err
	case !local:
		if err != nil && !c.IsRevoked() {
			return fmt.Errorf("%s is not revoked: %v", c.Name(), err) //nolint:errorlint // it is not to be excused
		}
		return nil
	case within == banyan.ErrorsUniverse && old > 0: // perhaps known when c was created
		return c.Revoke()
	}
	return fmt.Errorf("want success, or the error of what is revoked: %v", err) //nolint:errorlint // as above
}

// ranged checks that failures in the range have revoked, and others have not.
func (k *chaosRank) ranged(c *banyan.Comm, within banyan.ErrorRange, before int) error {
	known, job := failedIn(c), failedIn(k.w.Comm())
	revoked, died := c.IsRevoked(), len(k.deaths) > 0
	switch {
	case !revoked && (within == banyan.ErrorsGroup && known > 0 || within == banyan.ErrorsUniverse && job > before):
		return fmt.Errorf("%s is not revoked: %d of its ranks and %d of the job have failed, %d before", c.Name(),
			known, job, before)
	case revoked && (!died || within == banyan.ErrorsLocal || within == banyan.ErrorsGroup && failedIn(c) == 0):
		return fmt.Errorf("%s is revoked, and %d of its ranks have failed", c.Name(), failedIn(c))
	}
	return nil
}
