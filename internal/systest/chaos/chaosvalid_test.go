package chaos

import (
	"errors"
	"fmt"
	"slices"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// copied returns a duplicate that all ranks have, or nil.
func (k *chaosRank) copied(c *banyan.Comm) (*banyan.Comm, error) {
	d, err := c.Dup()
	if made, err := k.made(err); err != nil || !made {
		return nil, errors.Join(err, k.free(d))
	}
	return d, nil
}

// validate runs rounds of all collectives, each of which ends with a validate. Without a detector a
// rank with an error revokes, and the remaining ranks go on.
func (k *chaosRank) validate() error {
	d, err := k.copied(k.c)
	if d == nil {
		return err
	}
	for range 2*len(k.deaths) + 3 {
		if err := k.unequal(d); err != nil {
			return err
		}
		dead, err := k.validated(d)
		if err != nil {
			return err
		}
		well, err := k.block(d, dead)
		switch {
		case err != nil:
			return err
		case well:
			return k.parting(d, dead)
		case !k.detector:
			left, err := k.shrink(d)
			if err := errors.Join(err, k.free(d)); err != nil {
				return err
			}
			d = left
		}
	}
	return errors.New("more rounds than failures")
}

// block runs every collective and reports whether all ranks succeeded. With a detector the
// following validate decides: they did if no new rank has failed.
func (k *chaosRank) block(d *banyan.Comm, dead []int) (well bool, err error) {
	err = ranktest.CheckCollectives(d, k.ranksOf(d, dead))
	if k.excuse(err) != nil {
		return false, err
	}
	if err != nil && !k.detector {
		if err := d.Revoke(); err != nil {
			return false, err
		}
	}
	if k.detector && k.draw(-7, 2) == 0 {
		now, verr := k.validated(d)
		if verr == nil && err != nil && len(now) == len(dead) {
			verr = fmt.Errorf("validate gave %v as the one before, and yet: %w", now, err)
		}
		return len(now) == len(dead), verr
	}
	flag := uint64(1)
	if err != nil {
		flag = 0
	}
	flag, err = d.Agree(flag)
	k.say(d, "well", "%d %v", flag, err != nil)
	return flag == 1, k.excuse(err)
}

// unequal has one rank call broadcasts that the others do not call, and some create communicators.
// A validate makes up for both.
func (k *chaosRank) unequal(d *banyan.Comm) error {
	if k.draw(-8, d.Size()) == d.Rank() {
		for range 1 + k.draw(-9, 3) {
			if err := k.excuse(d.Bcast([]byte{0xdd, 0xdd, 0xdd}, d.Rank())); err != nil {
				return err
			}
		}
	}
	for range k.draw(k.me, 3) {
		e, err := d.Dup()
		if err := errors.Join(k.excuse(err), k.free(e)); err != nil {
			return err
		}
	}
	return nil
}

// parting ends a validated communicator with others derived from it, which exclude the failed ranks
// from the beginning.
func (k *chaosRank) parting(d *banyan.Comm, dead []int) error {
	for range k.draw(-17, 5) { // they start with the same numbers
		e, err := d.Dup()
		if errors.Is(err, banyan.ErrRevoked) {
			break // by one that has died since; the next one is not created either
		}
		if err != nil {
			return err
		}
		defer func() { _ = e.Free() }() // fails only after a free
	}
	e, err := k.copied(d)
	if e != nil {
		if err = ranktest.CheckCollectives(e, k.ranksOf(d, dead)); err != nil && k.excuse(err) == nil {
			err = e.Revoke()
		}
		err = errors.Join(err, k.agree(e))
	}
	return errors.Join(err, k.free(e), k.free(d))
}

// ranksOf is the ranks in a communicator of ranks of the world.
func (k *chaosRank) ranksOf(c *banyan.Comm, world []int) []int {
	in, err := k.w.Comm().Group().Translate(world, c.Group())
	if err != nil {
		panic(err) // they are of the world
	}
	return in
}

// validated validates a communicator and judges the result: ranks of the world.
func (k *chaosRank) validated(c *banyan.Comm) ([]int, error) {
	known := k.inWorld(c.GetFailed())
	var failed banyan.Group
	var err error
	if k.draw(k.me, 2) == 0 {
		failed, err = c.Validate()
	} else {
		failed, err = c.Ivalidate().Wait()
	}
	if err != nil {
		return nil, fmt.Errorf("validate: %w", err)
	}
	return k.inWorld(failed), k.judgeValidated(c, known, failed)
}

// judgeValidated checks a validate's result; some ranks were known to have failed before.
func (k *chaosRank) judgeValidated(c *banyan.Comm, known []int, failed banyan.Group) error {
	dead, acked := k.inWorld(failed), k.inWorld(c.FailureGetAcked())
	for _, rank := range dead {
		if !k.dies(rank) {
			return fmt.Errorf("validate gives %v, and rank %d lives", dead, rank)
		}
	}
	for _, rank := range known {
		if !slices.Contains(dead, rank) {
			return fmt.Errorf("validate gives %v, and rank %d was known to have failed", dead, rank)
		}
	}
	if len(acked) < len(dead) || !slices.Equal(sorted(acked[:len(dead)]), sorted(dead)) {
		return fmt.Errorf("validate gives %v, and %v have been acknowledged", dead, acked)
	}
	k.say(c, "validated", "%v", dead)
	return nil
}

func sorted(ranks []int) []int { return slices.Sorted(slices.Values(ranks)) }

// multiple validates communicators with the same and with other members, in an order of its own.
func (k *chaosRank) multiple() error {
	d, err := k.copied(k.c)
	if d == nil {
		return err
	}
	half, err := k.half(d)
	var e *banyan.Comm
	if err == nil {
		e, err = d.Dup()
	}
	if made, err := k.made(err); err != nil || !made {
		return errors.Join(err, k.free(e), k.free(half), k.free(d))
	}
	all := []*banyan.Comm{d, half, e}
	if d.Size() > 1 && k.draw(-10, 3) == 0 {
		inter, err := half.CreateInter(0, d, 1-d.Rank()%2, 3)
		if err != nil {
			if err := half.Revoke(); err != nil {
				return err
			}
		}
		if made, err := k.made(err); err != nil || !made {
			return errors.Join(err, k.free(inter))
		}
		all = append(all, inter)
	}
	named := slices.Clone(all)
	for i := range named {
		j := k.draw(k.me*8+i, len(named))
		named[i], named[j] = named[j], named[i]
	}
	known := map[*banyan.Comm][]int{}
	for _, c := range named {
		known[c] = k.inWorld(c.GetFailed())
	}
	got := map[*banyan.Comm]banyan.Group{}
	failed, err := banyan.ValidateMultiple(named...)
	if err != nil {
		return fmt.Errorf("validate of several: %w", err)
	}
	for i, c := range named {
		got[c] = failed[i]
	}
	for _, c := range all {
		err = errors.Join(err, k.judgeValidated(c, known[c], got[c]))
	}
	if a, b := k.inWorld(got[d]), k.inWorld(got[e]); !slices.Equal(a, b) {
		return fmt.Errorf("validate of several gave %v and %v, for the same members", a, b)
	}
	if err == nil {
		_, err = k.block(e, k.inWorld(got[e]))
	}
	for _, c := range all {
		err = errors.Join(err, k.free(c))
	}
	return err
}

// half is a communicator of the ranks with even or odd numbers. Only its members take part.
func (k *chaosRank) half(c *banyan.Comm) (*banyan.Comm, error) {
	var mine []int
	for rank := c.Rank() % 2; rank < c.Size(); rank += 2 {
		mine = append(mine, rank)
	}
	g, err := c.Group().Include(mine...)
	if err != nil {
		return nil, err
	}
	return c.CreateGroup(g, 3)
}
