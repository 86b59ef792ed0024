package p2p

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// requireRevoked checks that a request has ended, and why.
func requireRevoked(t *testing.T, e *Engine, name string, h Handle) {
	t.Helper()
	require.Equal(t, Complete, e.State(h), name)
	_, err := e.Wait(h)
	require.ErrorIs(t, err, ft.ErrRevoked, name)
}

// withdrawn makes the peer confirm every withdrawal so far.
func (s *scripted) withdrawn() (n int) {
	for _, f := range s.sent {
		if f.class == fabric.ClassFlow && f.imm == flowWithdraw {
			s.inbox = append(s.inbox, frame{fabric.ClassFlow, flowWithdrawn, f.data})
			n++
		}
	}
	return n
}

// All waiting operations on a communicator end when it is revoked, here or by another member, and
// none on others (ULFM 17.3.1).
func TestRevokeEndsWaiting(t *testing.T) {
	for _, here := range []bool{true, false} {
		s, e, c, kill := fourRanks(t)
		other, err := e.NewComm("other", WorldGroup(4), 0, 10)
		require.NoError(t, err)
		told := 0
		e.OnRevoke(func(o *Comm) {
			require.Same(t, c, o)
			require.NotZero(t, o.state.Load(), "an operation during the notices fails already")
			told++
		})
		doubtful := Irecv[Aware](c, nil, AnySource, 4)
		kill(3)
		inDoubt(t, e, doubtful, 3)
		hs := map[string]Handle{
			"pending":  doubtful,
			"recv":     Irecv[Aware](c, nil, 1, 5),
			"recv any": Irecv[Aware](c, nil, 1, AnyTag),
			"probe":    BeginProbe[Aware](c, 1, 5, ForProbe),
			"mprobe":   BeginProbe[Aware](c, 1, AnyTag, ForMprobe),
		}
		live := []Handle{
			Irecv[Aware](other, nil, 1, 5), Issend[Aware](other, nil, 1, 5), BeginProbe[Aware](other, 1, 5, ForProbe),
		}
		if here {
			require.NoError(t, c.Revoke())
		} else {
			requireKnown(t, e, 9, true)
		}
		require.True(t, c.Revoked())
		for name, h := range hs {
			requireRevoked(t, e, name, h)
		}
		for name, op := range directed(1) {
			require.ErrorIs(t, op(c), ft.ErrRevoked, name)
			require.ErrorIs(t, op(c.Coll()), ft.ErrRevoked, name)
		}
		require.False(t, other.Revoked())
		for i, h := range live {
			require.Equal(t, Pending, e.State(h), "%d", i)
		}
		require.Zero(t, s.count(fabric.ClassFlow, flowWithdraw))
		requireKnown(t, e, 9|collContext, false)
		require.NoError(t, c.Revoke())
		require.Equal(t, 1, told, "once for each communicator")
	}
}

// Announced sends end when the receiver has confirmed that it does not read their buffers; held
// ones end with them.
func TestRevokeWithdraws(t *testing.T) {
	s, e, c := newScripted(t)
	long := make([]byte, 5000)
	for _, on := range []*Comm{c, c.Coll()} {
		for range maxAnnounced/2 + 2 {
			Isend[Aware](on, long, 1, 0)
		}
	}
	last := Isend[Aware](c, long, 1, 0)
	require.NoError(t, c.Revoke())
	requireRevoked(t, e, "held", last)
	require.Nil(t, e.findLink(1).held)
	require.Equal(t, maxAnnounced, s.withdrawn())
	e.poll()
	l := e.findLink(1)
	require.Nil(t, l.active)
	require.Zero(t, l.announced)
	require.Zero(t, e.refused)
	for _, r := range e.requests {
		if r.comm != nil {
			require.ErrorIs(t, r.err, ft.ErrRevoked)
		}
	}
}

