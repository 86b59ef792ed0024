package tcp

import (
	"crypto/rand"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// castle is an endpoint that others try to get into. It is process 0 of 4.
type castle struct {
	*testing.T
	*Provider
	sink *collector
	log  []string
}

var secret = []byte("the secret of the castle")

func newCastle(t *testing.T, cfg Config) *castle {
	t.Helper()
	c := &castle{T: t, sink: newCollector()}
	cfg.MaxProcs, cfg.Secret = 4, secret
	cfg.Inet, cfg.Networks = true, []string{"127.0.0.0/8"}
	cfg.Logf = func(format string, args ...any) { c.log = append(c.log, fmt.Sprintf(format, args...)) }
	p, err := Open(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	c.Provider = p
	return c
}

// watch polls until cond holds.
func (c *castle) watch(cond func() bool) {
	c.Helper()
	for begun := time.Now(); !cond(); {
		if c.Poll(&c.sink.Sink) == 0 {
			rest(c.Provider)
		}
		require.Less(c, time.Since(begun), stall, "nothing happens any more: %+v %v %v", c.Stats(), c.sink.ended, c.log)
	}
}

// intruder is a socket that is connected to a castle.
type intruder struct {
	exchange
	*castle
	closed bool
}

func (c *castle) approach() *intruder {
	c.Helper()
	domain, sa := sockaddr(c.self.addrs[0])
	fd, err := connectTo(domain, sa)
	require.NoError(c, err)
	in := &intruder{castle: c, exchange: exchange{fd: fd}}
	c.Cleanup(in.leave)
	return in
}

// hail dials p, says hello and hears the challenge, for which wait polls.
func hail(t *testing.T, p *Provider, h hello, wait func(cond func() bool)) exchange {
	t.Helper()
	domain, sa := sockaddr(p.self.addrs[0])
	fd, err := connectTo(domain, sa)
	require.NoError(t, err)
	tk := exchange{fd: fd}
	b := h.encode()
	require.NoError(t, tk.writeMessage(b))
	tk.record(b)
	var ch []byte
	wait(func() bool { ch, err = tk.readMessage(challengeBytes); return ch != nil || err != nil })
	require.NoError(t, err)
	tk.record(ch)
	return tk
}

// challenged is process 1 where its proof is due.
func (c *castle) challenged() *intruder {
	c.Helper()
	in := &intruder{castle: c}
	in.exchange = hail(c.T, c.Provider, in.greeting(), c.watch)
	c.Cleanup(in.leave)
	return in
}

func (in *intruder) leave() {
	if !in.closed {
		in.closed = true
		_ = unix.Close(in.fd)
	}
}

// send writes as far as the castle lets it.
func (in *intruder) send(b []byte) {
	for len(b) > 0 {
		n, errno := sendBytes(in.fd, b)
		if errno == unix.EAGAIN || errno == unix.ENOTCONN {
			in.Poll(&in.sink.Sink)
			n = 0
		} else if errno != 0 {
			return
		}
		b = b[n:]
	}
}

// reply waits for n bytes; nil: the castle has hung up.
func (in *intruder) reply(n int) (b []byte) {
	in.Helper()
	var err error
	in.watch(func() bool { b, err = in.readMessage(n); return b != nil || err != nil })
	return append([]byte(nil), b...)
}

// shownOut waits until the castle has hung up, and nothing more came.
func (in *intruder) shownOut() {
	in.Helper()
	require.Empty(in, in.reply(1), "the castle says more")
}

// claim is how somebody dials, and what may be wrong with it.
type claim struct {
	hello  func(h *hello)
	state  func(s *statement)
	secret []byte
	role   string
}

// greeting is the hello of process 1.
func (in *intruder) greeting() (h hello) {
	h = hello{version: handshakeVersion, from: 1, to: 0, toBorn: in.self.born}
	a := address{born: 77, net: in.self.net, addrs: []netip.AddrPort{closedPort(in.T)}}
	h.address = a.encode()
	_, _ = rand.Read(h.nonce[:])
	return h
}

// enter shakes hands as process 1; false: the castle hung up.
func (in *intruder) enter(k claim) (s statement, ok bool) {
	in.Helper()
	h := in.greeting()
	if k.hello != nil {
		k.hello(&h)
	}
	return in.enterAs(h, k)
}

// enterAs is enter with a hello that is there already.
func (in *intruder) enterAs(h hello, k claim) (s statement, ok bool) {
	in.Helper()
	if k.secret == nil {
		k.secret = secret
	}
	if k.role == "" {
		k.role = roleDialler
	}
	in.tell(h.encode())
	b := in.reply(challengeBytes)
	if len(b) == 0 {
		return s, false
	}
	ch, ok := decodeChallenge(b)
	require.True(in, ok)
	require.Equal(in, uint32(handshakeVersion), ch.version)
	in.record(b)
	mine := statement{outbox: minOutbox}
	if k.state != nil {
		k.state(&mine)
	}
	in.tell(mine.seal(k.secret, k.role, in.transcript))
	if b = in.reply(verdictBytes); len(b) == 0 {
		return s, false
	}
	require.True(in, s.open(secret, roleAcceptor, in.transcript, b), "the castle cannot prove that it knows the secret")
	return s, true
}

// tell sends a part of a handshake.
func (in *intruder) tell(b []byte) {
	in.record(b)
	in.send(b)
}

// closedPort is one on which nobody listens.
func closedPort(t *testing.T) netip.AddrPort {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	require.NoError(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	name, err := unix.Getsockname(fd)
	require.NoError(t, err)
	return addrPort(name)
}

// unharmed checks that nobody was let in or reported, and that a peer can still enter.
func (c *castle) unharmed() {
	c.Helper()
	require.Empty(c, c.sink.ended)
	require.Empty(c, c.sink.got)
	require.Zero(c, c.Stats().Accepted)
	s, ok := c.approach().enter(claim{})
	require.True(c, ok)
	require.Equal(c, accepted, s.outcome)
	require.Equal(c, uint64(1), c.Stats().Accepted)
}

// once more is said of each kind than the first.
func (c *castle) logged(part string) {
	c.Helper()
	n := 0
	for _, line := range c.log {
		if strings.Contains(line, part) {
			n++
		}
	}
	require.Equal(c, 1, n, "%q in %q", part, c.log)
}

var hello0 = hello{version: handshakeVersion, from: 1}

func TestStrangers(t *testing.T) {
	tls := append([]byte{0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3}, noise(1, 600)...)
	for name, say := range map[string][]byte{
		"http":  append([]byte("GET / HTTP/1.1\r\nHost: here\r\nUser-Agent: one that is long enough\r\n"), noise(2, 400)...),
		"tls":   tls,
		"noise": noise(3, 4096),
		"zeros": make([]byte, 4096),
		"long address": func() []byte {
			b := hello0.encode()
			b[20], b[21] = 0xff, 0xff
			return b
		}(),
	} {
		t.Run(name, func(t *testing.T) {
			leavesNothing(t)
			c := newCastle(t, Config{})
			for i := range 3 {
				in := c.approach()
				in.send(say)
				in.shownOut()
				require.Equal(t, uint64(i+1), c.Stats().NotPeer)
			}
			c.logged("no peer")
			require.Equal(t, uint64(3), c.Stats().Refused())
			c.unharmed()
		})
	}
	t.Run("closed at once", func(t *testing.T) {
		leavesNothing(t)
		c := newCastle(t, Config{})
		for range 3 {
			in := c.approach()
			in.send([]byte("B"))
			in.leave()
		}
		c.watch(func() bool { return c.Stats().NotPeer == 3 })
		require.Empty(t, c.handshakes)
		c.unharmed()
	})
}

// Who says nothing, or too little too slowly, is let go after a time; meanwhile
// others enter.
func TestDawdlers(t *testing.T) {
	t.Parallel()
	c := newCastle(t, Config{})
	silent, slow, half := c.approach(), c.approach(), c.approach()
	half.send(hello0.encode())
	require.Len(t, half.reply(challengeBytes), challengeBytes)
	drop := hello0.encode()
	sent := 0
	c.watch(func() bool {
		if sent < len(drop)-1 {
			slow.send(drop[sent : sent+1])
			sent++
		}
		return c.Stats().TimedOut == 3
	})
	for _, in := range []*intruder{silent, slow, half} {
		in.shownOut()
	}
	c.logged("not ended its handshake")
	c.unharmed()
}

// A crowd keeps nobody out who can prove who it is, and costs a bounded number of
// descriptors.
func TestCrowd(t *testing.T) {
	leavesNothing(t)
	c := newCastle(t, Config{})
	for range maxHandshakes + 20 {
		c.approach()
		c.Poll(&c.sink.Sink)
	}
	c.watch(func() bool { return c.Stats().Evicted >= 20 })
	require.Len(t, c.handshakes, maxHandshakes)
	c.unharmed()
}

func TestForgers(t *testing.T) {
	for name, k := range map[string]claim{
		"secret":    {secret: []byte("another secret, as long")},
		"role":      {role: roleAcceptor}, // what it could have from this process
		"no outbox": {state: func(s *statement) { s.outbox = 0 }},
		"outcome":   {state: func(s *statement) { s.outcome = 9 }},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCastle(t, Config{})
			for i := range 3 {
				_, ok := c.approach().enter(k)
				require.False(t, ok)
				require.Equal(t, uint64(i+1), c.Stats().Unauthenticated)
			}
			c.logged("does not know the job's secret")
			c.unharmed()
		})
	}
}

// What was a good handshake once is none again.
func TestReplay(t *testing.T) {
	c := newCastle(t, Config{})
	first := c.approach()
	_, ok := first.enter(claim{})
	require.True(t, ok)
	said := first.transcript
	again := c.approach()
	again.send(said[:helloBytes])
	require.Len(t, again.reply(challengeBytes), challengeBytes)
	again.send(said[helloBytes+challengeBytes:])
	again.shownOut()
	require.Equal(t, uint64(1), c.Stats().Unauthenticated)
	require.Equal(t, uint64(1), c.Stats().Accepted)
	require.Empty(t, c.sink.ended)
}

// Every byte that was said counts.
func TestTranscript(t *testing.T) {
	c := newCastle(t, Config{})
	for _, at := range []int{12, 24, 32, 32 + nonceBytes + 8, helloBytes - 1} {
		in := c.approach()
		h := hello{version: handshakeVersion, from: 1, toBorn: c.self.born, address: c.blob}
		b := h.encode()
		in.send(b)
		b[at] ^= 1 // what a man in the middle has changed on its way
		in.record(b)
		in.record(in.reply(challengeBytes))
		s := statement{outbox: minOutbox}
		in.send(s.seal(secret, roleDialler, in.transcript))
		in.shownOut()
	}
	require.Equal(t, uint64(5), c.Stats().Unauthenticated)
	c.unharmed()
}

func TestMisled(t *testing.T) {
	for name, change := range map[string]func(h *hello){
		"id out of range": func(h *hello) { h.from = 4 },
		"largest id":      func(h *hello) { h.from = proc.None },
		"own id":          func(h *hello) { h.from = 0 },
		"for another":     func(h *hello) { h.to = 2 },
		"another job":     func(h *hello) { h.toBorn++ },
		"no address":      func(h *hello) { h.address = nil },
		"bad address":     func(h *hello) { h.address = noise(4, addressBytes) },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCastle(t, Config{})
			for i := range 3 {
				_, ok := c.approach().enter(claim{hello: change})
				require.False(t, ok)
				require.Equal(t, uint64(i+1), c.Stats().Misdirected)
			}
			c.logged("another")
			c.unharmed()
		})
	}
}

