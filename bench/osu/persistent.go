package osu

import "github.com/banyan-hpc/banyan"

// prepared are persistent requests for messages of a size, a window of them each way.
type prepared struct {
	size         int
	sends, recvs []*banyan.Persistent
}

// prepare has persistent requests for a size and a window. It makes them where they differ from the last.
func (p *Pair) prepare(s, r []byte, window int) (*prepared, error) {
	now := &p.prepared
	if now.size == len(s) && len(now.sends) == window {
		return now, nil
	}
	if err := now.free(); err != nil {
		return nil, err
	}
	now.size = len(s)
	for i := range window {
		now.sends = append(now.sends, p.c.SendInit(p.nth(s, i), p.peer, tagData))
		now.recvs = append(now.recvs, p.c.RecvInit(p.nth(r, i), p.peer, tagData))
	}
	return now, nil
}

func (q *prepared) free() error {
	for _, all := range [][]*banyan.Persistent{q.sends, q.recvs} {
		for _, one := range all {
			if err := one.Free(); err != nil {
				return err
			}
		}
	}
	q.sends, q.recvs = q.sends[:0], q.recvs[:0]
	return nil
}

// preparedPingPong is pingPong with persistent requests.
func (p *Pair) preparedPingPong(s, r []byte, n int) error {
	q, err := p.prepare(s, r, 1)
	if err != nil {
		return err
	}
	order := []*banyan.Persistent{q.sends[0], q.recvs[0]}
	if !p.first {
		order[0], order[1] = order[1], order[0]
	}
	for range n {
		for _, one := range order {
			if _, err := one.Start().Wait(); err != nil {
				return err
			}
		}
	}
	return nil
}

// send starts a message and receive posts one, by persistent requests where these are asked for.
func (p *Pair) send(b []byte) banyan.Request {
	if p.persistent {
		return p.c.SendInit(b, p.peer, tagData).Start()
	}
	return p.c.Isend(b, p.peer, tagData)
}

func (p *Pair) receive(b []byte) banyan.Request {
	if p.persistent {
		return p.c.RecvInit(b, p.peer, tagData).Start()
	}
	return p.c.Irecv(b, p.peer, tagData)
}

// sends starts a window of messages, and receives posts one.
func (p *Pair) sends(s []byte, reqs []banyan.Request) error {
	if p.persistent {
		q, err := p.prepare(s, p.rbuf[:len(s)], len(reqs))
		if err == nil {
			banyan.StartAll(q.sends, reqs)
		}
		return err
	}
	for i := range reqs {
		reqs[i] = p.c.Isend(p.nth(s, i), p.peer, tagData)
	}
	return nil
}

func (p *Pair) receives(r []byte, reqs []banyan.Request) error {
	if p.persistent {
		q, err := p.prepare(p.sbuf[:len(r)], r, len(reqs))
		if err == nil {
			banyan.StartAll(q.recvs, reqs)
		}
		return err
	}
	for i := range reqs {
		reqs[i] = p.c.Irecv(p.nth(r, i), p.peer, tagData)
	}
	return nil
}

// repeated is a non-blocking collective by a request that is made once for each size.
func (op operation) repeated() operation {
	start := op.start
	op.start, op.rooted = nil, false // a request has one root
	op.call = func(g *group, size int) error {
		if g.again == nil || g.size != size {
			g.size = size
			g.again = g.c.Persistent(func(*banyan.Comm) banyan.Request { return start(g, size) })
		}
		g.again.Start()
		_, err := g.again.Wait()
		return err
	}
	return op
}
