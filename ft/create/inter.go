package create

import (
	"cmp"
	"encoding/binary"
	"fmt"

	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/ft/repair"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/p2p"
)

// Inter makes an intercommunicator between this communicator and another one. leader is a rank of
// this one. At the leader, peer is a communicator in which the leader of the other side has the rank
// remote; elsewhere peer may be nil. The tag distinguishes concurrent creations on the same peer.
func (p Parent) Inter(leader int, peer *Parent, remote, tag int) (*p2p.Comm, error) {
	n := p.Core.Count()
	var made *p2p.Comm
	group, seed, err := p.meet(n, leader, peer, remote, tag)
	if err == nil {
		made, err = p.Core.Bridge(n, group, seed)
	}
	if p.Agrees(err) {
		err = p.interOutcome(made, leader, peer, remote, tag, err)
	}
	return p.keep(made, err)
}

// meetLen is the length of the first message between leaders, in bytes: the length of the list of
// processes, and a seed.
const meetLen = 16

// meet gives this side the group of the other one, and the seed from which both compute the context.
// n is this creation's number.
func (p Parent) meet(
	n uint64, leader int, peer *Parent, remote, tag int,
) (theirGroup p2p.Group, seed uint64, err error) {
	if leader < 0 || leader >= p.Core.Size() {
		return p2p.Group{}, 0, fmt.Errorf("%w: leader %d, want 0 … %d", ft.ErrArgument, leader, p.Core.Size()-1)
	}
	if _, left, _ := p.Core.CollRank(leader); !left {
		return p2p.Group{}, 0, p.Core.Lost(leader)
	}
	theirs := make([]byte, meetLen+verdictLen) // length of the list, seed, and the verdict
	var list []byte
	if p.Core.Rank() == leader {
		list, err = p.meetLeader(theirs[:meetLen], peer, remote, tag, p.Core.Seed(n))
		if err != nil && peer != nil {
			err = &errorOn{peer.Core.Name(), err}
		}
		encodeVerdict(theirs[meetLen:], err) // the others of this side must not wait
	}
	if berr := p.bcast(theirs, leader); berr != nil || err != nil {
		return p2p.Group{}, 0, cmp.Or(err, berr)
	}
	if err := decodeVerdict(theirs[meetLen:]); err != nil {
		return p2p.Group{}, 0, fmt.Errorf("rank %d could not reach the other side: %w", leader, err)
	}
	length, seed, err := parseOffer(theirs)
	if err != nil {
		return p2p.Group{}, 0, fmt.Errorf("rank %d passes on that %w", leader, err)
	}
	if p.Core.Rank() != leader {
		list = make([]byte, length)
	}
	if err := p.bcast(list, leader); err != nil {
		return p2p.Group{}, 0, err
	}
	theirGroup, err = decodeGroup(list, p.Core.Group())
	return theirGroup, seed, err
}

// parseOffer reads the first message of a leader: the length of the list that follows, in bytes,
// and a seed.
func parseOffer(b []byte) (length int, seed uint64, err error) {
	if len(b) < meetLen {
		return 0, 0, fmt.Errorf("%w: %d bytes that announce no group", ft.ErrArgument, len(b))
	}
	n := binary.LittleEndian.Uint64(b)
	if n == 0 || n > 4*proc.MaxIDs || n%4 != 0 {
		return 0, 0, fmt.Errorf("%w: a group of %d bytes is announced", ft.ErrArgument, n)
	}
	return int(n), binary.LittleEndian.Uint64(b[8:]), nil
}

// meetLeader exchanges seeds and lists of processes with the leader of the other side.
func (p Parent) meetLeader(theirs []byte, peer *Parent, remote, tag int, number uint64) ([]byte, error) {
	if peer == nil {
		return nil, fmt.Errorf("%w: the leader needs a peer communicator", ft.ErrArgument)
	}
	procs := p.Core.Group().Procs()
	list := make([]byte, 0, 4*len(procs))
	for _, id := range procs {
		list = binary.LittleEndian.AppendUint32(list, uint32(id))
	}
	ours := binary.LittleEndian.AppendUint64(nil, uint64(len(list)))
	ours = binary.LittleEndian.AppendUint64(ours, number)
	if err := peer.Core.Ready(); err != nil {
		return nil, err
	}
	at, left, err := peer.Core.CollRank(remote)
	switch {
	case err != nil:
		return nil, err
	case !left:
		return nil, peer.Core.Lost(remote)
	}
	on := peer.on(peer.Core.Coll())
	st, err := on.sendrecv(ours, theirs, at, tag)
	if err != nil {
		return nil, err
	}
	n, seed, err := parseOffer(theirs[:st.Count])
	if err != nil {
		return nil, fmt.Errorf("from rank %d of %s: %w", remote, peer.Core.Name(), err)
	}
	in := make([]byte, n)
	if st, err = on.sendrecv(list, in, at, tag); err != nil {
		return nil, err
	}
	if st.Count != n {
		return nil, fmt.Errorf("%w: rank %d of %s sends %d bytes of a group of %d",
			ft.ErrArgument, remote, peer.Core.Name(), st.Count, n)
	}
	// Both sides compute the same seed: the sum does not depend on the order.
	binary.LittleEndian.PutUint64(theirs[8:], seed+number)
	return in, nil
}

