package p2p

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// fourRanks returns rank 0 of a communicator of four, and a function that kills members. Rank 1
// sends the frames in the inbox.
func fourRanks(t *testing.T) (s *scripted, e *Engine, c *Comm, kill func(proc.ID)) {
	s, e, _ = newScripted(t)
	c, err := e.NewComm("four", WorldGroup(4), 0, 9)
	require.NoError(t, err)
	return s, e, c, func(p proc.ID) {
		s.down = p
		e.poll()
	}
}

// arrival is an eager message of rank 1.
func arrival(tag uint64, text string) frame {
	return frame{fabric.ClassEager, 9<<32 | tag, []byte(text)}
}

// inDoubt checks that a request is pending because of the failure of some ranks.
func inDoubt(t *testing.T, e *Engine, h Handle, ranks ...int) {
	t.Helper()
	var failed *ft.ProcFailedError
	for range 2 { // at each wait
		_, done, err := e.Test(h)
		require.False(t, done)
		require.ErrorIs(t, err, ft.ErrProcFailedPending)
		require.NotErrorIs(t, err, ft.ErrProcFailed)
		_, err = e.Wait(h)
		require.ErrorAs(t, err, &failed)
		require.True(t, failed.Pending)
		require.Equal(t, ranks, failed.Ranks)
		require.Equal(t, proc.Signaled, failed.Cause.Kind)
	}
	require.Equal(t, InDoubt, e.State(h))
}

// A wildcard receive in doubt keeps its place among the posted ones and is matched in its turn
// (ULFM 17.2.2).
func TestPendingKeepsItsPlace(t *testing.T) {
	s, e, c, kill := fourRanks(t)
	bufs := make([][]byte, 3)
	var hs []Handle
	for i, src := range []int{AnySource, 1, AnySource} {
		bufs[i] = make([]byte, 8)
		hs = append(hs, Irecv[Aware](c, bufs[i], src, 5))
	}
	kill(2)
	inDoubt(t, e, hs[0], 2)
	inDoubt(t, e, hs[2], 2)
	require.Equal(t, Pending, e.State(hs[1]))
	late := make([]byte, 8)
	hs, bufs = append(hs, Irecv[Aware](c, late, 1, 5)), append(bufs, late)
	s.inbox = []frame{arrival(5, "a"), arrival(5, "b"), arrival(5, "c"), arrival(5, "d")}
	for i, h := range hs {
		st, err := e.Wait(h)
		require.NoError(t, err, "receive %d", i)
		require.Equal(t, Status{Source: 1, Tag: 5, Count: 1}, st)
		require.Equal(t, string(rune('a'+i)), string(bufs[i][:1]))
	}
	require.Zero(t, e.posted.n)
}

// A receive in doubt may be matched with an announced message whose data come in many frames.
func TestPendingIsStreamedTo(t *testing.T) {
	s, e, c, kill := fourRanks(t)
	buf := make([]byte, 9)
	h := Irecv[Aware](c, buf, AnySource, AnyTag)
	kill(3)
	inDoubt(t, e, h, 3)
	s.inbox = []frame{{fabric.ClassRTS, 9<<32 | 4, appendRTS(nil, rts{sender: 7, total: 9})}}
	_, done, err := e.Test(h)
	require.NoError(t, err)
	require.False(t, done)
	require.Equal(t, Pending, e.State(h))
	kill(2) // it is no wildcard any more
	require.Equal(t, Pending, e.State(h))
	s.inbox = []frame{{fabric.ClassFrag, h.r.wire() + 1, []byte("12345")},
		{fabric.ClassFrag, h.r.wire() + 1, []byte("6789")}}
	st, err := e.Wait(h)
	require.NoError(t, err)
	require.Equal(t, Status{Source: 1, Tag: 4, Count: 9}, st)
	require.Equal(t, "123456789", string(buf))
	require.Zero(t, e.refused)
}

// A receive in doubt can be cancelled, and Close ends it too.
func TestPendingIsCancelled(t *testing.T) {
	s, e, c, kill := fourRanks(t)
	first, second := Irecv[Aware](c, make([]byte, 8), AnySource, 5), Irecv[Aware](c, make([]byte, 8), AnySource, 5)
	third := Irecv[Aware](c, nil, AnySource, 6)
	kill(2)
	inDoubt(t, e, first, 2)
	e.Cancel(first)
	st, err := e.Wait(first)
	require.NoError(t, err)
	require.True(t, st.Cancelled)
	s.inbox = []frame{arrival(5, "x")}
	st, err = e.Wait(second)
	require.NoError(t, err)
	require.Equal(t, 1, st.Count)
	e.Close()
	_, err = e.Wait(third)
	require.ErrorIs(t, err, ft.ErrClosed)
	require.Equal(t, Ended, e.State(third))
}

