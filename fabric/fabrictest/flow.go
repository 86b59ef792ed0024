package fabrictest

import (
	"encoding/binary"
	"fmt"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// The classes that are not part of flows.
const (
	finClass       = fabric.ClassTest // ends a flow: imm is the number of its frames
	rawClass       = fabric.Class(25) // its meaning depends on the case
	unhandledClass = fabric.Class(31) // has no listener, ever
)

// flow is the sequence of frames from one process to another. Class, immediate and contents of each
// frame follow from the seed, the pair and the frame's number. Only its length is the sender's
// choice, and the immediate contains it. So the receiver, which has the expected number, can detect
// every fault.
type flow struct {
	seed uint64
	seq  uint32 // of the next frame
}

func newFlow(seed uint64, from, to proc.ID) flow {
	return flow{seed: mix(seed ^ uint64(from)<<32 ^ uint64(to))}
}

// mix is the finalizer of splitmix64: a bijection that scatters its argument.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func (f *flow) mask(seq uint32) uint64 { return mix(f.seed ^ uint64(seq)<<20) }

// class draws from all classes that are part of flows.
func (f *flow) class(seq uint32) fabric.Class {
	c := fabric.Class(1 + mix(f.mask(seq))%28) // 1 … 28
	if c >= finClass {
		c += 2 // 26 … 30
	}
	return c
}

func (f *flow) imm(seq uint32, n int) uint64 {
	return f.mask(seq) ^ (uint64(seq)<<32 | uint64(uint32(n)))
}

// fill writes the contents of frame seq.
func (f *flow) fill(seq uint32, buf []byte) { fillPattern(f.seed+uint64(seq), 0, buf) }

// check compares an arrived frame with the expected one, and counts it.
func (f *flow) check(class fabric.Class, imm uint64, payload []byte) error {
	plain := imm ^ f.mask(f.seq)
	switch {
	case uint32(plain>>32) != f.seq:
		return fmt.Errorf("frame %d was due, %s came", f.seq, f.identify(imm))
	case class != f.class(f.seq):
		return fmt.Errorf("frame %d came with class %d, sent with %d", f.seq, class, f.class(f.seq))
	case int64(uint32(plain)) != int64(len(payload)):
		return fmt.Errorf("frame %d came with %d bytes, sent with %d", f.seq, len(payload), uint32(plain))
	}
	if at := checkPattern(f.seed+uint64(f.seq), 0, payload); at >= 0 {
		return fmt.Errorf("frame %d of %d bytes is wrong from byte %d on", f.seq, len(payload), at)
	}
	f.seq++
	return nil
}

// identify names the frame of the flow to which an immediate belongs.
func (f *flow) identify(imm uint64) string {
	const reach = 1 << 16
	for d := uint32(1); d < reach; d++ {
		for _, seq := range [2]uint32{f.seq + d, f.seq - d} {
			if uint32((imm^f.mask(seq))>>32) == seq {
				return fmt.Sprintf("frame %d", seq)
			}
		}
	}
	return fmt.Sprintf("one with immediate %#x that is not of this flow", imm)
}

// pattern returns word i of the endless pattern of a key.
func pattern(key uint64, i int) uint64 { return mix(key ^ uint64(i)<<8) }

// fillPattern writes bytes offset … offset+len(buf) of the pattern of a key.
func fillPattern(key uint64, offset int, buf []byte) {
	i := 0
	for ; i < len(buf) && (offset+i)&7 != 0; i++ {
		buf[i] = patternByte(key, offset+i)
	}
	for ; len(buf)-i >= 8; i += 8 {
		binary.LittleEndian.PutUint64(buf[i:], pattern(key, (offset+i)>>3))
	}
	for ; i < len(buf); i++ {
		buf[i] = patternByte(key, offset+i)
	}
}

func patternByte(key uint64, at int) byte {
	return byte(pattern(key, at>>3) >> (at & 7 * 8))
}

// checkPattern returns the index of the first byte that differs, or -1.
func checkPattern(key uint64, offset int, buf []byte) int {
	for i := 0; i < len(buf); {
		aligned := (offset+i)&7 == 0 && len(buf)-i >= 8
		switch {
		case aligned && binary.LittleEndian.Uint64(buf[i:]) == pattern(key, (offset+i)>>3):
			i += 8
		case buf[i] != patternByte(key, offset+i):
			return i
		default:
			i++
		}
	}
	return -1
}