// A matched message is transferred: the receive gets the data, and the send does not end before its
// buffer is free.
func TestRevokeKeepsMatched(t *testing.T) {
	s, e, c := newScripted(t)
	buf := make([]byte, 300)
	streamed, eager := Irecv[Aware](c, buf, 1, 0), Irecv[Aware](c, make([]byte, 300), 1, 1)
	sent := Issend[Aware](c, make([]byte, 300), 1, 2)
	raced := Issend[Aware](c, make([]byte, 300), 1, 3)
	s.inbox = []frame{
		{fabric.ClassRTS, 1 << 32, appendRTS(nil, rts{sender: 7, total: 300})},
		{fabric.ClassFirst, 1<<32 | 1, binary.LittleEndian.AppendUint64(nil, 300)},
		{fabric.ClassCTS, sent.r.wire(), appendUint64(nil, 77)},
	}
	e.poll()
	require.NoError(t, c.Revoke())
	require.Equal(t, 1, s.count(fabric.ClassFlow, flowWithdraw), "only what has not been answered")
	for _, h := range []Handle{streamed, eager, raced} {
		require.Equal(t, Pending, e.State(h))
	}
	piece := func(imm uint64, n int) frame { return frame{fabric.ClassFrag, imm, make([]byte, n)} }
	s.inbox = []frame{
		piece(streamed.r.wire()+1, 256), piece(streamed.r.wire()+1, 44), piece(0, 256), piece(0, 44),
		{fabric.ClassCTS, raced.r.wire(), appendUint64(nil, 78)}, // it was on its way
	}
	for _, h := range []Handle{streamed, eager, sent} {
		_, err := e.Wait(h)
		require.NoError(t, err)
	}
	requireRevoked(t, e, "raced", raced)
	require.Equal(t, 2, s.count(fabric.ClassFrag, 76+1), "it was streamed all the same")
	require.Zero(t, e.refused)
}

// unexpectedFrames are frames of one unexpected message, of every kind.
var unexpectedFrames = map[string][]frame{
	"eager":     {arrival(5, "eager")},
	"announced": partialMessages["announced"],
	"arriving":  partialMessages["arriving"],
}

// Unexpected messages are dropped, also those that a matched probe has taken, and so are later
// ones; the sender of an announcement is notified.
func TestRevokeDropsUnexpected(t *testing.T) {
	for name, frames := range unexpectedFrames {
		for _, when := range []string{"before", "probed", "after", "after free"} {
			s, e, c, _ := fourRanks(t)
			var m Message
			if when == "before" || when == "probed" {
				s.inbox = frames
				e.poll()
				require.Equal(t, 1, e.unexpected.n)
			}
			if when == "probed" {
				var err error
				m, err = Mprobe[Aware](c, 1, 5)
				require.NoError(t, err)
			}
			require.NoError(t, c.Revoke())
			if when == "after free" {
				require.NoError(t, c.Free())
				require.Empty(t, e.revoked.known)
			}
			if when == "after" || when == "after free" {
				s.inbox = frames
				e.poll()
			}
			if when == "probed" {
				for range 2 {
					_, err := m.Recv(make([]byte, 300))
					require.Error(t, err, name)
				}
			}
			if name == "arriving" {
				require.NotNil(t, e.findLink(1).in)
				s.inbox = []frame{{fabric.ClassFrag, 0, make([]byte, 44)}}
				e.poll()
			}
			requireNothingOf(t, e, 1)
			require.Nil(t, e.unexpected.claims)
			require.Zero(t, s.count(fabric.ClassFin, 7), "%s, %s", name, when)
			want := 0
			if name == "announced" {
				want = 1
			}
			require.Equal(t, want, s.count(fabric.ClassFlow, flowRevoked), "%s, %s", name, when)
			require.Zero(t, e.refused)
		}
	}
}

