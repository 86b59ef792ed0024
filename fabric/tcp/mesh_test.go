package tcp

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// mesh is some endpoints in this process, all of which send to all.
type mesh struct {
	*testing.T
	seed  uint64
	rng   *rand.Rand
	nodes []*node
	pool  []byte // of which all payloads are parts
	last  time.Time
}

// node is one endpoint, and its state of the others.
type node struct {
	*Provider
	mesh     *mesh
	sink     fabric.Sink
	peers    []peerState // by id
	departed bool
}

// peerState is a node's state of one other.
type peerState struct {
	conn    *Conn
	out, in uint64 // frames sent, and taken in
	lent    [][]byte
	asked   uint64 // for how many frames a place has been asked
	place   []byte // of the one that is arriving
	gone    bool
	cut     int32 // key of the connection that was last
}

func newMesh(t *testing.T, cfg Config, n int, seed uint64) *mesh {
	tn := &mesh{T: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 0)), last: time.Now()}
	tn.pool = noise(seed, 3<<20)
	for i := range n {
		mine := cfg
		mine.Self, mine.MaxProcs, mine.Secret = proc.ID(i), n, []byte("the secret of this mesh")
		p, err := Open(mine)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, p.Close()) })
		tn.nodes = append(tn.nodes, tn.node(p, n))
	}
	for _, a := range tn.nodes {
		for id := range a.peers {
			if proc.ID(id) != a.cfg.Self {
				conn, err := a.Connect(fabric.ConnectSpec{Peer: proc.ID(id), Address: tn.nodes[id].Address()})
				require.NoError(t, err)
				a.peers[id].conn = conn.(*Conn)
			}
		}
	}
	return tn
}

func (tn *mesh) node(p *Provider, n int) *node {
	a := &node{Provider: p, mesh: tn, peers: make([]peerState, n)}
	for class := range a.sink.Deliver {
		a.sink.Deliver[class] = func(from proc.ID, imm uint64, payload []byte) {
			f := &a.peers[from]
			require.Nil(tn, f.place, "delivered, though it had a place")
			a.check(from, fabric.Class(class), imm, payload)
		}
	}
	a.sink.Place = func(from proc.ID, class fabric.Class, imm uint64, n int) []byte {
		f := &a.peers[from]
		require.Nil(tn, f.place, "the last that got a place has not come")
		require.Equal(tn, f.in, imm&frameMask, "a place for a frame that is not due")
		require.LessOrEqual(tn, f.asked, f.in, "a place asked for again")
		f.asked = f.in + 1
		if tn.rng.IntN(3) == 0 {
			return nil
		}
		f.place = make([]byte, n)
		return f.place
	}
	a.sink.Placed = func(from proc.ID, class fabric.Class, imm uint64, n int) {
		f := &a.peers[from]
		require.Len(tn, f.place, n)
		place := f.place
		f.place = nil
		a.check(from, class, imm, place)
	}
	a.sink.Returned = func(peer proc.ID, n int) {
		f := &a.peers[peer]
		require.LessOrEqual(tn, n, len(f.lent), "more loans returned than lent")
		for _, b := range f.lent[:n] {
			clear(b) // it is the lender's again: a later reader reads nonsense
		}
		f.lent = f.lent[n:]
		tn.last = time.Now()
	}
	a.sink.Down = func(peer proc.ID, cause proc.Cause) {
		require.Fail(tn, "reported down", "%v says that %v is down: %v", p.cfg.Self, peer, cause)
	}
	a.sink.Departed = func(peer proc.ID) {
		f := &a.peers[peer]
		require.False(tn, f.gone)
		require.True(tn, tn.nodes[peer].departed)
		if !a.departed { // else the other may have let go of it before
			require.Equal(tn, tn.nodes[peer].peers[p.cfg.Self].out, f.in, "frames of the departed are missing")
		}
		f.gone = true
		tn.last = time.Now()
	}
	return a
}

// frameMask is the significant part of an immediate.
const frameMask = 1<<40 - 1

