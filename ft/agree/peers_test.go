package agree

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/internal/proc"
)

// sends returns the frames that a machine sends to a process now.
func sends(m *Machine, to proc.ID) (out [][]byte) {
	for a, ok := m.Next(); ok; a, ok = m.Next() {
		if a.Kind == Send && a.To == to {
			out = append(out, a.Payload)
		}
	}
	return out
}

// The frames that a member sent before it departed count, even if others report its departure
// first.
func TestFramesBeforeDeparture(t *testing.T) {
	ms := machines(t, 3, theGroup)
	id := func(r int) proc.ID { return members(3).Proc(r) }
	for _, m := range ms {
		_, err := m.Propose(theGroup, Proposal{})
		require.NoError(t, err)
	}
	var up [3][]byte
	for r := 1; r < 3; r++ {
		up[r] = sends(ms[r], id(0))[0]
		require.NoError(t, ms[0].Receive(id(r), up[r]))
	}
	down := sends(ms[0], id(2))[0] // 0 departs; this frame to 2 is under way
	f := frame{kind: kindUp, key: theGroup, seq: 2, ended: []entry{{0, true, true}}}
	require.NoError(t, ms[2].Receive(id(1), f.encode(nil)))
	a, ok := ms[2].Next()
	require.True(t, ok)
	require.Equal(t, Action{Kind: Report, Peer: id(0), Departed: true}, a)
	ms[2].Died(id(1)) // no other member has the decision of 0
	require.NoError(t, ms[2].Receive(id(0), down))
	ms[2].Departed(id(0))
	decided := pump(t, ms[2])
	require.Len(t, decided, 1)
	require.Empty(t, decided[0].Ended)
}

// All members learn the same about departed members, even if a departure looked like a failure to
// some; and a departure needs no acknowledgement.
func TestDeparturesAreAgreed(t *testing.T) {
	ms := machines(t, 4, theGroup)
	departed := members(4).Proc(3)
	for r, m := range ms[:3] {
		if r == 1 {
			m.Died(departed)
		} else {
			m.Departed(departed)
		}
		_, err := m.Propose(theGroup, Proposal{})
		require.NoError(t, err)
	}
	for _, d := range pump(t, ms[:3]...) {
		require.Equal(t, []Ended{{departed, true}}, d.Ended)
		require.Empty(t, d.Unacked)
	}
	leaves := members(4).Proc(2) // 1 does not know of it when it proposes
	ms[0].Departed(leaves)
	for _, m := range ms[:2] {
		_, err := m.Propose(theGroup, Proposal{})
		require.NoError(t, err)
	}
	ms[1].Departed(leaves)
	decided := pump(t, ms[:2]...)
	require.Len(t, decided, 2)
	for _, d := range decided {
		require.Equal(t, []Ended{{leaves, true}, {departed, true}}, d.Ended)
		require.Equal(t, []Ended{{leaves, true}}, d.New)
		require.Empty(t, d.Unacked)
	}
}

// Numbers wrap around: the first after the last counts as later.
func TestNumbersWrapAround(t *testing.T) {
	ms := machines(t, 2, theGroup)
	ms[0].open[theGroup].cur.seq = 1<<32 - 1
	f := frame{kind: kindUp, key: theGroup}
	require.NoError(t, ms[0].Receive(ms[1].self, f.encode(nil)))
	f.seq--
	require.NoError(t, ms[0].Receive(ms[1].self, f.encode(nil)))
	for range 2 {
		_, err := ms[0].Propose(theGroup, Proposal{})
		require.NoError(t, err)
		a, ok := ms[0].Next()
		require.True(t, ok)
		require.Equal(t, Send, a.Kind)
		a, ok = ms[0].Next()
		require.True(t, ok)
		require.Equal(t, Decide, a.Kind)
	}
}

// Decisions for a closed group are not kept.
func TestLateDecisionsAreDropped(t *testing.T) {
	ms := machines(t, 2, theGroup)
	ms[0].Close(theGroup)
	f := frame{kind: kindDown, key: theGroup, seq: 1}
	for range maxEarly + 1 {
		require.NoError(t, ms[0].Receive(ms[1].self, f.encode(nil)))
	}
	require.Empty(t, ms[0].unopened)
}

// Long frames for groups that are not open count by their bytes.
func TestLongHeldFrames(t *testing.T) {
	ms := machines(t, 2)
	f := frame{kind: kindUp, key: theGroup, seq: 1, value: make([]byte, MaxValue)}
	payload := f.encode(nil)
	kept := 0
	for ms[0].Receive(ms[1].self, payload) == nil {
		kept++
	}
	require.Equal(t, maxEarly*earlyBytes/len(payload), kept)
	require.NoError(t, ms[0].Open(theGroup, members(2)))
	require.Zero(t, ms[0].heldBytes[ms[1].self])
}

