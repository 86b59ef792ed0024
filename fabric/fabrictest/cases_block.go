package fabrictest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

func blockCases() []Case {
	return []Case{
		{Name: "blocks", N: 3, Body: sharedBlocks,
			About: "Processes that open a block write what the others read; a wrong name or length opens nothing."},
		{Name: "views", N: 2, Body: viewedBlock,
			About: "A process looks at memory in a block of another one, also after that has closed it, and at nothing else."},
	}
}

// The meaning of raw frames in the case.
const (
	sayName  = iota // the payload is the name of a block
	sayWrote        // the sender has written its part
	sayRead         // the sender has read all
	sayGone         // the block has been closed
)

// sharedBlocks has process 0 make blocks, in which each process writes a part of its own.
func sharedBlocks(e *Env) {
	p := blocksOf(e)
	if p == nil {
		exchange(e, 1)
		return
	}
	var name fabric.BlockName
	said := make([]int, sayGone+1)
	e.raw = func(_ proc.ID, imm uint64, payload []byte) {
		said[imm]++
		if imm == sayName {
			copy(name[:], payload)
		}
	}
	tell := func(imm uint64, payload []byte) {
		e.Others(func(id proc.ID) { e.SendRaw(id, rawClass, imm, payload) })
	}
	rounds, others := 0, e.Job.N-1
	wait := func(imm, n int) { e.pump(forReply, proc.None, func() bool { return said[imm] >= n }) }
	e.Others(func(id proc.ID) { e.Conn(id) })
	for _, n := range []int{3, 4096, 100_001, 4 << 20} {
		mem := make([]byte, 0)
		var err error
		if rounds++; e.ID == 0 {
			if mem, name, err = p.MakeBlock(n); err == nil {
				tell(sayName, name[:])
				of, length, at, ok := p.BlockOf(mem[1:])
				e.Check(ok && of == name && length == n && at == 1, "BlockOf: %d bytes, at %d, %t", length, at, ok)
			}
			_, _, _, ok := p.BlockOf(make([]byte, 8))
			e.Check(!ok, "memory of no block is in one")
		} else {
			wait(sayName, rounds)
			mem, err = p.OpenBlock(0, name, n)
			refuseBlocks(e, p, name, n)
		}
		e.Check(err == nil && len(mem) == n, "a block of %d bytes: %d, %v", n, len(mem), err)
		part := func(id int) []byte { return mem[id*n/e.Job.N : (id+1)*n/e.Job.N] }
		fillPattern(e.Job.Seed+uint64(e.ID), n, part(int(e.ID)))
		tell(sayWrote, nil)
		wait(sayWrote, rounds*others)
		for id := range e.Job.N {
			bad := checkPattern(e.Job.Seed+uint64(id), n, part(id))
			e.Check(bad < 0, "the part of %d of %d bytes is wrong from byte %d on", id, n, bad)
		}
		tell(sayRead, nil)
		wait(sayRead, rounds*others)
		if e.ID == 0 {
			e.Check(p.CloseBlock(mem) == nil, "CloseBlock of its owner")
			tell(sayGone, nil)
			continue
		}
		wait(sayGone, rounds)
		fillPattern(e.Job.Seed, 0, mem) // peers may still use it
		e.Check(p.CloseBlock(mem) == nil, "CloseBlock")
	}
	exchange(e, 1)
}

// blocksOf is the provider, if it has blocks.
func blocksOf(e *Env) fabric.Blocks {
	p, ok := e.Provider.(fabric.Blocks)
	if !ok {
		return nil
	}
	mem, _, err := p.MakeBlock(1)
	if errors.Is(err, fabric.ErrUnsupported) {
		return nil
	}
	e.Check(err == nil && len(mem) == 1, "MakeBlock: %d bytes, %v", len(mem), err)
	e.Check(p.CloseBlock(mem) == nil, "CloseBlock")
	return p
}

// refuseBlocks tries names and lengths that are wrong.
func refuseBlocks(e *Env, p fabric.Blocks, name fabric.BlockName, n int) {
	for i := range name {
		wrong := name
		wrong[i] ^= 1 << (i % 7)
		_, err := p.OpenBlock(0, wrong, n)
		e.Check(err != nil, "byte %d of a name can be wrong", i)
	}
	for _, length := range []int{0, -1, n - 4096, n + 4096, math64} {
		_, err := p.OpenBlock(0, name, length)
		e.Check(err != nil, "a block of %d bytes opens with %d", n, length)
	}
}

// viewedBlock has process 1 look at a part of a block of process 0.
func viewedBlock(e *Env) {
	const n, from, to = 100_001, 5000, 90_000
	p, other := blocksOf(e), 1-e.ID
	v, ok := e.Conn(other).(fabric.Viewer)
	if p == nil || !ok {
		exchange(e, 1)
		return
	}
	var said [sayGone + 1]int
	var region fabric.Region
	e.raw = func(_ proc.ID, imm uint64, payload []byte) {
		if said[imm]++; imm == sayName {
			le := binary.LittleEndian
			region = fabric.Region{Addr: le.Uint64(payload), Len: le.Uint64(payload[8:]), Key: slices.Clone(payload[16:])}
		}
	}
	wait := func(imm int) { e.pump(forReply, proc.None, func() bool { return said[imm] > 0 }) }
	if e.ID == 0 {
		mem, _, err := p.MakeBlock(n)
		e.Check(err == nil, "MakeBlock: %v", err)
		fillPattern(e.Job.Seed, n, mem)
		r, err := v.Expose(mem[from:to])
		e.Check(err == nil, "Expose: %v", err)
		le := binary.LittleEndian
		e.SendRaw(other, rawClass, sayName, append(le.AppendUint64(le.AppendUint64(nil, r.Addr), r.Len), r.Key...))
		wait(sayRead)
		e.Check(p.CloseBlock(mem) == nil, "CloseBlock")
		e.SendRaw(other, rawClass, sayGone, nil)
	} else {
		wait(sayName)
		want := make([]byte, n)
		fillPattern(e.Job.Seed, n, want)
		views, ends := make([][]byte, 3), make([]func() error, 3)
		for i := range views {
			var err error
			views[i], ends[i], err = v.View(region, i == 2)
			e.Check(err == nil && bytes.Equal(views[i], want[from:to]), "view %d: %d bytes, %v", i, len(views[i]), err)
		}
		beyond := region
		beyond.Len = 1 << 62
		_, _, err := v.View(beyond, false)
		e.Check(err != nil, "a view of %d bytes", beyond.Len)
		e.SendRaw(other, rawClass, sayRead, nil)
		wait(sayGone)
		for i := range views {
			e.Check(bytes.Equal(views[i], want[from:to]), "view %d has changed", i)
			e.Check(ends[i]() == nil, "the end of view %d", i)
		}
	}
	exchange(e, 1)
}
