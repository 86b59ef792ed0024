package tcp

import (
	"math"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// A path may fail without an error, as when a cable is pulled: the kernel sends the last bytes again for ten seconds before it gives up.
// Where the peer has other addresses, the connection is made again much sooner, over the next one.

// watchAcks has the kernel be asked, while it has bytes without an acknowledgement, whether they arrive.
func (c *Conn) watchAcks() {
	if c.doubted || !c.canDoubt() {
		return
	}
	p := c.p
	c.doubted, c.acked = true, math.MaxUint64
	if p.doubted = append(p.doubted, c); len(p.doubted) == 1 {
		p.doubtDue = time.Now().Add(p.cfg.Patience / 4)
		p.alarm(p.doubtDue)
	}
}

// canDoubt reports whether there is another path than the one of this connection.
func (c *Conn) canDoubt() bool { return len(c.paths) > 1 && !c.paths[0].local }

// checkDoubted looks at the connections on which something was sent, until all of it has been acknowledged.
func (p *Provider) checkDoubted(now time.Time) {
	if len(p.doubted) == 0 {
		return
	}
	if !now.Before(p.doubtDue) {
		var silent []*Conn
		p.doubted = slices.DeleteFunc(p.doubted, func(c *Conn) bool {
			waits, fails := c.unanswered(now)
			c.doubted = waits && !fails
			if fails {
				silent = append(silent, c)
			}
			return !c.doubted
		})
		for _, c := range silent {
			c.drain(p.sink, unix.ETIMEDOUT) // it may have said that it departs
		}
		p.doubtDue = now.Add(p.cfg.Patience / 4)
	}
	if len(p.doubted) > 0 {
		p.alarm(p.doubtDue)
	}
}

// unanswered reports whether the kernel has bytes without an acknowledgement, and whether it has sent them again and had none for too long.
// What it could not send at all, as on a host without the address of the connection, it keeps, and probes, as if the peer's window were
// full. A peer whose window is full answers that, which ends the count of probes; one of them, or the answer, may be lost.
func (c *Conn) unanswered(now time.Time) (waits, fails bool) {
	if c.state != up {
		return false, false
	}
	i, err := unix.GetsockoptTCPInfo(c.fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil || i.Unacked == 0 && i.Notsent_bytes == 0 {
		return false, false
	}
	if i.Retransmits == 0 && i.Probes < 2 || i.Bytes_acked != c.acked {
		c.acked, c.ackedThen = i.Bytes_acked, now
	}
	return true, now.Sub(c.ackedThen) >= c.p.cfg.Patience
}

// firstPath is the number of the path that is tried first: where the last one has had no answer, the one after that.
func (c *Conn) firstPath() int {
	if c.lastError != unix.ETIMEDOUT || !c.wasUp {
		return 0
	}
	last := slices.IndexFunc(c.paths, c.path.sameInterface)
	if last < 0 {
		return 0
	}
	return (last + 1) % len(c.paths)
}
