package tcp

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// tap is an endpoint whose connection to process 1 ends in the test.
type tap struct {
	testing.TB
	*Provider
	conn *Conn
	fd   int // the other end
	sink *collector
}

func newTap(t testing.TB, cfg Config) *tap {
	t.Helper()
	cfg.MaxProcs, cfg.Secret, cfg.Unix = 2, []byte("a secret of the tests"), true
	p, err := Open(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	tp := &tap{TB: t, Provider: p, sink: newCollector(), fd: -1}
	tp.conn = p.newConn(1, &p.self)
	tp.join(0)
	return tp
}

// join gives the connection a new socket. The peer acknowledges that many frames.
func (tp *tap) join(got uint32) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	require.NoError(tp, err)
	if tp.fd >= 0 {
		_ = unix.Close(tp.fd)
	}
	tp.fd = fds[1]
	last := tp.fd
	tp.Cleanup(func() {
		if tp.fd == last {
			_ = unix.Close(last)
		}
	})
	tp.conn.hangUp()
	tp.conn.in.reset()
	tp.conn.adopt(fds[0], path{unix: true, local: true}, &statement{taken: got, outbox: minOutbox})
}

// write makes bytes arrive.
func (tp *tap) write(b []byte) {
	for len(b) > 0 && tp.conn.state == up {
		n, errno := sendBytes(tp.fd, b)
		if errno != 0 {
			n = 0
		}
		b = b[n:]
		tp.conn.receive(&tp.sink.Sink)
	}
}

// read returns the sent bytes.
func (tp *tap) read() (all []byte) {
	b := make([]byte, 64<<10)
	for {
		n, errno := recvBytes(tp.fd, b)
		if n == 0 || errno != 0 {
			return all
		}
		all = append(all, b[:n]...)
	}
}

func wire(h header, payload []byte) []byte {
	b := make([]byte, headerBytes)
	h.length = uint32(len(payload))
	h.put(b)
	return append(b, payload...)
}

// Frames arrive in arbitrary pieces, and over several connections, each of which starts again with
// incomplete frames.
func arrive(t testing.TB, tp *tap, seed uint64, pieces []byte) {
	r := rand.New(rand.NewPCG(seed, 1))
	tp.sink.got = nil
	var frames, stream []byte
	var starts []int
	var want [][]byte
	first := tp.conn.got
	for i := range 12 {
		h := header{kind: kind(fabric.ClassTest), number: first + uint32(i), imm: r.Uint64(), taken: tp.conn.out.first}
		longest := []int{20, minPlaced, window, 2 * window, maxAssembled, maxAssembled + window, maxFrame}[r.IntN(7)]
		if r.IntN(3) == 0 {
			h.flags = flagLent
		}
		payload := noise(seed+uint64(i), 1+r.IntN(longest))
		starts = append(starts, len(frames))
		frames = append(frames, wire(h, payload)...)
		want = append(want, payload)
	}
	tp.sink.Place = func(_ proc.ID, _ fabric.Class, _ uint64, n int) []byte {
		if r.IntN(2) == 0 {
			return nil
		}
		tp.sink.placing = make([]byte, n)
		return tp.sink.placing
	}
	stream = frames
	for i := 0; len(stream) > 0; i++ {
		size := len(stream)
		if len(pieces) > 0 {
			p := pieces[i%len(pieces)]
			size = 1 + int(p)<<(p%13)
		}
		size = min(size, len(stream))
		tp.write(stream[:size])
		stream = stream[size:]
		if len(pieces) > 0 && pieces[i%len(pieces)]%31 == 7 && i < 4*len(pieces) { // the connection breaks
			next := int(tp.conn.got - first)
			tp.join(tp.conn.out.first)
			if next < len(starts) {
				stream = frames[starts[next]:]
			}
		}
	}
	tp.conn.receive(&tp.sink.Sink)
	require.Empty(t, tp.sink.ended)
	require.Equal(t, up, tp.conn.state)
	require.Len(t, tp.sink.got, len(want))
	for i := range want {
		require.True(t, bytes.Equal(want[i], tp.sink.got[i]), "frame %d of %d bytes", i, len(want[i]))
	}
	tp.read()
}