// decodeGroup reads the list of processes that the leader of the other side sent; here is the group
// of this side.
func decodeGroup(list []byte, here p2p.Group) (p2p.Group, error) {
	if len(list)%4 != 0 {
		return p2p.Group{}, fmt.Errorf("%w: a group of %d bytes", ft.ErrArgument, len(list))
	}
	seen := make(map[proc.ID]bool)
	procs := make([]proc.ID, 0, len(list)/4)
	for i := 0; i < len(list); i += 4 {
		p := proc.ID(binary.LittleEndian.Uint32(list[i:]))
		if !p.Valid() || seen[p] || here.Rank(p) >= 0 {
			return p2p.Group{}, fmt.Errorf("%w: %v is on both sides, twice on one, or no process", ft.ErrArgument, p)
		}
		seen[p] = true
		procs = append(procs, p)
	}
	return p2p.NewGroup(procs), nil
}

// interOutcome agrees on the outcome of making an intercommunicator at both sides. When it fails,
// the sides may not have each other's groups yet.
//
// The last agreement is that of both sides. No rank may wait in it for the other side unless all
// living ranks there are certain to have this side's group, since a rank without it cannot answer.
// So the sides proceed in step. Each agrees that all its ranks have the intercommunicator. The
// leaders exchange the results. Each side agrees on whether its leader has received the other side's
// success. If so, the side may wait for the other side in the last agreement. If not, it votes there
// against and does not wait, since the other side may have received the success.
//
// A leader's message must remain true if the leader dies. Success does, though the leader may have
// been the only rank with that decision: each living rank repeats its contribution, and fewer votes
// that are all in favour are still all in favour. The death of a member meanwhile is no vote against
// (Vote.Makes). After a failure the others may reach another result. Then they detect in the next
// agreement that the leader has died.
func (p Parent) interOutcome(made *p2p.Comm, leader int, peer *Parent, remote, tag int, err error) error {
	if err == nil {
		err = p.complete(repair.CreateInter, made)
	}
	err = p.vote(repair.Vote{What: repair.CreateInter, Err: err})
	var told error
	if p.Core.Rank() == leader && peer != nil {
		told = peer.ready(remote, tag, err == nil)
	}
	if err != nil {
		return err
	}
	err = cmp.Or(told, p.complete(repair.CreateInter, made))
	err = p.vote(repair.Vote{What: repair.CreateInterReady, Err: err, Makes: true})
	last := func(done func(error)) {
		v := repair.Vote{What: repair.CreateInter, Err: err, Makes: true}
		p.Repair.EndAmong(made, made.AllMembers(), made.Context(), v, done)
	}
	if err != nil {
		p.Engine.Lock()
		last(func(error) {})
		p.Engine.Unlock()
		return err
	}
	return p.await(repair.CreateInter, last)
}

// ready exchanges with the leader of the other side whether the sides are ready, and gives the reason
// if the other one is not.
func (p Parent) ready(remote, tag int, yes bool) error {
	const other = 1 << 30 // of a tag: not that of the lists
	mine, theirs := []byte{0}, []byte{0}
	if yes {
		mine[0] = 1
	}
	at, left, err := p.Core.CollRank(remote)
	switch {
	case err != nil:
		return err
	case !left:
		return p.Core.Lost(remote)
	}
	_, err = p.on(p.Core.Coll()).sendrecv(mine, theirs, at, tag^other)
	if err == nil && theirs[0] != 1 {
		err = fmt.Errorf("%w: at a rank of the other side", ft.ErrProcFailed)
	}
	return err
}
