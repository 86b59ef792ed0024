package shm

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// frameCheck checks every payload: reading it must not fault, and it must lie in the slot.
type frameCheck struct {
	t      testing.TB
	slot   []byte
	frames int
	down   []proc.Cause
}

func (w *frameCheck) sink() *fabric.Sink {
	s := new(fabric.Sink)
	base := uintptr(unsafe.Pointer(unsafe.SliceData(w.slot)))
	for c := range s.Deliver {
		s.Deliver[c] = func(_ proc.ID, _ uint64, payload []byte) {
			w.frames++
			at := uintptr(unsafe.Pointer(unsafe.SliceData(payload)))
			if at < base || at+uintptr(len(payload)) > base+uintptr(len(w.slot)) {
				w.t.Fatalf("a payload of %d bytes outside of the slot", len(payload))
			}
		}
	}
	s.Down = func(_ proc.ID, c proc.Cause) { w.down = append(w.down, c) }
	s.Departed = func(proc.ID) {}
	return s
}

// consumerOf is the receiving end of a pair whose memory is its page and the long ring behind it.
func consumerOf(g geometry) (mem []byte, c consumer) {
	mem = make([]byte, pageBytes+g.ringBytes())
	return mem, consumer{ring: shortRing(mem), other: longRing(mem, mem[pageBytes:], g)}
}

// With any bytes in a peer's slot, reading it neither faults nor leaves the slot, and a word
// that no producer writes ends the connection.
func FuzzSlot(f *testing.F) {
	f.Add(uint64(1), []byte{1, 0, 0, 8})
	f.Add(uint64(2), []byte("anything at all, over several lines of the ring and into its bulk part"))
	f.Fuzz(func(t *testing.T, seed uint64, junk []byte) {
		g := geometry{procs: 2, lines: 64, bulk: 2 * narrowBulk}
		slot, c := consumerOf(g)
		w := &frameCheck{t: t, slot: slot}
		s := w.sink()
		r := rand.New(rand.NewPCG(seed, 0))
		for range 50 {
			for i := range junk { // anywhere, but mostly where it is read next
				at := shortAt
				if c.long {
					at = pageBytes
				}
				at += int(c.head&c.mask)*lineBytes + r.IntN(2*lineBytes)
				if r.IntN(4) == 0 {
					at = r.IntN(len(slot))
				}
				slot[at%len(slot)] = junk[i]
			}
			if r.IntN(2) == 0 { // a word that passes for fresh
				word := c.lap(c.head)<<lapShift | r.Uint64N(1<<lapShift)>>r.IntN(40)
				if r.IntN(4) == 0 {
					word = c.lap(c.head)<<lapShift | uint64(classMove)<<classShift | r.Uint64N(4)
				}
				atomic.StoreUint64(&c.line(c.head).word, word)
			}
			c.poll(s, 1, batch)
			c.left = c.left && r.IntN(2) == 0 // the memory has been given back
			c.await(fabric.ClassEager, r.Uint64N(3), make([]byte, r.IntN(100)), 1)
		}
	})
}

func TestCorruptWordsEndTheConnection(t *testing.T) {
	for name, word := range map[string]uint64{
		"a lap from the future": 7 << lapShift,
		"class 0":               1<<lapShift | 5,
		"class out of range":    1<<lapShift | 77<<classShift,
		"too long a frame":      1<<lapShift | 1<<classShift | 1<<31,
		"an unknown goodbye":    1<<lapShift | classBye<<classShift | 2,
		"a move to where it is": 1<<lapShift | classMove<<classShift | moveShort,
		"a short ring is wide":  1<<lapShift | classMove<<classShift | moveWide,
		"a move to nowhere":     1<<lapShift | classMove<<classShift | 3,
	} {
		t.Run(name, func(t *testing.T) {
			a, b, ab, _ := pair(t, Config{})
			w := &frameCheck{t: t, slot: b.own.page(0)}
			s := w.sink()
			require.True(t, ab.TrySend(fabric.ClassTest, 0, nil))
			for w.frames == 0 {
				b.Poll(s)
			}
			ab.out.tail = 0
			atomic.StoreUint64(&ab.out.line(1).word, word)
			for len(w.down) == 0 {
				b.Poll(s)
			}
			require.Equal(t, []proc.Cause{{Kind: proc.Corrupt}}, w.down)
			require.Equal(t, 1, w.frames)
			b.Poll(s)
			require.Len(t, w.down, 1)
			a.Poll(s)
		})
	}
}