// frame returns the frame of a number: its contents follow from the pair and the number.
func (tn *mesh) frame(from, to proc.ID, number uint64, longest int) (class fabric.Class, imm uint64,
	payload []byte, lent bool) {
	r := rand.New(rand.NewPCG(tn.seed^uint64(from)<<32^uint64(to), number))
	lent = r.IntN(8) == 0
	if lent {
		longest = maxLent
	}
	n := 0
	switch k := r.IntN(20); {
	case k < 10:
		n = r.IntN(200)
	case k < 14:
		n = r.IntN(minPlaced + 100)
	case k < 18:
		n = r.IntN(min(longest, maxAssembled+1) + 1)
	default:
		n = r.IntN(longest + 1)
	}
	n = max(n, 1)
	at := r.IntN(len(tn.pool) - n)
	return fabric.Class(1 + r.IntN(fabric.NumClasses-1)), number | uint64(from)<<40 | uint64(to)<<50,
		tn.pool[at : at+n], lent
}

// check compares an arrived frame with the expected one.
func (a *node) check(from proc.ID, class fabric.Class, imm uint64, payload []byte) {
	f := &a.peers[from]
	tn := a.mesh
	wantClass, wantImm, want, _ := tn.frame(from, a.cfg.Self, f.in, a.cfg.longest())
	require.Equal(tn, wantImm, imm, "%v has frame %d of %v, where %d is due", a.cfg.Self, imm&frameMask, from, f.in)
	require.Equal(tn, wantClass, class)
	require.True(tn, bytes.Equal(want, payload), "frame %d of %v is changed", f.in, from)
	require.False(tn, f.gone)
	f.in++
	tn.last = time.Now()
	if tn.rng.IntN(50) == 0 { // also from within
		a.send(tn.other(a), 2)
	}
}

// send offers some frames to another.
func (a *node) send(to proc.ID, n int) {
	f := &a.peers[to]
	for range n {
		class, imm, payload, lent := a.mesh.frame(a.cfg.Self, to, f.out, a.cfg.longest())
		if f.gone || a.departed {
			return
		}
		if !lent {
			if !f.conn.TrySend(class, imm, payload) {
				return
			}
		} else {
			mine := bytes.Clone(payload)
			f.lent = append(f.lent, mine)
			if !f.conn.TryLend(class, imm, mine) {
				f.lent = f.lent[:len(f.lent)-1]
				return
			}
		}
		f.out++
	}
}

func (tn *mesh) anyNode() *node { return tn.nodes[tn.rng.IntN(len(tn.nodes))] }

// other draws one of the others.
func (tn *mesh) other(a *node) proc.ID {
	id := tn.rng.IntN(len(tn.nodes) - 1)
	if id >= int(a.cfg.Self) {
		id++
	}
	return proc.ID(id)
}

// step makes a node send or poll.
func (tn *mesh) step() {
	a := tn.anyNode()
	if tn.rng.IntN(3) == 0 {
		a.send(tn.other(a), 1+tn.rng.IntN(20))
		return
	}
	a.Poll(&a.sink)
	require.Less(tn, time.Since(tn.last), stall, "nothing happens any more: %s", tn)
}

// run sends and cuts.
func (tn *mesh) run(cuts int) {
	for range cuts {
		a := tn.anyNode()
		to := tn.other(a)
		for most := tn.rng.IntN(8) > 0; most && !tn.isUp(a, to); { // and some during the healing
			tn.step()
		}
		for range tn.rng.IntN(1 << tn.rng.IntN(9)) {
			tn.step()
		}
		tn.cut(a, to)
	}
}

// isUp reports whether two nodes are connected, and the connection has not been cut.
func (tn *mesh) isUp(a *node, to proc.ID) bool {
	b := tn.nodes[to]
	there, back := a.conns[to], b.conns[a.cfg.Self]
	return there != nil && back != nil && there.state == up && back.state == up &&
		a.peers[to].cut != there.key && b.peers[a.cfg.Self].cut != back.key
}