// The sender of an announcement for collectives that a validate or Free has ended hears of the revocation, not that its
// message was matched.
func TestRevokeRejectsForEndedCollectives(t *testing.T) {
	s, e, c := newScripted(t)
	announced := func(ctx uint32) int {
		s.inbox = []frame{{fabric.ClassRTS, uint64(ctx)<<32 | 5, appendRTS(nil, rts{sender: 7, total: 300})}}
		e.poll()
		require.Zero(t, e.unexpected.n)
		return s.count(fabric.ClassFlow, flowRevoked)
	}
	first := c.Coll().Context()
	require.NoError(t, c.validate(1))
	second := c.Coll().Context()
	require.Zero(t, announced(first), "it is not revoked yet")
	require.Equal(t, 1, s.count(fabric.ClassFin, 7))
	require.NoError(t, c.Revoke())
	require.Equal(t, 1, announced(first))
	require.Equal(t, 2, announced(second))
	require.NoError(t, c.Free())
	require.Equal(t, 3, announced(first))
	require.Equal(t, 4, announced(second))
	require.Equal(t, 1, s.count(fabric.ClassFin, 7))
	_, err := e.NewComm("again", WorldGroup(2), 0, 1)
	require.NoError(t, err)
	require.False(t, e.wasRevoked(uint64(first)<<32), "a context that is used once more is a new one")
}

// A message of a matched probe is received once, or dropped once.
func TestProbedMessageOfARevokedCommunicator(t *testing.T) {
	s, e, c := newScripted(t)
	other, err := e.NewComm("other", WorldGroup(2), 0, 10)
	require.NoError(t, err)
	s.inbox = []frame{
		{fabric.ClassEager, 1<<32 | 1, []byte("a")}, {fabric.ClassEager, 10<<32 | 1, []byte("b")},
		{fabric.ClassEager, 1<<32 | 1, []byte("c")},
	}
	var ms []Message
	for _, on := range []*Comm{c, other, c} {
		m, err := Mprobe[Aware](on, 1, 1)
		require.NoError(t, err)
		ms = append(ms, m)
	}
	require.NoError(t, c.Revoke())
	buf := make([]byte, 1)
	_, err = ms[0].Recv(buf)
	require.ErrorIs(t, err, ft.ErrRevoked)
	_, err = ms[1].Recv(buf)
	require.NoError(t, err)
	require.Equal(t, "b", string(buf))
	_, err = ms[2].Recv(buf)
	require.ErrorIs(t, err, ft.ErrRevoked)
	require.Nil(t, e.unexpected.claims)
}

// A sender that is notified that its message will not be received revokes the communicator and
// notifies others. A synchronous send never passes for matched (ULFM 17.3.1).
func TestRejectedSend(t *testing.T) {
	for _, validated := range []bool{false, true} {
		testRejectedSend(t, validated)
	}
}

// testRejectedSend rejects a send of a collective, before the first validate or after it.
func testRejectedSend(t *testing.T, validated bool) {
	s, e, c := newScripted(t)
	if validated {
		require.NoError(t, c.validate(1))
	}
	told := 0
	e.OnRevoke(func(*Comm) { told++ })
	h := Issend[Aware](c.Coll(), nil, 1, 5)
	wait := Irecv[Aware](c, nil, 1, 5)
	reject := frame{fabric.ClassFlow, flowRevoked, appendUint64(nil, h.r.wire())}
	s.inbox = []frame{reject}
	e.poll()
	requireRevoked(t, e, "send", h)
	requireRevoked(t, e, "recv", wait)
	require.True(t, c.Revoked())
	require.Equal(t, 1, told)
	s.inbox = []frame{reject, {fabric.ClassFlow, flowRevoked, nil}}
	e.poll()
	require.EqualValues(t, 2, e.refused)
}

