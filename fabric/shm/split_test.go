package shm

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
)

// splitting is a pair of which a receives into its block, and b sends from one of its own; or from and to other memory.
type splitting struct {
	ab, ba   *Conn
	to, from []byte
	remote   fabric.Region // from
}

func newSplitting(t testing.TB, n int, blocks bool) *splitting {
	a, b, ab, ba := pair(t, Config{})
	for _, c := range []*Conn{ab, ba} { // both find the connection
		require.True(t, c.TrySend(fabric.ClassTest, 1, nil))
	}
	a.Poll(new(fabric.Sink))
	b.Poll(new(fabric.Sink))
	s := &splitting{ab: ab, ba: ba}
	s.to, s.from = make([]byte, n), make([]byte, n)
	var err error
	if blocks {
		s.to, _, err = a.MakeBlock(n)
		require.NoError(t, err)
		s.from, _, err = b.MakeBlock(n)
		require.NoError(t, err)
	}
	for i := range s.from {
		s.from[i] = byte(i%251 + 1)
	}
	s.remote, err = ba.Expose(s.from)
	require.NoError(t, err)
	return s
}

// Both copy, and each byte arrives, whatever the length and whichever is faster.
func TestBothCopyALongMessage(t *testing.T) {
	const most = 4<<20 + 5
	t.Run("blocks", func(t *testing.T) {
		bothCopy(t, newSplitting(t, most, true), leastSplit, leastSplit+1, 300_001, 1<<20, most)
	})
	t.Run("other memory", func(t *testing.T) {
		bothCopy(t, newSplitting(t, most, false), leastKernelSplit, leastKernelSplit+1, 1<<20, most)
	})
}

func bothCopy(t *testing.T, s *splitting, lengths ...int) {
	helped := 0
	var awaited atomic.Bool
	for _, n := range lengths {
		for range 20 {
			clear(s.to)
			to, message, ok := s.ab.Offer(s.to[:n])
			require.True(t, ok)
			_, _, twice := s.ab.Offer(s.to[:n])
			require.False(t, twice, "one at a time")
			done := make(chan uint32)
			go func() {
				parts, more, waits := s.ba.Help(s.from[:n], to, message, 0)
				for more {
					parts, more, waits = s.ba.Help(s.from[:n], to, message, parts)
				}
				awaited.Store(waits)
				done <- parts
			}()
			theirs, err := s.ab.GetOffered(s.to[:n], s.remote)
			require.NoError(t, err)
			parts := <-done
			require.Equal(t, awaited.Load(), theirs, "the sender tells a receiver that waits")
			require.Equal(t, s.from[:n], s.to[:n])
			require.False(t, s.ab.Writes())
			require.True(t, s.ab.EndOffer())
			if parts > 0 {
				helped++
			}
		}
	}
	t.Logf("the sender has helped with %d of %d messages", helped, 20*len(lengths))
}

// A receiver learns that the kernel has not let the sender copy its part, and does without from then on.
func TestRefusedHelp(t *testing.T) {
	s := newSplitting(t, 1<<20, false)
	to, message, ok := s.ab.Offer(s.to)
	require.True(t, ok)
	to.Addr = 1 << 12 // nothing is there
	parts, more, _ := s.ba.Help(s.from, to, message, 0)
	require.Equal(t, []any{uint32(1), false}, []any{parts, more})
	theirs, err := s.ab.GetOffered(s.to, s.remote)
	require.NoError(t, err)
	require.False(t, theirs)
	require.False(t, s.ab.EndOffer())
	_, _, ok = s.ab.Offer(s.to)
	require.False(t, ok)
}

// A receiver whose sender ends in the middle of a part waits for the end of that.
func TestPartUnderWay(t *testing.T) {
	s := newSplitting(t, 1<<20, false)
	_, message, ok := s.ab.Offer(s.to)
	require.True(t, ok)
	sender := newSplit(s.ba.theirs.claims, message, len(s.from), longKernelPart)
	require.True(t, sender.claim(0))
	theirs, err := s.ab.GetOffered(s.to, s.remote)
	require.NoError(t, err)
	require.True(t, theirs)
	require.True(t, s.ab.Writes())
	require.True(t, sender.finish(nil))
	require.False(t, s.ab.Writes())
}

// What the sender has claimed is its own, and the receiver copies the rest.
func TestPartsOfTheSender(t *testing.T) {
	const n = 1 << 20
	s := newSplitting(t, n, true)
	to, message, ok := s.ab.Offer(s.to)
	require.True(t, ok)
	parts, more, _ := s.ba.Help(s.from, to, message, 0)
	require.EqualValues(t, helpAtOnce/longPart, parts)
	require.True(t, more)
	at := n - helpAtOnce
	require.Equal(t, s.from[at:], s.to[at:])
	require.Equal(t, make([]byte, at), s.to[:at])
	clear(s.to[at:])
	theirs, err := s.ab.GetOffered(s.to, s.remote)
	require.NoError(t, err)
	require.False(t, theirs, "they are complete")
	require.Equal(t, s.from[:at], s.to[:at])
	require.Equal(t, make([]byte, n-at), s.to[at:], "the receiver leaves them alone")
}

