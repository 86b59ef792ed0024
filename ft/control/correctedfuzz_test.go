package control

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/coll/corrected"
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/ft/agree"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// waitingCaller is the caller of an operation that counts its ends.
type waitingCaller struct{ ends int }

func (w *waitingCaller) Done(corrected.Outcome, []byte) { w.ends++ }
func (w *waitingCaller) GaveUp(proc.ID)                 { w.ends++ }

// FuzzCorrected: a member sends any pieces of frames, of a communicator that is known and of others. It departs if
// nothing was malformed, and is cut off otherwise; a call ends at most once, and no more is kept than was sent.
func FuzzCorrected(f *testing.F) {
	head := func(context, kind, flags, number byte) []byte {
		return []byte{0, context, 0, 0, 0, kind, flags, number, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	}
	f.Add(frames(head(5, 1, 1, 1), head(5, 2, 1, 1)))
	f.Add(frames(head(5, 2, 0, 2), head(7, 2, 0, 1), head(7, 6, 0, 1)))
	f.Add(frames(append([]byte{more}, head(5, 1, 1, 1)[1:9]...), append([]byte{0}, head(5, 1, 1, 1)[9:]...)))
	f.Add(frames(head(5, 6, 0, 9), head(5, 7, 1, 1), head(5, 5, 1, 1)))
	f.Fuzz(func(t *testing.T, b []byte) {
		x := &fuzzJob{class: fabric.ClassCorrected, frames: script(b)}
		var c *Corrected
		var waits waitingCaller
		sent := 0
		for _, f := range x.frames {
			sent += len(f) + earlyHead
		}
		x.start = func(e *progress.Engine, out *Outbox) {
			c = StartCorrected(e, out, Comms{
				Members: func(context uint32) agree.Group {
					if context == 5 || context == 6 {
						return all(3)
					}
					return nil
				},
				GaveUp: func(context uint32) bool { return context == 6 },
			}, nil)
			e.Lock()
			defer e.Unlock()
			c.Barrier(5, all(3), &waits)
		}
		x.look = func() {
			require.Empty(t, c.in.parts)
			require.LessOrEqual(t, c.bytes[1], min(sent, earlyMax))
			require.LessOrEqual(t, len(c.order), 2)
		}
		x.run(t)
		require.LessOrEqual(t, waits.ends, 1)
		require.Contains(t, []proc.Kind{proc.Departed, proc.Corrupt}, x.ended[0].Kind)
	})
}

// The questions of a member about operations that have not been called here are kept once.
func TestRepeatedQuestions(t *testing.T) {
	x := &fuzzJob{class: fabric.ClassCorrected}
	var c *Corrected
	x.start = func(e *progress.Engine, out *Outbox) {
		c = StartCorrected(e, out, Comms{
			Members: func(uint32) agree.Group { return all(3) }, GaveUp: func(uint32) bool { return false },
		}, nil)
		e.Lock()
		defer e.Unlock()
		for i := range 1000 {
			c.onWhole(5, 1, []byte{5, 0, 0, 0, 6, 0, 1 + byte(i%2), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
		}
	}
	x.look = func() {
		asked := c.open.Get(5).asked
		require.Len(t, asked, 2)
		require.Equal(t, []uint32{1, 2}, []uint32{asked[0].Number, asked[1].Number})
	}
	x.run(t)
	require.Equal(t, proc.Departed, x.ended[0].Kind)
}

// Frames for a communicator that was freed before any of its operations are dropped, however many.
func TestCorrectedFramesForTheFreed(t *testing.T) {
	x := &fuzzJob{class: fabric.ClassCorrected}
	var c *Corrected
	x.start = func(e *progress.Engine, out *Outbox) {
		c = StartCorrected(e, out, Comms{
			Members: func(uint32) agree.Group { return nil }, GaveUp: func(uint32) bool { return true },
		}, nil)
		e.Lock()
		defer e.Unlock()
		for range earlyMax/corrected.MaxFrame + 1 {
			c.onWhole(7, 1, make([]byte, corrected.MaxFrame))
		}
	}
	x.look = func() { require.Zero(t, c.early.Len()) }
	x.run(t)
	require.Equal(t, proc.Departed, x.ended[0].Kind)
}

// An operation continues after Free, however many communicators are freed later.
func TestCorrectedAfterManyFrees(t *testing.T) {
	x := &fuzzJob{class: fabric.ClassCorrected}
	var c *Corrected
	var waits waitingCaller
	x.start = func(e *progress.Engine, out *Outbox) {
		c = StartCorrected(e, out, Comms{
			Members: func(uint32) agree.Group { return all(3) }, GaveUp: func(uint32) bool { return false },
		}, nil)
		e.Lock()
		defer e.Unlock()
		for context := range uint32(closedMax + 2) {
			c.Enter(context, all(3), func() {
				if context == 0 {
					c.Barrier(context, all(3), &waits)
				}
				c.Leave(context)
			})
			c.Free(context)
		}
		require.Equal(t, closedMax+1, len(c.order))
		require.Zero(t, waits.ends)
		for peer := range proc.ID(3) {
			if peer != e.Self() {
				c.onEnd(&progress.Endpoint{Proc: peer}, proc.Cause{Kind: proc.Departed})
			}
		}
		require.Equal(t, 1, waits.ends)
	}
	x.look = func() {}
	x.run(t)
}
