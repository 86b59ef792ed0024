package shm

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// taken is the memory of a segment in bytes.
func taken(t *testing.T, p *Provider) int64 {
	var st unix.Stat_t
	require.NoError(t, unix.Fstat(p.own.fd, &st))
	return st.Blocks * 512
}

// numbered sends numbered frames of any size and checks at the other end that they arrive once, in
// order and complete.
type numbered struct {
	t         *testing.T
	c         *Conn
	to        *Provider
	sink      fabric.Sink
	sent, got uint64
}

func newNumbered(t *testing.T, c *Conn, to *Provider) *numbered {
	n := &numbered{t: t, c: c, to: to}
	n.sink.Deliver[fabric.ClassTest] = func(_ proc.ID, imm uint64, b []byte) {
		require.Equal(t, n.got, imm)
		if len(b) > 8 {
			require.Equal(t, n.got, binary.LittleEndian.Uint64(b))
			require.Equal(t, len(b)-8, bytes.Count(b[8:], []byte{byte(n.got)}))
		}
		n.got++
	}
	n.sink.Down = func(id proc.ID, cause proc.Cause) { t.Fatalf("%v: %v", id, cause) }
	return n
}

func (n *numbered) try(size int) bool {
	b := make([]byte, size)
	if size > 8 {
		for i := range b {
			b[i] = byte(n.sent)
		}
		binary.LittleEndian.PutUint64(b, n.sent)
	}
	if !n.c.TrySend(fabric.ClassTest, n.sent, b) {
		return false
	}
	n.sent++
	return true
}

func (n *numbered) send(size int) {
	for !n.try(size) {
		n.to.Poll(&n.sink)
	}
}

func (n *numbered) drain() {
	for n.got < n.sent {
		n.to.Poll(&n.sink)
	}
}

// A pair that has connected takes a page at each side. A frame that does not fit the short ring, a
// burst that fills it, and many frames earn the long ring, and nothing else does.
func TestEarningTheLongRing(t *testing.T) {
	for name, send := range map[string]func(n *numbered){
		"a large frame": func(n *numbered) { n.send(shortFrame + 1) },
		"a burst": func(n *numbered) {
			for range shortLines {
				n.send(0)
			}
		},
		"many frames": func(n *numbered) {
			for range earnFrames + 1 {
				n.send(9)
				n.drain()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, b, ab, _ := pair(t, Config{})
			n := newNumbered(t, ab, b)
			n.send(shortFrame)
			n.drain()
			before := taken(t, b)
			require.LessOrEqual(t, before, int64(headerBytes)+b.own.knockBytes()+pageBytes)
			require.False(t, ab.out.long)
			send(n)
			require.True(t, ab.out.long)
			require.Greater(t, taken(t, b), before)
			require.LessOrEqual(t, taken(t, b), before+linesPiece+bulkPiece)
			n.drain()
			require.True(t, b.conns[0].in.long)
			require.Equal(t, n.sent, ab.Traffic().Sent)
			require.Equal(t, n.sent, b.conns[0].Received())
		})
	}
}

// Frames arrive once, in order and whole while the pair goes to the long ring and back, and while this becomes wide, at
// any moment.
func TestGivingTheLongRingBack(t *testing.T) {
	for _, bulk := range []int{narrowBulk / 2, 2 * narrowBulk, 8 * narrowBulk} {
		for _, lines := range []int{64, 512} {
			t.Run(fmt.Sprint(lines, bulk), func(t *testing.T) { testGivingBack(t, lines, bulk) })
		}
	}
}

func testGivingBack(t *testing.T, lines, bulk int) {
	a, b, ab, _ := pair(t, Config{Lines: lines, BulkBytes: bulk})
	n := newNumbered(t, ab, b)
	rng := rand.New(rand.NewPCG(1, 2))
	before, times, widened := int64(0), 0, 0
	for range 20_000 {
		narrow := ab.out.long && !ab.out.wide()
		switch rng.IntN(20) {
		case 0:
			n.send(rng.IntN(ab.maxFrame + 1))
		case 1:
			if ab.out.long && ab.shorten() {
				times++
			}
		case 2:
			ab.lengthen(true)
		case 3:
			n.drain()
		case 4, 5, 6:
			n.send(rng.IntN(min(ab.maxFrame, maxFrame(narrowBulk)) / 2))
		case 7:
			for n.try(rng.IntN(shortFrame + 1)) { // until there is no credit
			}
		default:
			n.send(rng.IntN(shortFrame + 1))
		}
		if narrow && ab.out.long && ab.out.wide() && n.sent > n.got+1 {
			widened++
		}
		require.False(t, ab.out.corrupt)
		o := &ab.out
		require.True(t, !o.long || o.tail < o.backed || o.backed > o.mask, "the consumer looks at line %d of %d", o.tail, o.backed)
		require.Equal(t, n.sent, ab.Traffic().Sent)
	}
	n.drain()
	require.Equal(t, n.sent, b.conns[0].Received())
	require.Greater(t, times, 100)
	if bulk > narrowBulk {
		require.Greater(t, widened, 100, "with frames on the way")
	}
	for ab.out.long && !ab.shorten() {
		n.drain()
	}
	for b.conns[0].in.long || ab.ring.left != ab.out.cur.returned.Load() {
		b.Poll(&n.sink)
	}
	before = taken(t, b)
	require.LessOrEqual(t, before, int64(headerBytes)+b.own.knockBytes()+pageBytes)
	require.Empty(t, a.long)
}

