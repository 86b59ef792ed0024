package tcp

import (
	"slices"

	"golang.org/x/sys/unix"
)

// A killed process leaves the bytes in its sockets to the kernel, which continues to send them. But it
// stops, and answers with a reset, if the peer has sent something that no process will read any more,
// such as an acknowledgement. So only bytes that the kernel has sent are safe: it keeps the rest while
// the peer's window is full.

// settleFrom is the number of bytes on their way from which the kernel is asked whether it has sent them:
// fewer fit into the first window of a connection.
const settleFrom = 12 << 10

// noteLong notes, of n bytes more, that the kernel may be unable to send all at once.
func (c *Conn) noteLong(n int) {
	if !c.long && c.out.bytes()+n >= settleFrom && !c.path.unix {
		c.long = true
		c.p.long = append(c.p.long, c)
	}
}

// EndBurst implements fabric.Burster.
func (p *Provider) EndBurst() (all bool) {
	p.endBurst()
	if len(p.long) > 0 {
		p.long = slices.DeleteFunc(p.long, func(c *Conn) bool {
			c.long = c.state == up && c.kernelKeeps()
			return !c.long
		})
	}
	return len(p.blocked)+len(p.reconnecting)+len(p.long) == 0
}

// Unsent implements fabric.Lender. An interrupted connection sends the kept frames again.
func (c *Conn) Unsent() bool {
	c.p.endBurst()
	switch {
	case c.state == ended:
		return false
	case c.state != up:
		return c.out.kept()
	}
	return c.out.unsent() || c.long && c.settle()
}

// kernelKeeps reports whether the kernel has bytes that it has not sent.
func (c *Conn) kernelKeeps() bool {
	left, err := unix.IoctlGetInt(c.fd, unix.SIOCOUTQNSD)
	return err == nil && left > 0
}

// settle reports the same, and makes the provider wait until it changes.
func (c *Conn) settle() bool {
	keeps := c.kernelKeeps()
	if keeps != c.settling {
		c.settling = keeps
		few := 0 // the system's default
		if keeps {
			few = 1 // epoll reports the socket as writable when fewer are left
		}
		_ = unix.SetsockoptInt(c.fd, unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, few)
	}
	if keeps && !c.blocked {
		c.blocked = true
		c.p.blocked = append(c.p.blocked, c)
	}
	return keeps
}