func TestPieces(t *testing.T) {
	seed := seedOf(t)
	r := rand.New(rand.NewPCG(seed, 0))
	tp := newTap(t, Config{})
	for i := range 60 {
		pieces := make([]byte, r.IntN(20))
		for i := range pieces {
			pieces[i] = byte(r.Uint32())
		}
		arrive(t, tp, seed+uint64(i), pieces)
	}
}

// A peer that sends another frame than the one that began on its last connection ends, also if the frame is short.
func TestAnotherFrameAgain(t *testing.T) {
	tp := newTap(t, Config{})
	tp.write(wire(header{kind: kind(fabric.ClassTest)}, noise(1, 2*maxAssembled))[:maxAssembled])
	require.NotNil(t, tp.sink.placing)
	tp.join(0)
	tp.write(wire(header{kind: kind(fabric.ClassTest)}, noise(2, 10)))
	tp.Poll(&tp.sink.Sink)
	require.Equal(t, []proc.Cause{{Kind: proc.Corrupt}}, tp.sink.ended)
}

func FuzzPieces(f *testing.F) {
	f.Add(uint64(1), []byte{23, 24, 25, 0, 7, 255})
	f.Add(uint64(2), []byte{1, 38, 100})
	f.Fuzz(func(t *testing.T, seed uint64, pieces []byte) {
		if len(pieces) > 64 {
			return
		}
		arrive(t, newTap(t, Config{}), seed, pieces)
	})
}

// Any bytes of a peer are frames or end it.
func FuzzStream(f *testing.F) {
	h := header{kind: kind(fabric.ClassTest)}
	f.Add(wire(h, []byte("abc")))
	h.flags = flagLent
	f.Add(wire(h, []byte("abc")))
	f.Add(append(wire(header{kind: kindTaken}, nil), wire(header{kind: kindBye}, nil)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		tp := newTap(t, Config{})
		require.True(t, tp.conn.TrySend(fabric.ClassTest, 1, []byte("one to be taken")))
		tp.write(b)
		tp.Poll(&tp.sink.Sink)
		switch {
		case tp.conn.state == up:
			require.Empty(t, tp.sink.ended)
		default:
			require.Len(t, tp.sink.ended, 1)
			kind := tp.sink.ended[0].Kind
			require.True(t, kind == proc.Corrupt || kind == proc.Departed, "%v", kind)
		}
	})
}

func FuzzHeader(f *testing.F) {
	f.Add(wire(header{kind: kind(fabric.ClassTest), number: 5, taken: 6, imm: 7}, nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < headerBytes {
			return
		}
		h, ok := parseHeader(b)
		if !ok {
			return
		}
		require.LessOrEqual(t, int(h.length), maxLent)
		again := make([]byte, headerBytes)
		h.put(again)
		require.Equal(t, b[:headerBytes], again, "a header has one form")
	})
}

func FuzzHandshake(f *testing.F) {
	a := address{born: 3, net: 4, unix: [unixBytes]byte{1}}
	h := hello{version: handshakeVersion, from: 1, to: 2, toBorn: 3, address: a.encode()}
	f.Add(h.encode())
	c := challenge{version: handshakeVersion}
	f.Add(c.encode())
	s := statement{outbox: minOutbox}
	f.Add(s.seal([]byte("secret"), roleDialler, nil))
	f.Add(a.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, ok := decodeHello(b); ok && h.version == handshakeVersion {
			require.LessOrEqual(t, len(h.address), addressBytes)
			require.Len(t, h.encode(), helloBytes)
		}
		if c, ok := decodeChallenge(b); ok {
			again, ok := decodeChallenge(c.encode())
			require.True(t, ok)
			require.Equal(t, c, again)
		}
		var s statement
		require.False(t, s.open([]byte("another secret"), roleDialler, nil, b), "forged")
		if a, err := decodeAddress(b); err == nil {
			require.Equal(t, b, a.encode(), "an address has one form")
		}
	})
}
