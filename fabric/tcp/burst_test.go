package tcp

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/flusher"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// stopFlusher leaves the frames of bursts to the calls of the provider.
func stopFlusher(p *Provider) {
	if p.flush == nil {
		p.flush = flusher.New(false, p.flushBurst)
	}
	p.flush.Close()
}

// frames counts the frames of n bytes at the other end of a tap.
func (tp *tap) frames(n int) int {
	b := tp.read()
	require.Zero(tp, len(b)%(headerBytes+n), "a part of a frame")
	return len(b) / (headerBytes + n)
}

// The first frame of a burst goes out at once, the others with each call that ends it, or when there
// are enough of them.
func TestBurst(t *testing.T) {
	const n, size = 20, 16
	var none fabric.Sink
	for name, end := range map[string]func(tp *tap, other *Conn){
		"poll":       func(tp *tap, _ *Conn) { tp.Poll(&none) },
		"sleep":      func(tp *tap, _ *Conn) { tp.Ready() },
		"await":      func(tp *tap, _ *Conn) { tp.conn.Await(fabric.ClassTest, 0, nil, 1) },
		"elsewhere":  func(_ *tap, other *Conn) { other.TrySend(fabric.ClassTest, 0, nil) },
		"long":       func(tp *tap, _ *Conn) { tp.conn.TrySend(fabric.ClassTest, 0, make([]byte, burstFrame)) },
		"loan":       func(tp *tap, _ *Conn) { tp.conn.TryLend(fabric.ClassTest, 0, make([]byte, size)) },
		"invalidate": func(_ *tap, other *Conn) { other.Invalidate() },
		"unsent":     func(tp *tap, _ *Conn) { require.False(tp, tp.conn.Unsent()) },
		"depart":     func(tp *tap, _ *Conn) { tp.Depart() },
	} {
		t.Run(name, func(t *testing.T) {
			tp := newTap(t, Config{Linger: time.Millisecond})
			stopFlusher(tp.Provider)
			other := tp.newConn(0, &tp.self)
			tp.Poll(&none)
			for range n {
				require.True(t, tp.conn.TrySend(fabric.ClassTest, 0, make([]byte, size)))
			}
			require.Equal(t, 1, tp.frames(size), "only the first is written at once")
			end(tp, other)
			b := tp.read()
			require.GreaterOrEqual(t, len(b), (n-1)*(headerBytes+size))
			require.Nil(t, tp.corked)
		})
	}
	tp := newTap(t, Config{})
	stopFlusher(tp.Provider)
	for range 1 + burstBytes/(headerBytes+size) {
		require.True(t, tp.conn.TrySend(fabric.ClassTest, 0, make([]byte, size)))
	}
	require.Equal(t, 1, tp.frames(size))
	require.True(t, tp.conn.TrySend(fabric.ClassTest, 0, make([]byte, size)))
	require.Equal(t, 1+burstBytes/(headerBytes+size), tp.frames(size), "as many as fit")
}

// The frames of a burst reach the peer although their sender computes.
func TestBurstOfAComputingProcess(t *testing.T) {
	p, c := pair(t, Config{Inet: true})
	s := newCollector()
	for i := range 100 {
		const n = 5
		for k := range n {
			require.True(t, c[0].TrySend(fabric.ClassTest, uint64(k), []byte{byte(i), byte(k)}))
		}
		for len(s.got) < n*(i+1) {
			p[1].Poll(&s.Sink)
		}
		require.Equal(t, []byte{byte(i), n - 1}, s.got[len(s.got)-1])
	}
}

// Answers that are sent in one Poll go out together, at its end.
func TestAnswersGoOutTogether(t *testing.T) {
	const n = 10
	tp := newTap(t, Config{})
	stopFlusher(tp.Provider)
	tp.sink.Deliver[fabric.ClassTest] = func(proc.ID, uint64, []byte) {
		require.True(t, tp.conn.TrySend(fabric.ClassTest, 0, make([]byte, 8)))
	}
	var all []byte
	for i := range n {
		all = append(all, wire(header{kind: kind(fabric.ClassTest), number: uint32(i)}, nil)...)
	}
	sent, errno := sendBytes(tp.fd, all)
	require.Zero(t, errno)
	require.Equal(t, len(all), sent)
	for tp.conn.got < n {
		tp.Poll(&tp.sink.Sink)
	}
	require.Equal(t, n, tp.frames(8))
	require.Nil(t, tp.corked)
}

// An acknowledgement that falls due while answers wait for the end of Poll follows them, also if another connection is
// the recent one by then.
func TestAckAfterAnswers(t *testing.T) {
	tp := newTap(t, Config{})
	stopFlusher(tp.Provider)
	tp.sink.Deliver[fabric.ClassTest] = func(_ proc.ID, imm uint64, _ []byte) {
		require.True(t, imm != 0 || tp.conn.TrySend(fabric.ClassTest, 0, nil))
	}
	h := header{kind: kind(fabric.ClassTest)}
	all := wire(h, nil)
	h.number = 1
	all = append(all, wire(h, nil)...)
	h.number, h.imm, h.flags = 2, 1, flagLent
	all = append(all, wire(h, []byte("a loan"))...)
	sent, errno := sendBytes(tp.fd, all)
	require.Zero(t, errno)
	require.Equal(t, len(all), sent)
	for tp.conn.got < 3 {
		tp.Poll(&tp.sink.Sink)
		tp.recent = nil
	}
	for range recentPolls + stride { // until it has looked at everything
		tp.Poll(&tp.sink.Sink)
	}
	tp.taken(3)
}

func TestBurstDoesNotAllocate(t *testing.T) {
	tp := newTap(t, Config{})
	payload, into := make([]byte, 64), make([]byte, 64<<10)
	burst := func() {
		for range 64 {
			tp.conn.TrySend(fabric.ClassTest, 0, payload)
		}
		tp.endBurst()
		_, _ = recvBytes(tp.fd, into)
		tp.conn.out.taken(tp.conn.out.next)
	}
	burst()
	require.Zero(t, testing.AllocsPerRun(100, burst))
}
