package tcp

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/internal/proc"
)

// A layer above may have another path to the same peers, such as RDMA. It prepares the path with frames of
// its own, in order with the others, and its messages go on over the sockets where the path fails.

// maxBeside is the longest payload of SendBeside.
const maxBeside = 256

// Beside reports whether a peer, to which there is a connection, has another path too.
func (p *Provider) Beside(peer proc.ID) bool {
	c := p.conns[peer]
	return c != nil && c.peerAddress.beside
}

// Up reports whether the connection is there, and whether it is a Unix-domain socket.
func (c *Conn) Up() (is, unix bool) { return c.state == up, c.path.unix }

// SendBeside sends a frame to the peer's Config.Beside; false means no credit. Preconditions: those of TrySend,
// len(payload) <= 256.
func (c *Conn) SendBeside(payload []byte) bool {
	c.p.endBurst()
	if !c.admits(len(payload)) {
		return false
	}
	h := header{length: uint32(len(payload)), kind: kindBeside}
	c.addShort(&h, payload)
	c.flush()
	return true
}

// Farewell sets the number that the peer's Told returns once it has reported the departure of this process. Call
// it before Depart.
func (c *Conn) Farewell(n uint64) { c.farewell = n }

// Told is the number that a departed peer has set by Farewell.
func (c *Conn) Told() uint64 { return c.told }

// another is the owner of a descriptor that a layer above polls.
type another struct{}

// WakeBy makes Ready report, and ring, at a time, or before.
func (p *Provider) WakeBy(t time.Time) { p.alarm(t) }

// AlsoWatch makes Ready report, and ring for, a descriptor of a layer above that is readable. The caller closes it
// after the provider.
func (p *Provider) AlsoWatch(fd int) error {
	_, err := p.connSet.add(fd, another{}, unix.EPOLLIN)
	return err
}
