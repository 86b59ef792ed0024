package p2p

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// gaveUp is rank 1's notice that it has given up.
func gaveUp(s collStream) frame {
	return frame{fabric.ClassFlow, flowGaveUp, appendUint64(nil, s.name())}
}

// Under ULFM a collective's messages between living ranks continue after a failure until the peer
// reports that it has given up; then this rank answers inquiries likewise.
func TestCollectiveGoesOnAmongTheLiving(t *testing.T) {
	s, e, c, kill := fourRanks(t)
	w := c.Coll()
	blocking := collStream{ctx: w.Context()}
	first, second := Irecv[Aware](w, make([]byte, 3), 1, Blocking), Irecv[Aware](w, nil, 1, Blocking)
	sent := Issend[Aware](w, nil, 1, Blocking)
	s.inbox = []frame{gaveUp(blocking)} // no failure is known yet
	e.poll()
	require.Equal(t, Pending, e.State(first))
	require.Zero(t, s.count(fabric.ClassFlow, flowInquire))

	kill(2)
	require.Equal(t, 3, s.count(fabric.ClassFlow, flowInquire), "of each request")
	require.NoError(t, c.Ready(), "a collective may begin")
	require.ErrorIs(t, c.CheckMembers(), ft.ErrProcFailed)
	for _, h := range []Handle{first, second, sent} {
		require.Equal(t, Pending, e.State(h))
	}
	asks := frame{fabric.ClassFlow, flowInquire, appendUint64(nil, blocking.name())}
	s.inbox = []frame{{fabric.ClassEager, w.ctx | Blocking, []byte("abc")}, asks, asks,
		gaveUp(collStream{ctx: w.Context(), tag: TaskTag})}
	e.poll()
	_, err := e.Wait(first)
	require.NoError(t, err)
	require.Equal(t, Pending, e.State(second))
	require.Zero(t, s.count(fabric.ClassFlow, flowGaveUp), "it still waits itself")

	s.inbox = []frame{gaveUp(blocking)}
	e.poll()
	var failed *ft.ProcFailedError
	_, err = e.Wait(second)
	require.ErrorAs(t, err, &failed)
	require.Equal(t, []int{2}, failed.Ranks)
	require.Equal(t, []int{1}, failed.By)
	require.ErrorContains(t, err, "rank 2 has failed: killed by SIGKILL; this rank waited for rank 1, which reports that it could not complete the operation")
	require.Equal(t, 1, s.count(fabric.ClassFlow, flowWithdraw), "of what is announced")
	require.Equal(t, 1, s.count(fabric.ClassFlow, flowGaveUp), "each inquiry is answered, once")
	s.inbox = []frame{asks}
	e.poll()
	require.Equal(t, 2, s.count(fabric.ClassFlow, flowGaveUp), "and later ones")
	require.ErrorIs(t, c.Ready(), ft.ErrProcFailed)
	_, err = e.Wait(Irecv[Aware](w, nil, 1, Blocking))
	require.ErrorIs(t, err, ft.ErrProcFailed)
	require.Zero(t, e.refused)
}

// A question whether a rank has given up leaves the data of the rank alone.
func TestQuestionTakesNoData(t *testing.T) {
	s, e, c, kill := fourRanks(t)
	w := c.Coll()
	kill(2)
	e.Lock()
	h, connected := w.Ask(1)
	e.Unlock()
	require.True(t, connected)
	s.inbox = []frame{{fabric.ClassEager, w.ctx | uint64(BlockingTag(2, 0)), []byte("abc")}}
	e.poll()
	require.Equal(t, Pending, e.State(h))
	e.Lock()
	require.True(t, e.Abandon(h))
	e.Unlock()
	st, err := e.Wait(Irecv[Aware](w, make([]byte, 3), 1, BlockingTag(2, 0)))
	require.NoError(t, err)
	require.Equal(t, 3, st.Count)

	e.Lock()
	h, _ = w.Ask(1)
	e.Unlock()
	s.inbox = []frame{gaveUp(collStream{ctx: w.Context()})}
	e.poll()
	require.ErrorIs(t, e.Answer(h), ft.ErrProcFailed)
	require.NoError(t, e.Answer(h), "it was given")
}

