package tcp

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// alarm is a timer that epoll watches, so that it wakes a sleeping process.
type alarm struct {
	fd  int
	due time.Time // zero: not set
}

// alarm makes sure that timerFired is called at t.
func (p *Provider) alarm(t time.Time) {
	if !p.timer.due.IsZero() && !t.Before(p.timer.due) {
		return
	}
	p.timer.due = t
	d := max(time.Until(t), 1) // zero would disarm it
	_ = unix.TimerfdSettime(p.timer.fd, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}, nil)
}

// timerFired acts on everything that is due, and sets the alarm for the next deadline.
func (p *Provider) timerFired() {
	var b [8]byte
	_, _ = unix.Read(p.timer.fd, b[:])
	now := time.Now()
	p.timer.due = time.Time{}
	p.expireHandshakes(now)
	for _, c := range slices.Clone(p.reconnecting) {
		if !c.deadline.IsZero() && !c.deadline.After(now) {
			c.deadlinePassed(now)
		}
	}
	_ = p.fillReserve()
	p.resumeAccept(now)
	p.shrinkIdle(now)
	p.checkDoubted(now)
	if len(p.grown) > 0 {
		p.alarm(p.shrinkDue)
	}
	for _, c := range p.reconnecting {
		if !c.deadline.IsZero() {
			p.alarm(c.deadline)
		}
	}
	if len(p.handshakes) > 0 {
		p.alarm(p.handshakes[0].due)
	}
}
