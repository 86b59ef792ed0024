package control

import (
	"bytes"
	"encoding/binary"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// outboxJob is a job in which process 0 sends with an outbox, and the others receive until it leaves.
type outboxJob struct {
	n       int
	resolve func(p *sim.Proc, peer proc.ID) error // before process 0 connects
	log     *slog.Logger
	first   proc.ID     // sends something to 0 at the beginning, so that 0 knows it; 0: none
	late    fabric.Time // when it does, if 0 does not wait for it

	got [][][]byte      // frames that each has received
	at  [][]fabric.Time // and when
}

// run lets process 0 do something, with the lock held.
func (o *outboxJob) run(t *testing.T, body func(p *sim.Proc, e *progress.Engine, out *Outbox)) {
	t.Helper()
	o.got, o.at = make([][][]byte, o.n), make([][]fabric.Time, o.n)
	s, err := sim.New(sim.DefaultConfig(o.n))
	require.NoError(t, err)
	for id := range proc.ID(o.n) {
		require.NoError(t, s.Spawn(id, func(p *sim.Proc) { o.clerk(p, body) }))
	}
	require.NoError(t, s.Run())
}

func (o *outboxJob) clerk(p *sim.Proc, body func(p *sim.Proc, e *progress.Engine, out *Outbox)) {
	id := p.ID()
	e := progress.New(progress.Config{
		Self: id, Host: p.Host(), Others: []fabric.Provider{p.Provider()},
		Resolve: func(_ string, peer proc.ID) ([]byte, error) {
			if id == 0 && o.resolve != nil {
				if err := o.resolve(p, peer); err != nil {
					return nil, err
				}
			}
			return sim.Address(peer), nil
		},
	})
	var left, met progress.Completion
	in := inbox{longest: 1 << 20}
	e.Handle(fabric.ClassAgree, func(from proc.ID, imm uint64, piece []byte) {
		if id == 0 {
			met.Finish()
			return
		}
		if frame, ok := in.take(from, imm, piece); ok && frame != nil {
			o.got[id] = append(o.got[id], append([]byte{}, frame...))
			o.at[id] = append(o.at[id], p.Host().Now())
		}
	})
	e.OnEnd(func(ep *progress.Endpoint, _ proc.Cause) {
		if ep.Proc == 0 {
			left.Finish()
		}
	})
	e.Lock()
	out := NewOutbox(e, o.log)
	switch {
	case id == 0:
		if o.first > 0 && o.late == 0 {
			e.Wait(&met)
		}
		body(p, e, out)
		out.Stop()
	case id == o.first:
		p.Host().Pause(o.late)
		out.Send(0, fabric.ClassAgree, nil)
		out.Flush(1 << 60)
	}
	if id != 0 {
		e.After(100*second, left.Finish) // 0 does not know it
		e.Wait(&left)
		out.Stop()
	}
	e.Unlock()
	e.Depart()
	_ = e.Close()
}

func numbered(i, size int) []byte {
	frame := make([]byte, size)
	binary.LittleEndian.PutUint32(frame, uint32(i))
	return frame
}

// Frames arrive in the order of sending, each once and unchanged, while the connection is made,
// without credit, and after; though the sender reuses its memory at once.
func TestOutboxKeepsTheOrder(t *testing.T) {
	o := outboxJob{n: 3}
	const many = 400
	o.run(t, func(p *sim.Proc, e *progress.Engine, out *Outbox) {
		frame := make([]byte, 40_000)
		for i := range many {
			size := 4 + i%5*9000 // in some pieces or one
			binary.LittleEndian.PutUint32(frame, uint32(i))
			out.Send(1, fabric.ClassAgree, frame[:size])
			clear(frame)
			if i%3 == 0 {
				out.Send(2, fabric.ClassAgree, numbered(i, 4))
			}
			if i%50 == 49 {
				var later progress.Completion
				e.After(e.Host().Now()%9*1000, later.Finish)
				e.Wait(&later)
				bytes, q := 0, out.queues.Get(1)
				for _, f := range q.frames {
					bytes += len(f.payload)
				}
				assert.Equal(t, bytes, q.bytes)
			}
		}
		out.Flush(1 << 60)
		assert.Zero(t, out.queues.Len(), "what has been sent is kept")
		assert.Empty(t, out.order)
		out.Flush(1 << 60) // with nothing to wait for
	})
	for peer, step := range []int{1: 1, 2: 3} {
		if step == 0 {
			continue
		}
		require.Len(t, o.got[peer], (many+step-1)/step)
		for i, frame := range o.got[peer] {
			require.EqualValues(t, i*step, binary.LittleEndian.Uint32(frame), "to %d", peer)
			if peer == 1 {
				require.Len(t, frame, 4+i%5*9000)
			}
		}
	}
}

// The frames that wait for a process are too many by their number, and by their length.
func TestOutboxIsFull(t *testing.T) {
	for _, size := range []int{0, 1 << 20} {
		o := outboxJob{n: 2}
		o.run(t, func(p *sim.Proc, e *progress.Engine, out *Outbox) {
			frame := make([]byte, size)
			for range min(maxWaiting, maxWaitingBytes/max(size, 1)) {
				out.Send(1, fabric.ClassAgree, frame)
			}
			assert.False(t, out.full(1))
			out.Send(1, fabric.ClassAgree, frame)
			assert.True(t, out.full(1))
		})
	}
}

// Frames with credit are under way when Send returns: no progress is needed for them.
func TestOutboxSendsAtOnce(t *testing.T) {
	o := outboxJob{n: 2, first: 1}
	o.run(t, func(p *sim.Proc, e *progress.Engine, out *Outbox) {
		out.Send(1, fabric.ClassAgree, numbered(0, 4))
		assert.Empty(t, out.order)
		p.Host().Pause(second) // without progress
	})
	require.Len(t, o.at[1], 1)
	require.Less(t, o.at[1][0], second)
}

// An unreachable process costs a log line and its frames; others get theirs, and Flush does not
// wait for it.
func TestOutboxWithoutConnection(t *testing.T) {
	var log bytes.Buffer
	o := outboxJob{n: 4, log: slog.New(slog.NewTextHandler(&log, nil))}
	o.resolve = func(p *sim.Proc, peer proc.ID) error {
		if peer == 2 {
			return errors.New("no such street")
		}
		return nil
	}
	o.run(t, func(p *sim.Proc, e *progress.Engine, out *Outbox) {
		for to := proc.ID(1); to < 4; to++ {
			for i := range 3 {
				out.Send(to, fabric.ClassAgree, numbered(i, 4))
			}
		}
		out.Flush(1 << 60)
		assert.Equal(t, 1, strings.Count(log.String(), "\n"))
		assert.Zero(t, out.queues.Len())
		out.Send(2, fabric.ClassAgree, nil) // it counts as failed, and is not tried again
		out.Flush(1 << 60)
	})
	o.log = nil // without a log
	o.run(t, func(p *sim.Proc, e *progress.Engine, out *Outbox) {
		out.Send(2, fabric.ClassAgree, nil)
		out.Flush(1 << 60)
		for range 3 {
			out.Send(1, fabric.ClassAgree, nil)
			out.Send(3, fabric.ClassAgree, nil)
		}
		out.Flush(1 << 60)
	})
	require.Equal(t, 1, strings.Count(log.String(), "\n"))
	require.Contains(t, log.String(), "no such street")
	require.Contains(t, log.String(), "peer=2")
	require.Len(t, o.got[1], 3)
	require.Empty(t, o.got[2])
	require.Len(t, o.got[3], 3)
}

// A peer that connects while its address is looked up gets its frames, though the look-up fails.
func TestOutboxPeerConnectsFirst(t *testing.T) {
	o := outboxJob{n: 2, first: 1, late: second / 2}
	o.resolve = func(p *sim.Proc, peer proc.ID) error {
		p.Host().Pause(second)
		return errors.New("no such street")
	}
	o.run(t, func(p *sim.Proc, e *progress.Engine, out *Outbox) {
		for range 3 {
			out.Send(1, fabric.ClassAgree, nil)
		}
		var later progress.Completion
		e.After(2*second, later.Finish)
		e.Wait(&later)
		assert.NoError(t, out.Unreachable(1))
		assert.False(t, e.View().Failed(1))
	})
	require.Len(t, o.got[1], 3)
}

// Stop waits for a connection that is being made; nothing is sent or logged after it.
func TestOutboxStopWaits(t *testing.T) {
	for _, reachable := range []bool{true, false} {
		var ended fabric.Time
		var tried []proc.ID
		var log bytes.Buffer
		o := outboxJob{n: 4, log: slog.New(slog.NewTextHandler(&log, nil))}
		o.resolve = func(p *sim.Proc, peer proc.ID) error {
			tried = append(tried, peer)
			p.Host().Pause(second)
			ended = p.Host().Now()
			if !reachable {
				return errors.New("no such street")
			}
			return nil
		}
		o.run(t, func(p *sim.Proc, e *progress.Engine, out *Outbox) {
			out.Send(1, fabric.ClassAgree, numbered(1, 4))
			out.Send(2, fabric.ClassAgree, numbered(1, 4))
			var connecting progress.Completion
			e.After(second/2, connecting.Finish)
			e.Wait(&connecting)
			out.Stop()
			assert.GreaterOrEqual(t, p.Host().Now(), second, "what connects has not ended")
			assert.NotZero(t, ended)
			out.Send(3, fabric.ClassAgree, numbered(1, 4))
			out.Connect(3)
			assert.NotContains(t, out.order, proc.ID(3))
			assert.NotContains(t, out.dialQueue, proc.ID(3))
		})
		require.Equal(t, []proc.ID{1}, tried, "reachable %v", reachable)
		require.Empty(t, log.String())
		require.Empty(t, o.got[2])
		require.Empty(t, o.got[3])
	}
}

// Connect connects, without a frame, and once to a known process.
func TestOutboxConnects(t *testing.T) {
	var tried []proc.ID
	o := outboxJob{n: 3}
	o.resolve = func(_ *sim.Proc, peer proc.ID) error {
		tried = append(tried, peer)
		return nil
	}
	o.run(t, func(p *sim.Proc, e *progress.Engine, out *Outbox) {
		out.Connect(2)
		var met progress.Completion
		e.After(second, met.Finish)
		e.Wait(&met)
		assert.NotNil(t, e.Lookup(2))
		out.Connect(2)
		assert.Empty(t, out.dialQueue)
		assert.Nil(t, e.Lookup(1))
	})
	require.Equal(t, []proc.ID{2}, tried)
	require.Empty(t, o.got[2])
}

// Send wakes a sleeping goroutine of the process: nothing else would send frames that wait for
// credit.
func TestOutboxWakesSleepers(t *testing.T) {
	const frames = 2000
	o := outboxJob{n: 2, first: 1}
	o.run(t, func(p *sim.Proc, e *progress.Engine, out *Outbox) {
		sent := make([]byte, 1000)
		p.Host().Go(func() {
			p.Host().Pause(second)
			e.Lock()
			for range frames {
				out.Send(1, fabric.ClassAgree, sent)
			}
			assert.NotEmpty(t, out.order, "credit for all: nothing is tested")
			e.Unlock()
		})
		var done progress.Completion
		e.After(50*second, done.Finish)
		e.Wait(&done)
	})
	require.Len(t, o.at[1], frames)
	require.Less(t, o.at[1][frames-1], 10*second)
}

// Pieces of frames of several senders are kept apart; a frame that is too long is dropped with its
// pieces, and the next one is a new one.
func TestInbox(t *testing.T) {
	in := inbox{longest: 4}
	take := func(from proc.ID, imm uint64, piece string) (string, bool) {
		frame, ok := in.take(from, imm, []byte(piece))
		return string(frame), ok
	}
	expect := func(from proc.ID, imm uint64, piece, want string, fits bool) {
		t.Helper()
		got, ok := take(from, imm, piece)
		require.Equal(t, fits, ok)
		require.Equal(t, want, got)
	}
	expect(1, more, "a", "", true)
	expect(2, more, "x", "", true)
	expect(3, 0, "whole", "whole", true)
	expect(1, 0, "b", "ab", true)
	expect(2, more, "y", "", true)
	expect(2, 0, "zz", "xyzz", true)
	require.Empty(t, in.parts)
	expect(1, more, "long", "", true)
	expect(1, more, "e", "", false)
	require.Empty(t, in.parts)
	expect(1, 0, "new", "new", true)
	expect(1, more, "longe", "", false)
	expect(1, more, "abc", "", true)
	expect(1, 0, "de", "", false)
	expect(1, 0, "f", "f", true)
}
