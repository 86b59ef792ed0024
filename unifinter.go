package banyan

import (
	"cmp"
	"fmt"

	"github.com/banyan-hpc/banyan/ft/repair"
	"github.com/banyan-hpc/banyan/p2p"
)

// endAmong brings the making of a communicator to its common end among its members alone.
func (c *Comm) endAmong(what repair.What, d *Comm, members p2p.Group, context uint32, err error) error {
	if err == nil {
		err = c.whole(what, d)
	}
	v := repair.Vote{What: what, Op: names[what], Err: err, Makes: true}
	return c.decided(func(done func(error)) { c.world.repair.EndAmong(c.core, members, context, v, done) })
}

// endInter brings the making of an intercommunicator to its common end at both sides, which do not
// know each other yet when it can fail.
//
// Nobody must wait for the other side in the last agreement, which is that of both, unless it is certain that all there who live know this one, as who
// does not cannot answer. So the sides go in step. Each agrees that all its ranks have the intercommunicator. The leaders tell each other; each side agrees on
// whether it has been told. If it has, it may wait for the other one in the last agreement, if not, it says so there and
// goes: the other one has been told perhaps.
//
// What a leader has told must hold if it dies. That its side has the intercommunicator does, though it may have been
// the only one with that decision: each that lives contributes again what it had contributed to that, and of
// fewer votes that are all in favour none is against. That a member has died meanwhile is no vote against, here (Vote.Makes). If it was that its side
// has not, the others may come to another result, and then find in the next agreement that the leader has died.
func (c *Comm) endInter(d *Comm, leader int, peer *Comm, remote, tag int, err error) error {
	if err == nil {
		err = c.whole(repair.CreateInter, d)
	}
	err = c.end(repair.Vote{What: repair.CreateInter, Err: err})
	var told error
	if c.Rank() == leader && peer != nil {
		told = peer.ready(remote, tag, err == nil)
	}
	if err != nil {
		return err
	}
	err = c.end(repair.Vote{What: repair.CreateInterReady, Err: cmp.Or(told, c.whole(repair.CreateInter, d)), Makes: true})
	last := func(done func(error)) {
		v := repair.Vote{What: repair.CreateInter, Op: names[repair.CreateInter], Err: err, Makes: true}
		c.world.repair.EndAmong(d.core, d.core.AllMembers(), d.core.Context(), v, done)
	}
	if err != nil {
		c.e.Lock()
		last(func(error) {})
		c.e.Unlock()
		return err
	}
	return c.decided(last)
}

// ready tells the other side's leader whether this side is ready, and gives the reason if that one is not.
func (c *Comm) ready(remote, tag int, yes bool) error {
	const other = 1 << 30 // of a tag: not that of the lists
	mine, theirs := []byte{0}, []byte{0}
	if yes {
		mine[0] = 1
	}
	at, left, err := c.core.CollRank("create inter", remote)
	switch {
	case err != nil:
		return err
	case !left:
		return c.core.Lost("create inter", remote)
	}
	_, err = c.on(c.core.Coll()).Sendrecv(mine, at, tag^other, theirs, at, tag^other)
	if err == nil && theirs[0] != 1 {
		err = fmt.Errorf("create inter: %w: at a rank of the other side", ErrProcFailed)
	}
	return err
}