// A consumer that claims to have consumed unsent frames is detected when the producer next reads
// its cursors.
func TestCorruptCursorsEndTheConnection(t *testing.T) {
	_, b, ab, ba := pair(t, Config{})
	w := &frameCheck{t: t, slot: b.own.page(0)}
	s := w.sink()
	b.Poll(s)
	atomic.StoreUint64(&ba.out.at.head, 1<<40)
	for ba.TrySend(fabric.ClassTest, 0, nil) && len(w.down) == 0 {
	}
	for len(w.down) == 0 {
		b.Poll(s)
	}
	require.Equal(t, []proc.Cause{{Kind: proc.Corrupt}}, w.down)
	_ = ab
}

// A bit in the bitmap of newcomers without an address in the slot is no knock: no end is reported,
// no memory is taken, and the slot's owner is accepted when it does knock.
func TestStrayKnock(t *testing.T) {
	host, newcomer := open(t, Config{Self: 0, MaxProcs: 2}), open(t, Config{Self: 1, MaxProcs: 2})
	pages := func() int64 {
		var st unix.Stat_t
		require.NoError(t, unix.Fstat(host.own.fd, &st))
		return st.Blocks
	}
	before := pages()
	host.own.knockWord(0).Or(1 << 1)
	host.own.head().knocks.Add(1)
	obs := newObserver()
	for range 3 {
		host.Poll(&obs.Sink)
	}
	require.Empty(t, obs.ends)
	require.Nil(t, host.Lookup(1))
	require.Equal(t, before, pages())

	c, err := newcomer.Dial(fabric.ConnectSpec{Peer: 0, Address: host.Address()})
	require.NoError(t, err)
	require.True(t, c.TrySend(fabric.ClassTest, 5, nil))
	for len(obs.got) == 0 {
		host.Poll(&obs.Sink)
	}
	require.Equal(t, []uint64{5}, obs.got)
	require.Empty(t, obs.ends)
}

// No correct process writes an invalid address into a slot.
func TestCorruptKnock(t *testing.T) {
	host := open(t, Config{Self: 0, MaxProcs: 2})
	entryOf(host.own.page(1)).length = 3
	host.own.knockWord(0).Or(1 << 1)
	host.own.head().knocks.Add(1)
	obs := newObserver()
	for len(obs.ends) == 0 {
		host.Poll(&obs.Sink)
	}
	require.Equal(t, []proc.Cause{{Kind: proc.Corrupt}}, obs.ends)
}

// An owner that does not match its address is refused: a process with a reused pid, a segment of
// another size, one that can be truncated.
func TestForeignSegments(t *testing.T) {
	_, b, _, _ := pair(t, Config{})
	good := b.self
	dial := func(a address) error {
		p, err := Open(Config{Self: 0, MaxProcs: 2})
		require.NoError(t, err)
		defer p.Close()
		_, err = p.Dial(fabric.ConnectSpec{Peer: 1, Address: a.encode()})
		return err
	}
	require.NoError(t, dial(good))

	reused := good
	reused.token[0]++
	require.ErrorIs(t, dial(reused), fabric.ErrPeerGone)

	small := good
	small.lines *= 2
	require.ErrorContains(t, dial(small), "its address says")

	fd, err := unix.MemfdCreate(memfdName, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	require.NoError(t, err)
	defer unix.Close(fd)
	require.NoError(t, unix.Ftruncate(fd, good.segmentBytes()))
	_, err = unix.Pwrite(fd, b.own.header[:headerBytes], 0)
	require.NoError(t, err)
	unsealed := good
	unsealed.fd = uint32(fd)
	require.ErrorContains(t, dial(unsealed), "not sealed")
}

// The descriptor number of a closed endpoint names another file: the endpoint counts as ended, and
// the file is not opened.
func TestReusedDescriptor(t *testing.T) {
	p, err := Open(Config{Self: 1, MaxProcs: 2})
	require.NoError(t, err)
	gone := p.self
	require.NoError(t, p.Close())
	var pipe, socket [2]int
	require.NoError(t, unix.Pipe2(pipe[:], unix.O_CLOEXEC))
	socket, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	null, err := unix.Open("/dev/null", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	file, err := os.CreateTemp(t.TempDir(), "banyan-*")
	require.NoError(t, err)
	short, err := unix.MemfdCreate(memfdName, unix.MFD_CLOEXEC)
	require.NoError(t, err)
	successor, err := Open(Config{Self: 1, MaxProcs: 2, Lines: 64})
	require.NoError(t, err)
	for name, fd := range map[string]int{
		"a pipe": pipe[0], "a socket": socket[0], "a device": null, "a file": int(file.Fd()),
		"another's memfd": short, "the next endpoint": successor.own.fd,
	} {
		t.Run(name, func(t *testing.T) {
			now := gone
			now.fd = uint32(fd)
			_, err := open(t, Config{Self: 0, MaxProcs: 2}).Dial(fabric.ConnectSpec{Peer: 1, Address: now.encode()})
			require.ErrorIs(t, err, fabric.ErrPeerGone)
		})
	}
	require.NoError(t, errors.Join(successor.Close(), file.Close()))
	for _, fd := range []int{pipe[0], pipe[1], socket[0], socket[1], null, short} {
		require.NoError(t, unix.Close(fd))
	}
}

func FuzzAddress(f *testing.F) {
	p, err := Open(Config{MaxProcs: 2})
	require.NoError(f, err)
	f.Add(p.Address())
	f.Add([]byte(nil))
	require.NoError(f, p.Close())
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := decodeAddress(b)
		if err == nil {
			require.Equal(t, b, a.encode())
			require.LessOrEqual(t, a.segmentBytes(), int64(1)<<50)
		}
	})
}

