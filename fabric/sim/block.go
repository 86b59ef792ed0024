package sim

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// block is memory that the processes of a node share.
type block struct {
	owner proc.ID
	mem   []byte
}

var zeros fabric.BlockName

// MakeBlock implements fabric.Blocks.
func (e *endpoint) MakeBlock(n int) (mem []byte, name fabric.BlockName, err error) {
	e.p.step()
	s := e.p.sim
	if !s.cfg.Blocks {
		return nil, name, fabric.ErrUnsupported
	}
	s.blocks = append(s.blocks, block{e.p.id, make([]byte, n)})
	binary.LittleEndian.PutUint64(name[:], uint64(len(s.blocks)))
	return s.blocks[len(s.blocks)-1].mem, name, nil
}

// OpenBlock implements fabric.Blocks.
//
//banyan:decodes
func (e *endpoint) OpenBlock(owner proc.ID, name fabric.BlockName, n int) ([]byte, error) {
	e.p.step()
	s, per := e.p.sim, e.p.sim.cfg.Topology.ProcsPerNode
	i := binary.LittleEndian.Uint64(name[:]) - 1
	rest := name[8:]
	switch {
	case !s.cfg.Blocks || int(owner)/per != int(e.p.id)/per:
		return nil, fabric.ErrUnsupported
	case i >= uint64(len(s.blocks)) || s.blocks[i].owner != owner || len(s.blocks[i].mem) != n || !bytes.Equal(rest, zeros[:len(rest)]):
		return nil, fmt.Errorf("sim: process %d has no block %d of %d bytes", owner, i, n)
	}
	return s.blocks[i].mem, nil
}

// BlockOf implements fabric.Blocks.
func (e *endpoint) BlockOf(mem []byte) (name fabric.BlockName, length, at int, ok bool) {
	for i, b := range e.p.sim.blocks {
		if b.owner == e.p.id && within(mem, b.mem) {
			binary.LittleEndian.PutUint64(name[:], uint64(i)+1)
			return name, len(b.mem), offsetIn(mem, b.mem), true
		}
	}
	return name, 0, 0, false
}

// CloseBlock implements fabric.Blocks: the simulation keeps the memory.
func (e *endpoint) CloseBlock([]byte) error { return nil }

var _ fabric.Blocks = (*endpoint)(nil)