// cut breaks a socket of a node, perhaps at both ends.
func (tn *mesh) cut(a *node, to proc.ID) {
	a.cut(to)
	if tn.rng.IntN(3) == 0 {
		tn.nodes[to].cut(a.cfg.Self)
	}
}

// cut breaks a node's connection, its dial or a handshake.
func (a *node) cut(to proc.ID) {
	if a.departed { // the acceptor runs
		a.mu.Lock()
		defer a.mu.Unlock()
	}
	rng := a.mesh.rng
	var fds []int
	if c := a.conns[to]; c != nil && c.fd >= 0 {
		a.peers[to].cut = c.key
		fds = append(fds, c.fd)
	} else if c != nil && c.dial != nil {
		fds = append(fds, c.dial.fd)
	}
	for _, g := range a.handshakes {
		fds = append(fds, g.fd)
	}
	for _, fd := range fds {
		breakSocket(fd, a.cfg.Unix, rng.IntN(5))
	}
}

// breakSocket breaks a socket in one of several ways.
func breakSocket(fd int, local bool, how int) {
	switch {
	case how == 0:
		_ = unix.Shutdown(fd, unix.SHUT_RD)
	case how == 1:
		_ = unix.Shutdown(fd, unix.SHUT_WR)
	case how == 2 || local:
		_ = unix.Shutdown(fd, unix.SHUT_RDWR)
	case how == 3: // a reset: unread data are lost
		disconnect(fd)
	case how == 4: // the same, but before that frames are torn
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 4<<10)
		disconnect(fd)
	}
}

// settle ends the sending, and waits until all frames have arrived.
func (tn *mesh) settle() {
	done := func() bool {
		for _, a := range tn.nodes {
			for id := range a.peers {
				f, back := &a.peers[id], &tn.nodes[id].peers[a.cfg.Self]
				if f.out != back.in || len(f.lent) > 0 {
					return false
				}
			}
		}
		return true
	}
	for !done() {
		a := tn.anyNode()
		a.Poll(&a.sink)
		require.Less(tn, time.Since(tn.last), stall, "nothing happens any more: %s", tn)
	}
}

// depart makes one node after the other depart with frames in flight, while connections are cut:
// the remaining nodes get everything.
func (tn *mesh) depart() {
	for i, a := range tn.nodes {
		for range 100 {
			tn.step()
		}
		a.Depart()
		a.departed = true
		known := func() bool {
			for _, b := range tn.nodes[i+1:] {
				if !b.peers[i].gone {
					return false
				}
			}
			return true
		}
		for n := 0; !known(); n++ {
			if tn.step(); n < 200 && tn.rng.IntN(10) == 0 {
				b := tn.anyNode()
				tn.cut(b, tn.other(b))
			}
		}
	}
}

// requireCounted: the connections have counted their cuts, and that they were healed.
func (tn *mesh) requireCounted() {
	healed := 0
	for _, a := range tn.nodes {
		for _, c := range a.conns {
			now := c.Traffic()
			require.LessOrEqual(tn, now.Healed, now.Broken)
			healed += int(now.Healed)
		}
	}
	require.Equal(tn, tn.heals(), healed)
}

func (tn *mesh) heals() (n int) {
	for _, a := range tn.nodes {
		n += int(a.Stats().Reconnects)
	}
	return n
}

// String describes the progress of all nodes.
func (tn *mesh) String() string {
	var b bytes.Buffer
	for _, a := range tn.nodes {
		for id, f := range a.peers {
			if c := a.conns[proc.ID(id)]; c != nil {
				fmt.Fprintf(&b, "\n%v>%d: state %d, sent %d, got %d, %d lent, outbox %d…%d…%d, owes %v, because of %v",
					a.cfg.Self, id, c.state, f.out, f.in, len(f.lent), c.out.head, c.out.sent, c.out.tail, c.ackDue, c.lastError)
			}
		}
	}
	return b.String()
}