// A sender that comes late changes nothing, also while the next message is offered.
func TestLateHelp(t *testing.T) {
	s := newSplitting(t, leastSplit, true)
	to, message, ok := s.ab.Offer(s.to)
	require.True(t, ok)
	theirs, err := s.ab.GetOffered(s.to, s.remote)
	require.NoError(t, err)
	require.False(t, theirs)
	clear(s.to)
	parts, more, _ := s.ba.Help(s.from, to, message, 0)
	require.Equal(t, []any{uint32(0), false}, []any{parts, more})
	s.ab.EndOffer()
	_, next, ok := s.ab.Offer(s.to)
	require.True(t, ok)
	parts, _, _ = s.ba.Help(s.from, to, message, 0)
	require.Zero(t, parts)
	require.Equal(t, make([]byte, leastSplit), s.to)
	parts, _, _ = s.ba.Help(s.from, to, next, 0)
	require.NotZero(t, parts)
}

// Nothing is offered that is short or in no block, and no help goes to memory that is not the peer's.
func TestNoHelp(t *testing.T) {
	const n = leastSplit
	s := newSplitting(t, n, true)
	for _, b := range [][]byte{s.to[:n-1], make([]byte, n)} {
		_, _, ok := s.ab.Offer(b)
		require.False(t, ok)
	}
	to, message, ok := s.ab.Offer(s.to)
	require.True(t, ok)
	beyond, unknown, longer := to, to, to
	beyond.Addr += 4096
	unknown.Key = make([]byte, len(to.Key))
	longer.Len++
	for _, r := range []fabric.Region{beyond, unknown, longer} {
		parts, more, _ := s.ba.Help(s.from, r, message, 0)
		require.Equal(t, []any{uint32(0), false}, []any{parts, more})
	}
	s.ba.gone.Store(true)
	parts, _, _ := s.ba.Help(s.from, to, message, 0)
	require.Zero(t, parts, "the peer is dead")
	s.ba.gone.Store(false)

	wrong := s.remote
	wrong.Len = 1
	theirs, err := s.ab.GetOffered(s.to, wrong)
	require.Error(t, err)
	require.False(t, theirs)
	parts, _, _ = s.ba.Help(s.from, to, message, 0)
	require.Zero(t, parts, "the receiver has given up")
}

// Blocks that were written to leave nothing behind.
func TestHelpLeavesNothing(t *testing.T) {
	s := newSplitting(t, leastSplit, true)
	_, before := used(t)
	to, message, ok := s.ab.Offer(s.to)
	require.True(t, ok)
	parts, _, _ := s.ba.Help(s.from, to, message, 0)
	require.NotZero(t, parts)
	_, after := used(t)
	require.Equal(t, before+2, after, "to read and to write")
	require.NoError(t, s.ba.theirs.close())
	_, after = used(t)
	require.Equal(t, before, after)
	s.ab.EndOffer()
	_, message, _ = s.ab.Offer(s.to)
	parts, _, _ = s.ba.Help(s.from, to, message, 0)
	require.Zero(t, parts)
}

// With any place from a peer, this process writes into the peer's block, or nowhere; with any word of claims the receiver
// comes to an end.
func FuzzHelp(f *testing.F) {
	const n = leastSplit
	s := newSplitting(f, n+10_000, true)
	to, _, ok := s.ab.Offer(s.to[:n])
	require.True(f, ok)
	s.ab.EndOffer()
	f.Add(to.Key, uint64(9999), uint32(0), uint64(0))
	f.Add(to.Key, ^uint64(0), uint32(1), ^uint64(0))
	f.Add([]byte("key"), uint64(0), ^uint32(0), uint64(helpFailed))
	f.Add(to.Key, uint64(0), ^uint32(0), uint64(3<<finishedAt|5))
	f.Fuzz(func(t *testing.T, key []byte, at uint64, mine uint32, claims uint64) {
		if len(key) == 0 { // the kernel would write to memory of the peer, which is this process here
			return
		}
		_, message, ok := s.ab.Offer(s.to[:n])
		require.True(t, ok)
		parts, _, _ := s.ba.Help(s.from[:n], fabric.Region{Addr: at, Len: n, Key: key}, message, mine)
		if parts != mine {
			require.LessOrEqual(t, at, uint64(12_288), "the rest of its pages")
		}
		s.ab.offered.claims.Add(claims)
		_, err := s.ab.GetOffered(s.to[:n], s.remote)
		require.NoError(t, err)
		s.ab.Writes()
		s.ab.EndOffer()
	})
}