// An operation that needs the failed rank ends all of its collective here, and no other one.
func TestCollectiveThatNeedsTheFailed(t *testing.T) {
	s, e, c, kill := fourRanks(t)
	var numbers [3]uint32
	for i := range numbers {
		_, n, err := c.Join()
		require.NoError(t, err)
		numbers[i] = n
	}
	w := c.Coll()
	tag := func(i int) int { return WithRoot(TagOf(numbers[i]), 3) }
	name := func(i int) collStream { return collStream{ctx: w.Context(), tag: uint32(TagOf(numbers[i]))} }
	asks := func(i int) frame { return frame{fabric.ClassFlow, flowInquire, appendUint64(nil, name(i).name())} }
	needs, beside := Irecv[Aware](w, nil, 2, tag(0)), Irecv[Aware](w, nil, 1, tag(0))
	other, blocks := Irecv[Aware](w, nil, 1, tag(1)), Irecv[Aware](w, nil, 1, Blocking)
	s.inbox = []frame{asks(0), asks(1)}
	kill(2)
	for _, h := range []Handle{needs, beside} {
		_, err := e.Wait(h)
		require.ErrorIs(t, err, ft.ErrProcFailed)
	}
	require.Equal(t, Pending, e.State(other))
	require.Equal(t, Pending, e.State(blocks))
	require.Equal(t, 1, s.count(fabric.ClassFlow, flowGaveUp))
	s.inbox = []frame{asks(2)}
	e.poll()
	require.Equal(t, 1, s.count(fabric.ClassFlow, flowGaveUp), "it is under way")
	e.Lock()
	w.Done(numbers[2])
	e.Unlock()
	require.Equal(t, 2, s.count(fabric.ClassFlow, flowGaveUp), "it is over")
	_, err := e.Wait(Irecv[Aware](w, nil, 2, tag(1)))
	require.ErrorIs(t, err, ft.ErrProcFailed)
	require.Equal(t, Complete, e.State(other))
	require.Equal(t, 3, s.count(fabric.ClassFlow, flowGaveUp))
	require.Equal(t, Pending, e.State(blocks))
	require.NoError(t, c.Ready())
}

// A process that waits for an agreement, validates, frees or leaves starts no collective, and
// answers so.
func TestAbsentFromCollectives(t *testing.T) {
	for name, leave := range map[string]func(e *Engine, c *Comm){
		"validate": func(e *Engine, c *Comm) {
			e.Lock()
			defer e.Unlock()
			require.NoError(t, c.BeginValidate())
		},
		"free":  func(e *Engine, c *Comm) { require.NoError(t, c.Free()) },
		"leave": func(e *Engine, c *Comm) { e.StopCollectives() },
		"agree": func(e *Engine, c *Comm) {
			e.Lock()
			p, h := e.NewAgreement(c, "Agree")
			e.p.Defer(func() { p.Complete(nil) })
			e.Unlock()
			_, err := e.Wait(h)
			require.NoError(t, err)
		},
	} {
		s, e, c, kill := fourRanks(t)
		asks := func(tag uint32) frame {
			return frame{fabric.ClassFlow, flowInquire,
				appendUint64(nil, collStream{ctx: c.firstCollContext(), tag: tag}.name())}
		}
		s.inbox = []frame{asks(0), asks(uint32(TagOf(1)))}
		require.NoError(t, Send[Aware](c, nil, 1, 0))
		kill(2)
		require.Zero(t, s.count(fabric.ClassFlow, flowGaveUp), name)
		leave(e, c)
		require.Equal(t, 2, s.count(fabric.ClassFlow, flowGaveUp), name)
	}
}

// Inquiries are checked and bounded, and those of a rank that has ended are forgotten.
func TestInquiriesAreChecked(t *testing.T) {
	s, e, c, _ := fourRanks(t)
	for _, q := range []collStream{{ctx: 9}, {ctx: c.firstCollContext(), tag: 1},
		{ctx: c.firstCollContext(), tag: 1<<32 - 1}, {ctx: c.firstCollContext(), tag: TaskTag | rootMask}} {
		s.inbox = append(s.inbox, frame{fabric.ClassFlow, flowInquire, appendUint64(nil, q.name())})
	}
	s.inbox = append(s.inbox, frame{fabric.ClassFlow, flowInquire, nil},
		frame{fabric.ClassFlow, flowGaveUp, []byte("abc")})
	e.poll()
	require.EqualValues(t, 6, e.refused)
	require.Empty(t, e.inquiries.pending.order)

	// A peer may wait for more collectives than one communicator has tags; each is answered once.
	const many = 1<<taskBits + 9
	ask := func(from, to uint32) {
		for i := from; i < to; i++ {
			name := collStream{ctx: collContext | 1<<30 | i}.name()
			s.inbox = append(s.inbox, frame{fabric.ClassFlow, flowInquire, appendUint64(nil, name)})
		}
		e.poll()
	}
	ask(0, many)
	ask(0, many)
	require.Len(t, e.inquiries.pending.order, many)
	require.Len(t, e.inquiries.pending.known, many)
	require.Empty(t, s.cut)
	require.EqualValues(t, 6, e.refused)

	// A peer that inquires about more than can be under way is cut off, and its inquiries are
	// forgotten.
	ask(many, maxInquiries+1)
	require.Equal(t, []proc.Cause{{Kind: proc.Corrupt}}, s.cut)
	s.down = 1
	e.poll()
	require.Zero(t, len(e.inquiries.pending.order)+len(e.inquiries.pending.known)+e.findLink(1).inquiries)
}