// The memory of a ring that a process left directly before it died goes back too.
func TestRingLeftBeforeADeath(t *testing.T) {
	_, b, ab, _ := pair(t, Config{})
	n := newNumbered(t, ab, b)
	n.send(shortFrame)
	n.drain()
	before := taken(t, b)
	n.send(shortFrame + 1)
	n.drain()
	require.True(t, ab.shorten())
	down := false
	n.sink.Down = func(proc.ID, proc.Cause) { down = true }
	b.conns[0].gone.Store(true)
	for b.inbound = nil; !down; { // that the ring has been left is not seen before the death
		b.requestReap()
		b.Poll(&n.sink)
	}
	b.Poll(&n.sink)
	require.LessOrEqual(t, taken(t, b), before)
}

// A ring becomes wide when there is a line for that, which leaves the frame another one with memory behind it. Without a
// line nothing is sent: the consumer may return credit a moment later, and a narrow ring does not hold the frame.
func TestLinesOfAWideRing(t *testing.T) {
	_, b, ab, _ := pair(t, Config{Lines: 512, BulkBytes: 2 * narrowBulk})
	n, o := newNumbered(t, ab, b), &ab.out
	n.send(shortFrame + 1)
	for o.tail < o.stop-1 {
		n.send(0)
		n.drain()
	}
	require.False(t, o.wide())
	n.send(ab.maxFrame)
	require.True(t, o.wide())
	require.Less(t, o.tail, o.backed)
	n.drain()

	for !ab.shorten() {
		n.drain()
	}
	n.drain()
	n.send(shortFrame + 1)
	for n.try(0) {
	}
	require.False(t, o.wide())
	require.False(t, ab.earn(ab.maxFrame))
	require.False(t, n.try(ab.maxFrame))
	n.drain()
	n.send(ab.maxFrame)
	n.drain()
}

// A process keeps within its share: it announces frames that do not fit a short ring, unless they
// cannot be sent otherwise, and gives the ring of an idle pair to a busy one.
func TestShareOfLongRings(t *testing.T) {
	cfg := Config{MaxProcs: 4, Lines: 64, BulkBytes: 16 << 10}
	a := open(t, cfg)
	a.share = linesPiece + bulkPiece
	var conns []*Conn
	var ends []*numbered
	for id := 1; id < 4; id++ {
		cfg.Self = proc.ID(id)
		b := open(t, cfg)
		c, err := a.Dial(fabric.ConnectSpec{Peer: cfg.Self, Address: b.Address()})
		require.NoError(t, err)
		conns, ends = append(conns, c), append(ends, newNumbered(t, c, b))
	}
	require.True(t, conns[0].Caps().Get, "this machine must allow process_vm_readv")
	for range earnLong { // few long messages take no memory
		require.False(t, conns[0].Eager(1000))
	}
	require.Zero(t, a.spent)
	require.True(t, conns[0].Eager(1000))
	for range earnLong + 1 {
		require.False(t, conns[1].Eager(1000))
	}
	require.True(t, conns[1].Eager(shortFrame))
	for range 10 * earnFrames {
		ends[1].send(8)
	}
	require.False(t, conns[1].out.long)
	ends[1].drain()
	ends[2].send(1000) // TrySend has no other way
	require.True(t, conns[2].out.long)
	ends[2].drain()

	for _, c := range conns { // all of them have been idle since the last visit
		c.ring.visited, c.ring.visitedAt = c.out.sent(), time.Now().Add(-2*idleTime)
	}
	require.True(t, conns[1].lengthen(false))
	require.Len(t, a.long, 2)
	for i, n := range ends {
		n.send(50 + i)
		n.drain()
	}
}

// fill takes all memory of a tmpfs and returns a function that frees it.
func fill(t *testing.T, dir string) (empty func()) {
	f, err := os.CreateTemp(dir, "fill")
	require.NoError(t, err)
	at := int64(0)
	for size := int64(1 << 20); size >= pageBytes; size /= 2 {
		for unix.Fallocate(int(f.Fd()), 0, at, size) == nil {
			at += size
		}
	}
	require.NoError(t, os.Remove(f.Name()))
	return func() { require.NoError(t, f.Close()) }
}

// Without memory for the long ring a frame is refused. It is sent once there is memory; after the
// patience of half-open pairs both sides report the end.
func TestNoMemoryForTheLongRing(t *testing.T) {
	dir, ok := mountTmpfs(t, "1m")
	if !ok {
		t.Log("mounting is not permitted: nothing is tested")
		return
	}
	a, b, ab, _ := pair(t, Config{Dir: dir})
	a.retry.firstPause, a.retry.patience = time.Millisecond, time.Hour
	n := newNumbered(t, ab, b)
	empty := fill(t, dir)
	require.False(t, n.try(1000))
	require.False(t, n.try(1000))
	empty()
	for !n.try(1000) {
		a.Poll(&n.sink)
	}
	n.drain()

	empty = fill(t, dir)
	defer empty()
	for n.try(1000) { // the present memory
		n.drain()
	}
	a.retry.patience = 0
	obs := newObserver()
	for len(obs.ends) == 0 {
		a.Poll(&obs.Sink)
	}
	require.Equal(t, proc.Unreachable, obs.ends[0].Kind)
	obs = newObserver()
	for len(obs.ends) == 0 {
		b.Poll(&obs.Sink)
	}
	require.Equal(t, proc.Connection, obs.ends[0].Kind)
}
