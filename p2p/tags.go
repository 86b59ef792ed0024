package p2p

import (
	"fmt"

	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// The tags of collectives. Each has the root that its sender has named, so that a rank that has named another
// one learns of it:
//
//	bit     30  29   28 … 16   15 … 4   3 … 0
//	blocks   0   1      0       root     kind
//	task     1   -  number's    root     number's
//
// Messages of collectives that block match in order. So a receive of one ends with ft.ErrArgument if the next
// message of its source has another tag: the source has called another collective, or named another root. That
// of a task does so if the message has another root. So as not to search for them, such tags share a bin.

// TaskTag is the smallest tag of a collective that goes on by itself (Join). Smaller tags are those of
// collectives that block.
const TaskTag = 1 << 30

// Blocking is the tag of collectives that block, of kind 0 and root 0; see BlockingTag.
const Blocking = 1 << 29

const (
	rootShift   = 4
	rootMask    = 0xfff << rootShift // of larger roots the low bits
	kindMask    = 1<<rootShift - 1
	numberShift = 16 - rootShift
	// taskBits is the length of a task's number in its tag.
	taskBits = 30 - numberShift
)

// BlockingTag is the tag of a kind of collectives that block, of which there are 16.
func BlockingTag(kind, root int) int { return Blocking | kind | root<<rootShift&rootMask }

// TagOf is the tag of the task with a number, with root 0.
func TagOf(number uint32) int {
	return TaskTag | int(number&kindMask) | int(number&(1<<taskBits-1)>>rootShift<<16)
}

// WithRoot is a task's tag with a root.
func WithRoot(tag, root int) int { return tag&^rootMask | root<<rootShift&rootMask }

// taskNumber gives the number of a task's tag.
func taskNumber(tag uint32) uint32 { return tag&kindMask | tag&(TaskTag-1)>>16<<rootShift }

// collective reports whether a message is one of a collective: its context is.
func collective(imm uint64) bool { return int64(imm) < 0 }

// binned is an imm without that in which messages may differ that are taken for the same collective.
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

// conflicting reports whether one of two messages of a process is there in place of the other.
func conflicting(a, b uint64) bool {
	return a != b && collective(a) && a&(TaskTag|Blocking) != 0 && binned(a) == binned(b)
}

// mismatched reports whether a collective's receive has ended since another message is there in place of its
// own.
func (e *Engine) mismatched(r *Request) bool {
	m := e.unexpected.conflict(r.src, r.imm)
	if m != nil {
		e.failMismatch(r, m)
	}
	return m != nil
}

// failMismatch ends a receive for which a message with another root has come.
func (e *Engine) failMismatch(r *Request, m *message) {
	r.fail(r.comm.mismatchError(m.from))
	e.discard(m)
}

func (c *Comm) mismatchError(from proc.ID) error {
	return fmt.Errorf("%s: %w: rank %d called another collective than this rank, or with another root: all ranks must call the same",
		c.name, ft.ErrArgument, c.originalRank(from))
}

// conflict takes out the message that is there in place of the next one of a collective that a receive asks for.
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

// conflict takes out the receive that waits for a collective's message and has named another root.
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

// fewMessages can be looked through whenever a task begins.
const fewMessages = 64

// RootMismatch is ft.ErrArgument if a message of the task with a tag is here whose sender has named another root.
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
