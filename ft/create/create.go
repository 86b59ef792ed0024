package create

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/banyan-hpc/banyan/coll"
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/ft/repair"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/p2p"
)

// Undefined is the color of a rank that becomes a member of nothing.
const Undefined = -3

// Parent is a communicator from which others are made. Its methods give causes of errors, or errors of
// operations that were parts of theirs.
type Parent struct {
	Self    proc.ID
	Engine  *p2p.Engine
	Core    *p2p.Comm
	Coll    *coll.Comm // its collectives
	Unaware bool       // the engine does not look for failures
	Repair  *repair.Repair
	InTurn  bool // the creation has a turn of the communicator
}

// on is p on another communicator of the same process.
func (p Parent) on(core *p2p.Comm) Parent {
	p.Core, p.Coll = core, &coll.Comm{Trees: coll.Trees{Choice: p.Coll.Choice, World: p.Coll.World}}
	return p
}

func (p Parent) bcast(buf []byte, root int) error {
	return p.Coll.Bcast(p.Core, coll.Call{InTurn: p.InTurn}, buf, root)
}

func (p Parent) allgather(mine, all []byte) error {
	return p.Coll.Allgather(p.Core, coll.Call{InTurn: p.InTurn}, mine, all)
}

func (p Parent) sendrecv(out, in []byte, peer, tag int) (p2p.Status, error) {
	if p.Unaware {
		return p2p.Sendrecv[p2p.Unaware](p.Core, out, peer, tag, in, peer, tag)
	}
	return p2p.Sendrecv[p2p.Aware](p.Core, out, peer, tag, in, peer, tag)
}

// Group makes a communicator of a group of this one's members. Groups of different callers have no
// member in common. It sends nothing unless creation is uniform.
func (p Parent) Group(g p2p.Group) (made *p2p.Comm, err error) {
	n := p.Core.Count()
	if err = cmp.Or(p.Core.Unrevoked(), p.contains(g)); err == nil {
		made, err = p.Core.Derive(n, g, 0)
	}
	return p.finish(repair.Create, made, err)
}

// Among makes a communicator of a group. Only its members call it, with the same tag. n is their
// [p2p.Comm.CountAmong].
func (p Parent) Among(g p2p.Group, tag int, n uint32) (*p2p.Comm, error) {
	if err := cmp.Or(p.Core.Unrevoked(), p.contains(g)); err != nil {
		return nil, err
	}
	if tag < 0 || tag > p2p.MaxTag {
		return nil, fmt.Errorf("%w: tag %d, want 0 … %d", ft.ErrArgument, tag, p2p.MaxTag)
	}
	if !g.Has(p.Self) {
		return nil, nil
	}
	made, context, err := p.Core.DeriveAmong(g, tag, n)
	if p.Agrees(err) {
		if err == nil {
			err = p.complete(repair.CreateGroup, made)
		}
		v := repair.Vote{What: repair.CreateGroup, Err: err, Makes: true}
		err = p.await(v.What, func(done func(error)) { p.Repair.EndAmong(p.Core, g, context, v, done) })
	}
	return p.keep(made, err)
}

// contains checks that the members of a group are members of this side.
func (p Parent) contains(g p2p.Group) error {
	for rank := range g.Size() {
		if !p.Core.Group().Has(g.Proc(rank)) {
			return fmt.Errorf("%w: the group has members that the communicator has not", ft.ErrArgument)
		}
	}
	return nil
}

// Split makes a communicator for each color, of the ranks that gave it, ordered by key, then by
// rank. Failed ranks that are agreed on count as Undefined. A rank with a wrong color takes part,
// and belongs to no group.
func (p Parent) Split(color, key int) (*p2p.Comm, error) {
	made, err := p.split(color, key)
	return p.finish(repair.Split, made, err)
}

func (p Parent) split(color, key int) (*p2p.Comm, error) {
	n := p.Core.Count()
	var wrong error
	if color < 0 && color != Undefined {
		wrong = fmt.Errorf("%w: color %d, want 0 or more, or Undefined", ft.ErrArgument, color)
		color = Undefined // the others must not wait for this rank
	}
	all := make([]byte, colorBytes*p.Core.Size())
	for rank := range p.Core.Size() { // failed ranks give nothing
		undefined := Undefined
		binary.LittleEndian.PutUint64(all[colorBytes*rank:], uint64(int64(undefined)))
	}
	mine := all[colorBytes*p.Core.Rank():]
	binary.LittleEndian.PutUint64(mine, uint64(int64(color)))
	binary.LittleEndian.PutUint64(mine[8:], uint64(int64(key)))
	if err := p.allgather(mine[:colorBytes], all); err != nil || wrong != nil {
		return nil, cmp.Or(wrong, err)
	}
	ranks := decodeColors(all, color)
	procs := make([]proc.ID, 0, len(ranks))
	for _, rank := range ranks {
		procs = append(procs, p.Core.Group().Proc(rank))
	}
	return p.Core.Derive(n, p2p.NewGroup(procs), uint64(int64(color)))
}

// colorBytes is the length of each rank's part in a split: color and key.
const colorBytes = 16

// decodeColors lists the ranks that gave a color, by key.
func decodeColors(all []byte, color int) (ranks []int) {
	if color == Undefined {
		return nil
	}
	word := func(at int) int { return int(int64(binary.LittleEndian.Uint64(all[at:]))) }
	for rank := range len(all) / colorBytes {
		if word(colorBytes*rank) == color {
			ranks = append(ranks, rank)
		}
	}
	slices.SortStableFunc(ranks, func(a, b int) int { return cmp.Compare(word(colorBytes*a+8), word(colorBytes*b+8)) })
	return ranks
}
