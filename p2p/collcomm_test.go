package p2p

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// ofCollective is a message of rank 1 for the collectives of a communicator, which may not have any
// yet.
func ofCollective(c *Comm) frame {
	return frame{fabric.ClassEager, uint64(c.firstCollContext())<<32 | 5, []byte("x")}
}

// A communicator allocates its state for collectives with the first one. Messages of faster members
// wait for it.
func TestCollCommIsMadeLazily(t *testing.T) {
	s, e, c := newScripted(t)
	require.Nil(t, c.coll.Load())
	s.inbox = []frame{ofCollective(c)}
	e.poll()
	require.Nil(t, c.coll.Load())
	require.NoError(t, c.CheckMembers())
	w := c.coll.Load()
	require.NotNil(t, w)
	require.Same(t, w, c.Coll())
	buf := make([]byte, 1)
	_, err := Recv[Aware](w, buf, 1, 5)
	require.NoError(t, err)
	require.Equal(t, "x", string(buf))
	require.Same(t, w, c.Coll())
}

// A communicator that is freed or revoked without collectives drops messages for them, earlier and
// later ones; a collective, or an operation on the communicator of collectives, has the same error
// as if there had been one before.
func TestCommWithoutCollectives(t *testing.T) {
	for name, end := range map[string]struct {
		by  func(*Comm) error
		err error
	}{
		"free":              {(*Comm).Free, ft.ErrClosed},
		"revoke":            {(*Comm).Revoke, ft.ErrRevoked},
		"revoke, then free": {func(c *Comm) error { _ = c.Revoke(); return c.Free() }, ft.ErrClosed},
	} {
		s, e, _ := newScripted(t)
		c, err := e.NewComm("c", WorldGroup(2), 0, 20)
		require.NoError(t, err)
		s.inbox = []frame{ofCollective(c)}
		e.poll()
		require.Equal(t, 1, e.unexpected.n, name)
		require.NoError(t, end.by(c))
		require.Zero(t, e.unexpected.n, name)
		s.inbox = []frame{ofCollective(c)}
		e.poll()
		require.Zero(t, e.unexpected.n, name)
		e.poll() // the revocation is known by now
		s.inbox = []frame{ofCollective(c)}
		e.poll()
		require.Zero(t, e.unexpected.n, name)

		require.ErrorIs(t, c.CheckMembers(), end.err, name)
		_, _, err = c.Join()
		require.ErrorIs(t, err, end.err, name)
		w := c.Coll()
		require.ErrorIs(t, Send[Aware](w, nil, 1, 0), end.err, name)
		require.Equal(t, end.err != ft.ErrClosed, e.comms.find(w.ctx, 0) == w, name)
		s.inbox = []frame{ofCollective(c)}
		e.poll()
		require.Zero(t, e.unexpected.n, name)
	}
}

// A communicator of collectives that is made late has its parent's settings and state.
func TestLateCollCommInherits(t *testing.T) {
	_, e, c, kill := fourRanks(t)
	require.NoError(t, c.SetUniformity(UniformCollectives))
	require.Equal(t, UniformCollectives, c.Coll().Uniformity())
	failed, err := e.NewComm("failed", WorldGroup(4), 0, 20)
	require.NoError(t, err)
	felled, err := e.NewComm("felled", WorldGroup(4), 0, 21)
	require.NoError(t, err)
	require.NoError(t, felled.SetErrorRange(ErrorsGroup))
	kill(2)
	require.ErrorIs(t, failed.CheckMembers(), ft.ErrProcFailed)
	require.NoError(t, failed.validate(1, 2))
	require.NoError(t, failed.CheckMembers())
	require.Equal(t, []proc.ID{0, 1, 3}, failed.Coll().Group().Procs())
	require.ErrorContains(t, felled.CheckMembers(), "error range is group")
	require.ErrorContains(t, Send[Aware](felled.Coll(), nil, 1, 0), "error range is group")
}

// A freed context that is used again belongs to the new communicator, and to its collectives before
// and after their start; that of collectives before a validate does not.
func TestContextUsedOnceMore(t *testing.T) {
	s, e, _ := newScripted(t)
	arrives := func(f frame) bool {
		before := e.unexpected.n
		s.inbox = []frame{f}
		e.poll()
		return e.unexpected.n > before
	}
	for round := range 3 {
		c, err := e.NewComm("c", WorldGroup(2), 0, 20)
		require.NoError(t, err)
		plain := frame{fabric.ClassEager, c.ctx | 5, []byte("x")}
		require.True(t, arrives(plain), round)
		require.True(t, arrives(ofCollective(c)), round)
		if round > 0 {
			require.NoError(t, c.CheckMembers())
			require.True(t, arrives(ofCollective(c)), round)
		}
		if round == 2 {
			require.NoError(t, c.validate(1))
			require.False(t, arrives(ofCollective(c)))
			require.True(t, arrives(frame{fabric.ClassEager, c.Coll().ctx | 5, []byte("x")}))
		}
		require.NoError(t, c.Free())
		require.False(t, arrives(plain), round)
		require.False(t, arrives(ofCollective(c)), round)
	}
}

// A new communicator with a context used before is affected neither by that one's revocation nor by
// its errors.
func TestContextOfTheRevokedUsedOnceMore(t *testing.T) {
	s, e, _ := newScripted(t)
	again := func() *Comm {
		c, err := e.NewComm("c", WorldGroup(2), 0, 20)
		require.NoError(t, err)
		return c
	}
	old := again()
	require.NoError(t, old.Revoke())
	require.NoError(t, old.Free())
	e.poll()
	c := again()
	s.inbox = []frame{ofCollective(c)}
	e.poll()
	require.ErrorIs(t, Send[Aware](old.Coll(), nil, 1, 0), ft.ErrClosed)
	require.Equal(t, 1, e.unexpected.n, "a message for the new one")

	require.NoError(t, c.CheckMembers())
	require.NoError(t, c.validate(1))
	const sender = 5
	s.sent = nil
	s.inbox = []frame{{fabric.ClassRTS, uint64(c.firstCollContext())<<32 | 1,
		appendRTS(nil, rts{sender: sender, total: 100})}}
	e.poll()
	require.Equal(t, 1, s.count(fabric.ClassFin, sender), "not revoked, but too late")
	require.Zero(t, s.count(fabric.ClassFlow, flowRevoked))
}
