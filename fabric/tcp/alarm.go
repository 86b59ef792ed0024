package tcp

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// alarm is a timer that epoll watches, so that a sleeping process wakes for it.
type alarm struct {
	fd  int
	due time.Time // zero: not set
}

// alarm makes sure that ticked is called at t.
func (p *Provider) alarm(t time.Time) {
	if !p.timer.due.IsZero() && !t.Before(p.timer.due) {
		return
	}
	p.timer.due = t
	d := max(time.Until(t), 1) // zero would disarm it
	_ = unix.TimerfdSettime(p.timer.fd, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}, nil)
}

// ticked acts on everything that is due, and sets the alarm for what is next.
func (p *Provider) ticked() {
	var b [8]byte
	_, _ = unix.Read(p.timer.fd, b[:])
	now := time.Now()
	p.timer.due = time.Time{}
	p.expire(now)
	for _, c := range slices.Clone(p.mending) {
		if !c.due.IsZero() && !c.due.After(now) {
			c.overdue(now)
		}
	}
	p.mending = slices.DeleteFunc(p.mending, func(c *Conn) bool { return c.state == over || c.state == up })
	_ = p.stock()
	p.hearken(now)
	for _, c := range p.mending {
		if !c.due.IsZero() {
			p.alarm(c.due)
		}
	}
	if len(p.guests) > 0 {
		p.alarm(p.guests[0].due)
	}
}