// With any address of a newcomer in its slot, and any values in the words of refusal and state,
// the owner reports that peer's end, or none. Addresses name this process, so that a defect affects
// no others.
func FuzzNewcomer(f *testing.F) {
	p, err := Open(Config{Self: 1, MaxProcs: 2, Lines: 64, BulkBytes: 16 << 10})
	require.NoError(f, err)
	f.Add(p.Address(), uint32(addressBytes), uint32(stateDeparted), uint32(unix.EMFILE), uint64(2))
	f.Add(p.Address(), uint32(3), uint32(stateClosed), uint32(0), ^uint64(0))
	f.Add([]byte("no address"), uint32(addressBytes), uint32(77), ^uint32(0), uint64(2))
	require.NoError(f, p.Close())
	f.Fuzz(func(t *testing.T, b []byte, length, state, refused uint32, knocks uint64) {
		small := Config{Self: 0, MaxProcs: 2, Lines: 64, BulkBytes: 16 << 10}
		host := open(t, small)
		e := entryOf(host.own.page(1))
		copy(e.address[:], b)
		const pidAt = 24
		binary.LittleEndian.PutUint32(e.address[pidAt:], uint32(os.Getpid()))
		e.length = length
		host.own.knockWord(0).Or(knocks)
		host.own.head().knocks.Add(1)
		obs := newObserver()
		for range 3 {
			host.Poll(&obs.Sink)
		}
		require.LessOrEqual(t, len(obs.ends), 1)

		// A newcomer that has no connection back yet.
		owner, newcomer := open(t, small), open(t, Config{Self: 1, MaxProcs: 2, Lines: 64, BulkBytes: 16 << 10})
		c, err := newcomer.Dial(fabric.ConnectSpec{Peer: 0, Address: owner.Address()})
		require.NoError(t, err)
		c.out.cur.refused.Store(refused)
		c.segment.head().state.Store(state)
		c.checkRefusal()
		obs = newObserver()
		for range 3 {
			newcomer.Poll(&obs.Sink)
		}
		for _, end := range obs.ends {
			require.Contains(t, []proc.Kind{proc.Departed, proc.Connection, proc.Unreachable}, end.Kind)
			require.NotEmpty(t, end.String())
		}
	})
}

// scribble writes a value over the word on which process 0 watches the owner of a segment, and
// wakes its waiter, as the kernel does.
func scribble(s *segment, value uint32) {
	word := (*atomic.Uint32)(unsafe.Pointer(s.word(0)))
	word.Store(value)
	const wake = 1
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), wake, 1<<30, 0, 0, 0)
}

// The mark of a death wakes no thread of a process that polls, unless other processes watch the same word.
func TestPollerAsksForNoWakeUp(t *testing.T) {
	withWords(t)
	for procs, alone := range map[int]bool{2: true, maxWords + 1: false} {
		p := open(t, Config{Self: 0, MaxProcs: procs})
		v := spawn(t, role{Self: 1, MaxProcs: procs})
		v.connect(p)
		word := (*atomic.Uint32)(unsafe.Pointer(p.conns[1].segment.word(0)))
		asks := func() bool { return word.Load()>>31 != 0 }
		for !asks() { // the thread has not looked
			runtime.Gosched()
		}
		p.SetPolling(true)
		require.Equal(t, !alone, asks())
		p.SetPolling(false)
		require.True(t, asks())
	}
}
