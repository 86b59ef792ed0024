package coll

import (
	"encoding/binary"
	"fmt"

	"github.com/banyan-hpc/banyan/coll/sm"
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/p2p"
)

// inMemory is an operation in shared memory to which each rank brings a part, of which the others read a block. It needs no
// schedule. Its methods write a result when all parts fit together, and report false where some part is too long. Then the
// operation goes by messages, in which each rank waits for all others.
type inMemory struct {
	g    *sm.Segment
	kind Kind
	most int       // the longest part
	me   int       // the rank of the caller
	w    *p2p.Comm // the ranks that live; nil: all do
}

// quickly runs an operation of all ranks without a schedule, if that is possible. Tried: it goes by messages, as some rank has
// too many bytes.
func (o *Comm) quickly(c *p2p.Comm, call Call, k Kind, a *Args) (done, tried bool, err error) {
	if choices[k] == 0 || call.differs != nil {
		return false, false, nil
	}
	op := choices[k] - 1
	g, most := o.quick(c, op, call.plain())
	if g == nil || c.Coll().Size() != c.Size() {
		return false, false, nil
	}
	m := inMemory{g: g, kind: k, most: min(most, longest(op, g)), me: c.Rank()}
	switch k {
	case Alltoall:
		to := equal(a.Out, c.Size())
		done, err = m.alltoall(a.In, to.size, &to)
	case Alltoallv:
		done, err = m.alltoallv(&a.From, &a.To)
	case Allgatherv:
		done, err = m.allgatherv(a.In, &a.To)
	default:
		done, err = m.reduceScatter(a, a.Out)
	}
	return done, true, err
}

// inMemory runs the operation of a schedule in shared memory; false: it goes by messages.
func (s *Schedule) inMemory(do func(m *inMemory) (done bool, err error)) bool {
	return s.free() && !s.between() && s.alone(func(g *sm.Segment, most int) (bool, error) {
		return do(&inMemory{g, s.kind, min(most, longest(choices[s.kind]-1, g)), s.c.Rank(), s.w})
	})
}

// bring brings a part of a length, which put writes, and returns when all ranks have come.
func (m *inMemory) bring(length int, put func(place []byte)) (done bool, err error) {
	return m.g.Meet(m.kind.op(), length, m.most, put)
}

// at is the rank of a member in the communicator of the caller.
func (m *inMemory) at(member int) int {
	if m.w == nil {
		return member
	}
	return m.w.OriginalRank(member)
}

// alltoall exchanges blocks of a size, which lie in all.
func (m *inMemory) alltoall(all []byte, size int, to *Blocks) (done bool, err error) {
	if done, err = m.bring(len(all), func(place []byte) { copy(place, all) }); !done || err != nil {
		return done, err
	}
	if err := m.g.Same(len(all)); err != nil {
		return true, err
	}
	for member := range m.g.Members() {
		copy(to.At(m.at(member)), m.g.Part(member, len(all))[m.me*size:][:size])
	}
	return true, nil
}

// allgatherv has all ranks read mine.
func (m *inMemory) allgatherv(mine []byte, to *Blocks) (done bool, err error) {
	if done, err = m.bring(len(mine), func(place []byte) { copy(place, mine) }); !done || err != nil {
		return done, err
	}
	n := m.g.Members()
	for member := range n {
		if err := m.g.Fits(member, len(to.At(m.at(member)))); err != nil {
			return true, err
		}
	}
	for member := range n {
		place := to.At(m.at(member))
		copy(place, m.g.Part(member, len(place)))
	}
	return true, nil
}

// alltoallv exchanges blocks of any lengths. Behind the blocks of a rank are their lengths, by the ranks that live, so that
// blocks of whole lines of cache lie in lines.
func (m *inMemory) alltoallv(from, to *Blocks) (done bool, err error) {
	n := m.g.Members()
	total := n * lengthBytes
	for member := range n {
		total += len(from.At(m.at(member)))
	}
	if done, err = m.bring(total, func(place []byte) { m.pack(from, place) }); !done || err != nil {
		return done, err
	}
	for member := range n {
		_, length := m.block(member)
		if want := len(to.At(m.at(member))); length != want {
			return true, fmt.Errorf("%w: rank %d %s, this one wants %s", ft.ErrArgument, m.at(member),
				lengthSent(length), lengthWanted(want))
		}
	}
	for member := range n {
		block, _ := m.block(member)
		copy(to.At(m.at(member)), block)
	}
	return true, nil
}

// pack writes the blocks, and their lengths.
func (m *inMemory) pack(from *Blocks, place []byte) {
	n := m.g.Members()
	at, lengths := 0, place[len(place)-n*lengthBytes:]
	for member := range n {
		block := from.At(m.at(member))
		binary.LittleEndian.PutUint32(lengths[member*lengthBytes:], uint32(len(block)))
		at += copy(place[at:], block)
	}
}

// lengthBytes is the length of the length of a block.
const lengthBytes = 4

// block is the block for this rank in the part of a member; see blockIn.
func (m *inMemory) block(member int) (block []byte, length int) {
	me := m.me
	if m.w != nil {
		me = m.w.Rank()
	}
	return blockIn(m.g.Brought(member), m.g.Members(), me)
}

// blockIn is the block of one of n ranks in a part, and its length there; -1: the part is none.
//
//banyan:decodes
func blockIn(part []byte, n, rank int) (block []byte, length int) {
	end := len(part) - n*lengthBytes
	if end < 0 {
		return nil, -1
	}
	blocks, lengths, at := part[:end], part[end:], uint64(0)
	for before := range rank {
		at += uint64(binary.LittleEndian.Uint32(lengths[before*lengthBytes:]))
	}
	size := uint64(binary.LittleEndian.Uint32(lengths[rank*lengthBytes:]))
	if at+size > uint64(end) {
		return nil, -1
	}
	return blocks[at:][:size], int(size)
}

// sumBytes is the length of a sum of counts.
const sumBytes = 8

// reduceScatter folds this rank's blocks of all ranks into out. Where ranks have given counts a sum of them follows the
// bytes of each rank, so that other counts of another rank show.
func (m *inMemory) reduceScatter(a *Args, out []byte) (done bool, err error) {
	length, at, sum := len(a.In), m.me*len(out), uint64(0)
	if m.kind == ReduceScatter && a.Counts != nil {
		length += sumBytes
		at, sum = a.counted(m.me)
	}
	if done, err = m.bring(length, func(place []byte) {
		if n := copy(place, a.In); n < length {
			binary.LittleEndian.PutUint64(place[n:], sum)
		}
	}); !done || err != nil {
		return done, err
	}
	if err := m.g.Same(length); err != nil {
		return true, err
	}
	n := m.g.Members()
	if length > len(a.In) {
		for member := range n {
			if binary.LittleEndian.Uint64(m.g.Part(member, length)[len(a.In):]) != sum {
				return true, disagreed(len(out))
			}
		}
	}
	if len(out) == 0 { // without operands there may be no operation either
		return true, nil
	}
	copy(out, m.g.Part(0, length)[at:])
	for member, in := 1, m.g.Scratch(len(out)); member < n; member++ {
		copy(in, m.g.Part(member, length)[at:])
		a.Fold.Op(out, in)
	}
	return true, nil
}

// counted gives the place of a rank's block in the bytes of each rank, and a sum of the places of all.
func (a *Args) counted(rank int) (place int, sum uint64) {
	total := 0
	for i, count := range a.Counts {
		if i == rank {
			place = total
		}
		total += count * a.unit()
		sum = (sum ^ uint64(total)) * 1099511628211 // FNV-1
	}
	return place, sum
}
