// Package heap gives a process memory that its peers on the same node read in place: blocks of a provider
// ([fabric.Blocks]), divided.
//
//	h := heap.New(provider, limit) // nil: ordinary memory
//	b, err := h.Alloc(1 << 20)
//	err = h.Free(b)
//
// A request of [large] bytes or more has a block of its own, which Free gives back. Smaller ones share blocks,
// first fit, in whole cache lines, or pages from a page on. An empty block is given back unless it is the
// only one.
//
// Floor 1.
package heap
