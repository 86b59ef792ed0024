package p2p

import (
	"fmt"

	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// The tags of collectives contain the root that the sender named, so that a receiver with another
// root notices:
//
//	bit         30  29   28 … 16   15 … 4   3 … 0
//	blocking     0   1      0       root     kind
//	non-blocking 1   -  number's    root     number's
//
// Messages of blocking collectives match in order. So a receive of a blocking collective ends with
// ft.ErrArgument if the next message of its source has another tag: the source has called another
// collective, or named another root. A receive of a non-blocking collective does so if the message
// has another root. Such tags share a bin, so that no search is needed.

// TaskTag is the smallest tag of a non-blocking collective (Join). Blocking collectives have
// smaller tags.
const TaskTag = 1 << 30

// Blocking is the tag of blocking collectives, of kind 0 and root 0; see BlockingTag.
const Blocking = 1 << 29

const (
	rootShift   = 4
	rootMask    = 0xfff << rootShift // the low bits of larger roots
	kindMask    = 1<<rootShift - 1
	numberShift = 16 - rootShift
	// taskBits is the length of a non-blocking collective's number in its tag.
	taskBits = 30 - numberShift
)

// BlockingTag is the tag of one of 16 kinds of blocking collectives.
func BlockingTag(kind, root int) int { return Blocking | kind | root<<rootShift&rootMask }

// TagOf is the tag of the non-blocking collective with a number, with root 0.
func TagOf(number uint32) int {
	return TaskTag | int(number&kindMask) | int(number&(1<<taskBits-1)>>rootShift<<16)
}

// WithRoot is a non-blocking collective's tag with a root.
func WithRoot(tag, root int) int { return tag&^rootMask | root<<rootShift&rootMask }

// taskNumber is the number in a non-blocking collective's tag.
func taskNumber(tag uint32) uint32 { return tag&kindMask | tag&(TaskTag-1)>>16<<rootShift }

// collective reports whether a message belongs to a collective, by its context.
func collective(imm uint64) bool { return int64(imm) < 0 }

// binned is an imm without the bits in which conflicting messages differ.
func binned(imm uint64) uint64 {
	switch {
	case !collective(imm):
		return imm
	case imm&TaskTag != 0:
		return imm &^ rootMask
	case imm&Blocking != 0:
		return imm &^ (Blocking - 1)
	}
	return imm
}

// conflicting reports whether one of two messages of a process takes the place of the other.
func conflicting(a, b uint64) bool {
	return a != b && collective(a) && a&(TaskTag|Blocking) != 0 && binned(a) == binned(b)
}

// mismatched fails a collective's receive if another message takes the place of its own.
func (e *Engine) mismatched(r *Request) bool {
	m := e.unexpected.conflict(r.src, r.imm)
	if m != nil {
		e.failMismatch(r, m)
	}
	return m != nil
}

// failMismatch fails a receive because of a message with another root.
func (e *Engine) failMismatch(r *Request, m *message) {
	r.fail(r.comm.mismatchError(m.from))
	e.discard(m)
}

func (c *Comm) mismatchError(from proc.ID) error {
	return fmt.Errorf("%w: rank %d called another collective than this rank, or with another root: "+
		"all ranks must call the same", ft.ErrArgument, c.originalRank(from))
}

// conflict removes and returns the message that takes the place of the one that a receive of a
// collective needs.
func (u *unexpectedQueue) conflict(src proc.ID, imm uint64) *message {
	if u.n == 0 {
		return nil
	}
	for m := u.bin(0, src, imm).first; m != nil; m = m.in[0].next {
		switch {
		case m.from != src:
		case m.imm == imm:
			return nil
		case conflicting(m.imm, imm):
			u.remove(m)
			return m
		}
	}
	return nil
}

// conflict removes and returns the receive that conflicts with a collective's message.
func (q *postedQueue) conflict(from proc.ID, imm uint64) *Request {
	if q.n == 0 {
		return nil
	}
	for r := q.bins[q.at(from, imm)].first; r != nil; r = r.next {
		if r.src == from && conflicting(r.imm, imm) {
			q.remove(r)
			return r
		}
	}
	return nil
}

// fewMessages can be searched at the start of each non-blocking collective.
const fewMessages = 64

// RootMismatch is ft.ErrArgument if an unexpected message of the non-blocking collective has
// another root.
//
// Precondition: the lock is held.
func (c *Comm) RootMismatch(tag int) error {
	if c.e.unexpected.n == 0 || c.e.unexpected.n > fewMessages {
		return nil
	}
	imm := c.ctx | uint64(tag)
	for m := c.e.unexpected.oldest; m != nil; m = m.younger {
		if conflicting(m.imm, imm) {
			return c.mismatchError(m.from)
		}
	}
	return nil
}