// Sends to oneself end like others.
func TestRevokeEndsSendsToOneself(t *testing.T) {
	_, e, c := newScripted(t)
	long := make([]byte, loopbackBeyond)
	var hs []Handle
	for range maxAnnounced + 2 {
		hs = append(hs, Issend[Aware](c, nil, 0, 5))
		e.poll()
	}
	hs = append(hs, Isend[Aware](c, long, 0, 5))
	require.NoError(t, c.Revoke())
	e.poll()
	for _, h := range hs {
		requireRevoked(t, e, "self", h)
	}
	requireNothingOf(t, e, 0)
	require.Zero(t, e.refused)
}

// loopbackBeyond is a length that a process announces to itself.
const loopbackBeyond = 1 << 20

// An intercommunicator, its local communicator and their collectives are revoked together; the
// parent is not.
func TestRevokeIntercommunicator(t *testing.T) {
	_, e, c := newScripted(t)
	inter, err := c.Bridge(1, NewGroup([]proc.ID{2, 3}), 7)
	require.NoError(t, err)
	h := Irecv[Aware](inter.Local().Coll(), nil, 1, 0)
	require.NoError(t, inter.Revoke())
	requireRevoked(t, e, "local", h)
	for _, o := range inter.linkedComms(nil) {
		require.True(t, o.Revoked())
	}
	require.False(t, c.Revoked())
	dup, err := c.Bridge(2, NewGroup([]proc.ID{2, 3}), 8)
	require.NoError(t, err)
	again, err := dup.Dup()
	require.NoError(t, err)
	require.NotNil(t, again.Local())
	_, err = inter.Dup()
	require.ErrorIs(t, err, ft.ErrRevoked)
}

// A revoked communicator can be freed and shrunk; no others can be derived from it (ULFM 17.3.1).
func TestCreationOnARevokedCommunicator(t *testing.T) {
	_, e, c := newScripted(t)
	require.NoError(t, c.Revoke())
	group := c.Group()
	_, derived := c.Derive(1, group, 0)
	_, none := c.Derive(1, Group{}, 0)
	_, _, among := c.DeriveAmong(group, 1, c.CountAmong(group, 1))
	_, dup := c.Dup()
	_, bridge := c.Bridge(1, NewGroup([]proc.ID{2, 3}), 3)
	for _, err := range []error{derived, none, among, dup, bridge} {
		require.ErrorIs(t, err, ft.ErrRevoked)
	}
	e.Lock()
	left, err := c.Survivors(nil, 1, nil)
	e.Unlock()
	require.NoError(t, err)
	require.False(t, left.Revoked())
	require.NoError(t, c.Free())
	require.NoError(t, Send[Aware](left, nil, 1, 0))
}

// An unaware process ends waiting operations, and later ones that must wait.
func TestRevokeUnaware(t *testing.T) {
	_, e, c := newScripted(t)
	h := Irecv[Unaware](c, nil, 1, 5)
	require.NoError(t, c.Revoke())
	requireRevoked(t, e, "recv", h)
	requireRevoked(t, e, "started", Irecv[Unaware](c, nil, 1, 5))
	requireRevoked(t, e, "ssend", Issend[Unaware](c, nil, 1, 5))
	require.NoError(t, Send[Unaware](c, nil, 1, 5), "it looks at nothing")
}

// Each request has its own error, whether it was allocated in advance or not.
func TestErrorsOfRevocations(t *testing.T) {
	_, e, c := newScripted(t)
	first, second := Irecv[Aware](c, nil, 1, 5), Irecv[Aware](c, nil, 1, 6)
	require.NoError(t, c.Revoke())
	_, one := e.Wait(first)
	_, two := e.Wait(second)
	require.True(t, OnlyRevoked(one))
	require.EqualError(t, one, "banyan: Recv(src 1, tag 5) on "+c.Name()+" at rank 0: communicator revoked")
	require.EqualError(t, two, "banyan: Recv(src 1, tag 6) on "+c.Name()+" at rank 0: communicator revoked")
	require.False(t, OnlyRevoked(errors.New("another")))
	require.Nil(t, e.revoked.spare)
	e.poll()
	require.NotNil(t, e.revoked.spare)
}