func TestVersions(t *testing.T) {
	c := newCastle(t, Config{})
	for i := range 3 {
		in := c.approach()
		h := hello{version: handshakeVersion + 1, from: 1}
		in.send(h.encode())
		ch, ok := decodeChallenge(in.reply(challengeBytes)) // so that it can say what is wrong
		require.True(t, ok)
		require.Equal(t, uint32(handshakeVersion), ch.version)
		in.shownOut()
		require.Equal(t, uint64(i+1), c.Stats().OtherVersion)
	}
	c.logged(fmt.Sprint("speaks version ", handshakeVersion+1))
	c.unharmed()
}

// Who has been cut off, or is known to have ended, does not come back.
func TestTheDeadStayOut(t *testing.T) {
	for name, end := range map[string]func(c *Conn){
		"cut off":  (*Conn).Invalidate,
		"reported": func(c *Conn) { c.reportEnd(proc.Cause{Kind: proc.Connection}) },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCastle(t, Config{})
			in := c.approach()
			_, ok := in.enter(claim{})
			require.True(t, ok)
			end(c.conns[1])
			in.shownOut()
			s, ok := c.approach().enter(claim{})
			require.True(t, ok)
			require.Equal(t, rejected, s.outcome)
			require.Equal(t, uint64(1), c.Stats().Accepted)
			require.Equal(t, ended, c.conns[1].state)
			require.LessOrEqual(t, len(c.sink.ended), 1)
		})
	}
	t.Run("born again", func(t *testing.T) {
		c := newCastle(t, Config{})
		_, ok := c.approach().enter(claim{})
		require.True(t, ok)
		s, ok := c.approach().enter(claim{hello: func(h *hello) {
			a := address{born: 78, net: 1, addrs: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:9")}}
			h.address = a.encode()
		}})
		require.True(t, ok)
		require.Equal(t, rejected, s.outcome)
		require.Equal(t, up, c.conns[1].state, "the first is still there")
	})
}