// Inquiries wait for credit, one for each request, however many they are.
func TestInquiriesNotTaken(t *testing.T) {
	s, e, c, kill := fourRanks(t)
	w, number, err := c.Join()
	require.NoError(t, err)
	s.full = true
	post := func() {
		for range maxAnswers + 2 {
			Irecv[Aware](w, nil, 1, TagOf(number))
		}
	}
	post()
	kill(2)
	post()
	require.Empty(t, s.cut)
	s.full = false
	e.poll()
	require.Equal(t, 2*(maxAnswers+2), s.count(fabric.ClassFlow, flowInquire))
}

// All inquiries of a peer are answered when this process begins no collectives any more, with credit or without, and so
// are later ones. A peer that asks on and takes no answer is cut off.
func TestInquiriesAreAnsweredOnLeaving(t *testing.T) {
	s, e, c, _ := fourRanks(t)
	const many = 1<<16 + 9
	for i := range uint32(many) {
		name := collStream{ctx: c.firstCollContext(), tag: uint32(TagOf(i + 1))}.name()
		s.inbox = append(s.inbox, frame{fabric.ClassFlow, flowInquire, appendUint64(nil, name)})
	}
	e.poll()
	s.full = true
	e.StopCollectives()
	later := frame{fabric.ClassFlow, flowInquire,
		appendUint64(nil, collStream{ctx: c.firstCollContext(), tag: uint32(TagOf(0))}.name())}
	s.inbox = []frame{later}
	e.poll()
	l := e.findLink(1)
	require.Empty(t, s.cut)
	require.Equal(t, many+1, l.inquiries)
	s.full = false
	e.poll()
	require.Equal(t, many+1, s.count(fabric.ClassFlow, flowGaveUp))
	require.Zero(t, len(e.inquiries.pending.order)+len(e.inquiries.pending.known)+l.inquiries)
	require.Zero(t, e.refused)

	s.full = true
	l.inquiries = maxInquiries - 1
	s.inbox = []frame{later}
	e.poll()
	require.Empty(t, s.cut)
	s.inbox = []frame{later}
	e.poll()
	require.Equal(t, []proc.Cause{{Kind: proc.Corrupt}}, s.cut)
}

// The tags of collectives contain the number and the root.
func TestTags(t *testing.T) {
	for _, n := range []uint32{0, 1, 15, 16, 17, 1<<taskBits - 1} {
		tag := TagOf(n)
		require.Equal(t, n, taskNumber(uint32(tag)))
		require.Equal(t, n, taskNumber(uint32(WithRoot(tag, 4095))))
		require.LessOrEqual(t, WithRoot(tag, 4095), MaxTag)
		require.Equal(t, tag, TagOf(n+1<<taskBits))
	}
	const ctx = 1 << 63
	require.True(t, conflicting(ctx|uint64(BlockingTag(1, 2)), ctx|uint64(BlockingTag(1, 3))))
	require.False(t, conflicting(ctx|uint64(BlockingTag(1, 2)), ctx|uint64(BlockingTag(1, 2))))
	require.True(t, conflicting(ctx|uint64(BlockingTag(1, 2)), ctx|uint64(BlockingTag(2, 3))))
	require.True(t, conflicting(ctx|uint64(WithRoot(TagOf(7), 2)), ctx|uint64(TagOf(7))))
	require.False(t, conflicting(ctx|uint64(TagOf(8)), ctx|uint64(TagOf(7))))
	require.False(t, conflicting(ctx|uint64(TagOf(8)), ctx|uint64(BlockingTag(8, 0))))
	require.False(t, conflicting(ctx|1<<4, ctx|2<<4), "these are of no collective")
	require.False(t, conflicting(uint64(BlockingTag(1, 2)), uint64(BlockingTag(1, 3))), "nor these")
}
