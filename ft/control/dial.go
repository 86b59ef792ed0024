package control

import (
	"github.com/banyan-hpc/banyan/ft/detect"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// queueUnsent queues a frame until there is a connection and credit.
func (p *Driver) queueUnsent(a detect.Action) {
	if len(p.unsent) == maxUnsent {
		return
	}
	p.unsent = append(p.unsent, a)
	p.e.Backlog()
	if !p.connecting {
		p.connecting = true
		p.spawn(p.connect)
	}
}

// connect sends the queued frames when their connections are up. It makes progress meanwhile, since
// the application may compute.
func (p *Driver) connect() {
	for tries := 0; len(p.unsent) > 0 && tries < connectTries && !p.stopped; tries++ {
		p.resend(func(a detect.Action) bool {
			if p.e.Lookup(a.To) != nil {
				return p.trySend(a)
			}
			p.queueDial(a.To)
			return false
		})
		if len(p.unsent) > 0 {
			p.e.Unlock()
			p.e.Host().Pause(retryInterval)
			p.e.Lock()
			p.e.ProgressUntilIdle(p.look)
		}
	}
	p.connecting, p.unsent = false, nil
}

// sendUnsent sends the queued frames for which there are credit and connections. left: credit is missing.
func (p *Driver) sendUnsent() (sent int, left bool) {
	if p.stopped {
		return 0, false
	}
	p.resend(func(a detect.Action) bool {
		if p.e.Lookup(a.To) == nil {
			return false
		}
		if p.trySend(a) {
			sent++
			return true
		}
		left = true
		return false
	})
	return sent, left
}

// resend keeps the queued frames for which done returns false.
func (p *Driver) resend(done func(detect.Action) bool) {
	waiting := p.unsent
	p.unsent = nil
	for _, a := range waiting {
		if !done(a) {
			p.unsent = append(p.unsent, a)
		}
	}
}

// queueDial requests a connection to a process. A goroutine of its own waits for the address, so
// that a slow or stopped launcher does not delay frames to others.
func (p *Driver) queueDial(id proc.ID) {
	if p.queued[id] {
		return
	}
	p.queued[id], p.dialQueue = true, append(p.dialQueue, id)
	if !p.dialing {
		p.dialing = true
		p.spawn(p.dial)
	}
}

// dial makes the requested connections and sends the frames that wait for them. Frames to a process
// that cannot be connected to are dropped.
func (p *Driver) dial() {
	for len(p.dialQueue) > 0 && !p.stopped {
		id := p.dialQueue[0]
		p.dialQueue = p.dialQueue[1:]
		p.e.Unlock()
		_, err := p.e.Endpoint(id)
		p.e.Lock()
		delete(p.queued, id)
		if err != nil {
			p.logOnce(id, "no heartbeats reach it", err)
		}
		p.resend(func(a detect.Action) bool { return a.To == id && (err != nil || !p.stopped && p.trySend(a)) })
	}
	p.dialing = false
}