// A decision on another operation than the proposed one does not reach the caller.
func TestDecisionOnSomethingElse(t *testing.T) {
	for name, f := range map[string]frame{
		"length":  {what: 3, value: []byte{1}},
		"what":    {what: 4, value: []byte{1, 2}},
		"uniform": {what: 3, value: []byte{1, 2}, flags: flagUniform},
		"confirm": {what: 3, value: []byte{1, 2}, flags: flagConfirm},
	} {
		t.Run(name, func(t *testing.T) {
			ms := machines(t, 2, theGroup)
			_, err := ms[1].Propose(theGroup, Proposal{What: 3, Value: []byte{1, 2}, Op: func(_, _ []byte) {}})
			require.NoError(t, err)
			f.kind, f.key, f.seq = kindDown, theGroup, 1
			require.ErrorIs(t, ms[1].Receive(ms[0].self, f.encode(nil)), ErrFrame)
			f.flags |= flagMismatch
			require.NoError(t, ms[1].Receive(ms[0].self, f.encode(nil)), "that tells that they are unlike")
		})
	}
}

// A malformed frame that arrived before its group was open costs its sender the connection, and the
// group is opened.
func TestOpenWithGarbage(t *testing.T) {
	ms := machines(t, 2)
	f := frame{kind: kindUp, key: theGroup, seq: 1, ended: []entry{{77, false, false}}}
	require.NoError(t, ms[0].Receive(ms[1].self, f.encode(nil)))
	require.NoError(t, ms[0].Open(theGroup, members(2)))
	a, ok := ms[0].Next()
	require.True(t, ok)
	require.Equal(t, Report, a.Kind)
	require.ErrorIs(t, a.Why, ErrFrame)
	require.Equal(t, ms[1].self, a.Peer)
	require.Zero(t, ms[0].heldBytes[ms[1].self])
}

// A frame that names many ends is decoded again when the last of them is known, not at each.
func TestManyEndsAtOnce(t *testing.T) {
	const n = 20_000
	m := New(members(n).Proc(0), Shape{})
	require.NoError(t, m.Open(theGroup, members(n)))
	f := frame{kind: kindUp, key: theGroup, seq: 1}
	for r := int32(2); r < n; r++ {
		f.ended = append(f.ended, entry{r, false, true})
	}
	require.NoError(t, m.Receive(members(n).Proc(1), f.encode(nil)))
	reports := 0
	for a, ok := m.Next(); ok; a, ok = m.Next() {
		require.Equal(t, Report, a.Kind)
		reports++
		m.Died(a.Peer)
	}
	require.Equal(t, n-2, reports)
	require.Empty(t, m.open[theGroup].held)
}

// The frames that a peer can make a machine hold are bounded, and malformed ones are refused.
func TestPeersAreBounded(t *testing.T) {
	ms := machines(t, 2, theGroup)
	f := frame{kind: kindUp, key: GroupKey{99, 99}, seq: 1}
	b := f.encode(nil)
	var err error
	n := 0
	for ; err == nil; n++ {
		require.LessOrEqual(t, n, maxEarly*earlyBytes)
		err = ms[0].Receive(ms[1].self, b)
	}
	require.ErrorIs(t, err, ErrFrame)
	f.key, f.seq = theGroup, 5
	require.ErrorIs(t, ms[0].Receive(ms[1].self, f.encode(nil)), ErrFrame, "they count together")
	require.ErrorIs(t, ms[0].Receive(ms[1].self, b[:4]), ErrFrame)
	f.seq = 1
	require.ErrorIs(t, ms[0].Receive(1<<20, f.encode(nil)), ErrFrame, "no member")
	f.kind = kindDown
	require.ErrorIs(t, ms[0].Receive(ms[1].self, f.encode(nil)), ErrFrame, "decided without us")
	ms[0].Close(theGroup)
	require.Zero(t, len(ms[0].open))
}

// A contribution that is repeated before this process enters is kept once.
func TestRepeatedContributions(t *testing.T) {
	ms := machines(t, 2, theGroup)
	f := frame{kind: kindUp, key: theGroup, seq: 1}
	for range 10_000 {
		require.NoError(t, ms[0].Receive(ms[1].self, f.encode(nil)))
	}
	require.Equal(t, 1, len(ms[0].open[theGroup].cur.pending))
}