// With a known failure a wildcard receive starts without an error, takes a message that has
// arrived, and else is in doubt at once.
func TestWildcardStartedAfterAFailure(t *testing.T) {
	s, e, c, kill := fourRanks(t)
	kill(2)
	h := Irecv[Aware](c, make([]byte, 8), AnySource, 5)
	inDoubt(t, e, h, 2)
	s.inbox = []frame{arrival(6, "early")}
	st, err := Recv[Aware](c, make([]byte, 8), AnySource, 6)
	require.NoError(t, err, "the message was there")
	require.Equal(t, 5, st.Count)
	inDoubt(t, e, h, 2)
}

// Blocking calls and probes cannot stay pending: they end with ErrProcFailed and leave nothing
// behind.
func TestBlockingWildcardsEnd(t *testing.T) {
	for name, op := range map[string]func(c *Comm) error{
		"recv":     func(c *Comm) error { _, err := Recv[Aware](c, nil, AnySource, 1); return err },
		"sendrecv": func(c *Comm) error { _, err := Sendrecv[Aware](c, nil, 1, 1, nil, AnySource, 1); return err },
		"probe":    func(c *Comm) error { _, err := Probe[Aware](c, AnySource, 1); return err },
		"mprobe":   func(c *Comm) error { _, err := Mprobe[Aware](c, AnySource, 1); return err },
		"iprobe":   func(c *Comm) error { _, _, err := Iprobe[Aware](c, AnySource, 1); return err },
		"improbe":  func(c *Comm) error { _, _, err := Improbe[Aware](c, AnySource, 1); return err },
		"started probe": func(c *Comm) error {
			_,
				err := c.e.Wait(BeginProbe[Aware](c, AnySource, 1, ForProbe))
			return err
		},
		"started mprobe": func(c *Comm) error {
			_,
				err := c.e.Wait(BeginProbe[Aware](c, AnySource, 1, ForMprobe))
			return err
		},
	} {
		for _, known := range []bool{false, true} {
			s, e, c, kill := fourRanks(t)
			if known {
				kill(2)
			} else {
				s.down = 2 // found by the first poll of the call
			}
			var failed *ft.ProcFailedError
			err := op(c)
			if !known && err == nil {
				err = op(c) // a call that does not wait may poll too late
			}
			require.ErrorAs(t, err, &failed, "%s, known %v", name, known)
			require.ErrorIs(t, err, ft.ErrProcFailed, name)
			require.Equal(t, []int{2}, failed.Ranks, name)
			require.Zero(t, e.posted.n, name)
			require.Nil(t, e.probing.first, name)
		}
	}
}

// A waiting probe of either kind ends when the possible sender fails.
func TestWaitingProbesEnd(t *testing.T) {
	for _, kind := range []Probing{ForProbe, ForMprobe, ForBorrow} {
		_, e, c, kill := fourRanks(t)
		h := BeginProbe[Aware](c, AnySource, 1, kind)
		require.Equal(t, Pending, e.State(h))
		kill(2)
		require.Equal(t, Complete, e.State(h))
		_, err := e.Wait(h)
		require.ErrorIs(t, err, ft.ErrProcFailed)
		require.Nil(t, e.probing.first)
	}
}

// On an intercommunicator only the remote ranks are possible senders; on either side collectives
// need them.
func TestWildcardOfAnIntercommunicator(t *testing.T) {
	s, e, _ := newScripted(t)
	side, err := e.NewComm("side", NewGroup([]proc.ID{0, 5}), 0, 8)
	require.NoError(t, err)
	inter, err := side.Bridge(side.Count(), NewGroup([]proc.ID{6, 1}), 77)
	require.NoError(t, err)
	h := Irecv[Aware](inter, nil, AnySource, 1)
	s.down = 5
	e.poll()
	require.Equal(t, Pending, e.State(h))
	require.Equal(t, Pending, e.State(Irecv[Aware](inter, nil, AnySource, 2)))
	require.ErrorIs(t, inter.CheckMembers(), ft.ErrProcFailed)
	s.down = 6
	e.poll()
	inDoubt(t, e, h, 0)
	require.Equal(t, []proc.ID{5, 6}, inter.Failed())
	n, err := inter.Acknowledge(1)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	inDoubt(t, e, h, 0)
	_, err = inter.Acknowledge(2)
	require.NoError(t, err)
	require.Equal(t, Pending, e.State(h))
	s.down = 1 // no possible sender is left
	e.poll()
	_, err = inter.Acknowledge(3)
	require.NoError(t, err)
	_, err = e.Wait(h)
	require.ErrorIs(t, err, ft.ErrProcFailed)
}

// A failure and its acknowledgement meet a waiting goroutine: in the simulator a lost wake-up is a
// deadlock.
func TestAcknowledgedWhileWaiting(t *testing.T) {
	s, e, c, kill := fourRanks(t)
	h := Irecv[Aware](c, make([]byte, 8), AnySource, 5)
	e.Lock()
	h.r.awaited = true // as by a goroutine that has been woken and has not run yet
	e.Unlock()
	kill(2)
	_, err := c.Acknowledge(1)
	require.NoError(t, err)
	require.False(t, h.r.Done())
	h.r.awaited = false
	s.inbox = []frame{arrival(5, "x")}
	st, err := e.Wait(h)
	require.NoError(t, err)
	require.Equal(t, 1, st.Count)
}