// An authentic peer that writes nonsense is down with cause Corrupt, and nothing else
// happens.
func TestNonsense(t *testing.T) {
	test := kind(fabric.ClassTest)
	good := header{kind: test}
	raw := func(at int, b ...byte) []byte {
		w := wire(good, nil)
		copy(w[at:], b)
		return w
	}
	long := func(h header, n uint32) []byte {
		h.length = n
		b := make([]byte, headerBytes)
		h.put(b)
		return b
	}
	for name, say := range map[string][]byte{
		"too long":         long(good, maxFrame+1),
		"longest":          long(good, ^uint32(0)),
		"loan too long":    long(header{kind: test, flags: flagLent}, maxLent+1),
		"kind 0":           raw(4, 0),
		"kind 32":          raw(4, fabric.NumClasses),
		"kind 63":          raw(4, 63),
		"kind 66":          raw(4, 66),
		"kind 255":         raw(4, 255),
		"flags":            raw(5, 2),
		"reserved":         raw(6, 1),
		"reserved too":     raw(7, 1),
		"skipped":          wire(header{kind: test, number: 1}, nil),
		"doubled":          append(wire(good, nil), wire(good, nil)...),
		"negative":         wire(header{kind: test, number: ^uint32(0)}, nil),
		"taken unsent":     wire(header{kind: test, taken: 2}, nil),
		"taken backwards":  append(wire(header{kind: test, taken: 1}, nil), wire(header{kind: test, number: 1}, nil)...),
		"taken far":        wire(header{kind: kindTaken, taken: 1 << 31}, nil),
		"taken with data":  long(header{kind: kindTaken}, 1),
		"farewell, length": long(header{kind: kindBye}, 1),
		"farewell, number": wire(header{kind: kindBye, number: 3}, nil),
		"farewell, lent":   wire(header{kind: kindBye, flags: flagLent}, nil),
		"noise":            noise(5, 100_000),
	} {
		t.Run(name, func(t *testing.T) {
			leavesNothing(t)
			c := newCastle(t, Config{})
			in := c.approach()
			_, ok := in.enter(claim{})
			require.True(t, ok)
			require.True(t, c.conns[1].TrySend(fabric.ClassTest, 0, []byte("to be taken")))
			in.send(say)
			c.watch(func() bool { return len(c.sink.ended) > 0 })
			s, ok := c.approach().enter(claim{})
			require.True(t, ok)
			require.Equal(t, rejected, s.outcome)
			require.Equal(t, []proc.Cause{{Kind: proc.Corrupt}}, c.sink.ended)
			require.LessOrEqual(t, len(c.sink.got), 1)
		})
	}
	t.Run("taken in a proof", func(t *testing.T) {
		c := newCastle(t, Config{})
		_, ok := c.approach().enter(claim{state: func(s *statement) { s.taken = 1 }})
		require.True(t, ok)
		c.watch(func() bool { return len(c.sink.ended) > 0 })
		require.Equal(t, []proc.Cause{{Kind: proc.Corrupt}}, c.sink.ended)
	})
	t.Run("another frame in the place", func(t *testing.T) {
		tp := newTap(t, Config{})
		tp.write(wire(good, noise(6, 3*maxAssembled))[:maxAssembled])
		tp.join(0)
		tp.write(wire(good, noise(6, 3*maxAssembled-1))[:maxAssembled])
		tp.Poll(&tp.sink.Sink)
		require.Equal(t, []proc.Cause{{Kind: proc.Corrupt}}, tp.sink.ended)
	})
}

// A handshake that its peer has given up for another, over which it has taken more, is
// no connection, whenever its proof comes.
func TestOutdatedHandshake(t *testing.T) {
	c := newCastle(t, Config{})
	late := c.challenged()
	in := c.approach()
	_, ok := in.enter(claim{})
	require.True(t, ok)
	conn := c.conns[1]
	require.True(t, conn.TrySend(fabric.ClassTest, 0, []byte("a frame")))
	in.send(wire(header{kind: kindTaken, taken: 1}, nil))
	c.watch(func() bool { return !conn.out.kept() })
	s := statement{outbox: minOutbox}
	late.send(s.seal(secret, roleDialler, late.transcript))
	late.shownOut()
	require.Empty(t, c.sink.ended)
	require.Equal(t, up, conn.state)
	require.Equal(t, uint64(1), c.Stats().Accepted)
}
