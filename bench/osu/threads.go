package osu

import (
	"errors"
	"sync"
	"time"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/pattern"
)

// thread is one goroutine of a side of latency_mt, with buffers of its own.
//
// The iterations are dealt out: sender i does i, i+senders, …, receiver j does j, j+receivers, ….
// With one sender all messages carry one tag, and whichever receiver is there answers, as in OSU.
// With several, an answer must find the goroutine that asked, so each pair of a sender and a
// receiver is a lane with a tag of its own.
type thread struct {
	c          *banyan.Comm
	peer       int
	asks       bool // a sender: sends first
	index      int
	step       int // goroutines of this side
	lanes      int
	pairs      int // of a sender and a receiver
	sbuf, rbuf []byte
}

// roundTrips does this thread's iterations from first to below n: the timed loop, nothing in it but
// the messages.
func (t *thread) roundTrips(s, r []byte, first, n int) error {
	c, peer, lanes := t.c, t.peer, t.lanes
	if t.asks {
		for i := first; i < n; i += t.step {
			tag := tagThread + i%lanes
			if err := c.Send(s, peer, tag); err != nil {
				return err
			}
			if _, err := c.Recv(r, peer, tag); err != nil {
				return err
			}
		}
		return nil
	}
	for i := first; i < n; i += t.step {
		tag := tagThread + i%lanes
		if _, err := c.Recv(r, peer, tag); err != nil {
			return err
		}
		if err := c.Send(s, peer, tag); err != nil {
			return err
		}
	}
	return nil
}

// newThreads makes this side's threads.
func (p *Pair) newThreads(o *Options) {
	n, lanes := o.Receivers, 1
	if p.first {
		n = o.Senders
	}
	if o.Senders > 1 {
		lanes = o.Senders * o.Receivers
	}
	for i := range n {
		t := thread{
			c: p.c, peer: p.peer, asks: p.first, index: i, step: n, lanes: lanes, pairs: o.Senders * o.Receivers,
			sbuf: pages(o.Max), rbuf: pages(o.Max),
		}
		touch(t.sbuf, t.rbuf)
		p.threads = append(p.threads, t)
	}
}

// each runs work in a goroutine for each thread and returns when all are done.
func (p *Pair) each(work func(*thread) error) error {
	errs := make([]error, len(p.threads))
	var all sync.WaitGroup
	for i := range p.threads {
		all.Go(func() { errs[i] = work(&p.threads[i]) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// threadPass: with s senders, s round trips go on at the same time.
func threadPass(o *Options) pass {
	return pass{
		run:      (*Pair).threadTrips,
		singles:  (*Pair).threadSingles,
		check:    (*Pair).checkThreads,
		count:    2,
		abreast:  o.Senders,
		perCheck: o.Senders * o.Receivers,
	}
}

// threadTrips does n round trips, dealt out to the threads, and returns the time from the first
// sender's first to the last one's last on rank 0. Each sender reads the clock for itself: starting
// the goroutines is not in the time.
func (p *Pair) threadTrips(size, n int) (time.Duration, error) {
	if err := p.sync(); err != nil {
		return 0, err
	}
	starts, ends := make([]time.Duration, len(p.threads)), make([]time.Duration, len(p.threads))
	err := p.each(func(t *thread) error {
		s, r := t.sbuf[:size], t.rbuf[:size]
		starts[t.index] = p.w.Now()
		err := t.roundTrips(s, r, t.index, n)
		ends[t.index] = p.w.Now()
		return err
	})
	if err != nil || !p.first {
		return 0, err
	}
	start, end := starts[0], ends[0]
	for i := range starts {
		start, end = min(start, starts[i]), max(end, ends[i])
	}
	return end - start, nil
}

// threadSingles times n round trips one by one, those of all senders together.
func (p *Pair) threadSingles(size, n int) ([]time.Duration, error) {
	cost := clockCost(p.w)
	stamps := make([][]time.Duration, len(p.threads))
	for i := range stamps {
		stamps[i] = make([]time.Duration, 1, 2+n/len(stamps))
	}
	if err := p.sync(); err != nil {
		return nil, err
	}
	err := p.each(func(t *thread) error {
		s, r, mine := t.sbuf[:size], t.rbuf[:size], stamps[t.index]
		mine[0] = p.w.Now()
		for i := t.index; i < n; i += t.step {
			if err := t.roundTrips(s, r, i, i+1); err != nil {
				return err
			}
			mine = append(mine, p.w.Now())
		}
		stamps[t.index] = mine
		return nil
	})
	if err != nil || !p.first {
		return nil, err
	}
	var out []time.Duration
	for _, mine := range stamps {
		out = append(out, differences(mine, cost)...)
	}
	return out, nil
}

// checkThreads does a round trip for each pair of a sender and a receiver, out with one pattern and
// back with another. With one tag for all a receiver cannot predict the message that it gets, so
// they all carry the same.
func (p *Pair) checkThreads(size int, round byte) (int, error) {
	wrong := make([]int, len(p.threads))
	err := p.each(func(t *thread) error {
		s, r := t.sbuf[:size], t.rbuf[:size]
		mine, theirs := round, round+128
		if !t.asks {
			mine, theirs = theirs, mine
		}
		pattern.Fill(s, mine)
		for i := t.index; i < t.pairs; i += t.step {
			pattern.Spoil(r, theirs)
			if err := t.roundTrips(s, r, i, i+1); err != nil {
				return err
			}
			wrong[t.index] += pattern.Wrong(r, theirs)
		}
		return nil
	})
	total := 0
	for _, n := range wrong {
		total += n
	}
	return total, err
}
