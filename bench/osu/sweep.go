package osu

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/banyan-hpc/banyan"
)

// Latency measures the one-way time of each size. Both ranks of w call it with
// the same options; emit is called on rank 0 after each size, and its error
// ends the sweep on rank 0 with that error.
//
// Errors: options or a job that do not fit, a message that failed, and
// validation ([*CorruptError]) after the size has been emitted.
func Latency(w *banyan.World, o Options, emit func(Point) error) error {
	o.Window = 1
	return sweep(w, &o, emit, pass{
		unit:  func(p *Pair, size int) error { return p.pingPong(p.sbuf[:size], p.rbuf[:size], 1) },
		run:   func(p *Pair, size, n int) (time.Duration, error) { return p.Latency(size, n) },
		check: (*Pair).checkPingPong,
		count: 2,
	})
}

// Bandwidth measures the throughput of each size, see [Latency].
func Bandwidth(w *banyan.World, o Options, emit func(Point) error) error {
	return sweep(w, &o, emit, pass{
		unit:  func(p *Pair, size int) error { return p.windows(p.sbuf[:size], p.rbuf[:size], p.reqs, 1) },
		run:   func(p *Pair, size, n int) (time.Duration, error) { return p.Bandwidth(size, len(p.reqs), n) },
		check: (*Pair).checkWindow,
		count: o.Window,
	})
}

// pass is how one benchmark uses a Pair.
type pass struct {
	unit  func(p *Pair, size int) error                              // one iteration
	run   func(p *Pair, size, n int) (time.Duration, error)          // n iterations, timed
	check func(p *Pair, size int, round byte) (wrong int, err error) // one validated iteration
	count int                                                        // messages of an iteration that follow each other
}

func sweep(w *banyan.World, o *Options, emit func(Point) error, b pass) error {
	if err := o.Check(); err != nil {
		return err
	}
	p, err := NewPair(w, o.Max, o.Window)
	if err != nil {
		return err
	}
	for size := o.Min; size <= o.Max; size = max(1, 2*size) {
		pt, err := p.point(size, o, b)
		if err != nil {
			return fmt.Errorf("osu: %d bytes: %w", size, err)
		}
		if p.first {
			if err := emit(pt); err != nil {
				return err
			}
		}
		if pt.Errors > 0 {
			return &CorruptError{Size: size, Bytes: pt.Errors}
		}
	}
	return nil
}

// point does the passes for one size.
func (p *Pair) point(size int, o *Options, b pass) (Point, error) {
	n, warmup := o.counts(size)
	pt := Point{Size: size}
	if _, err := b.run(p, size, warmup); err != nil {
		return pt, err
	}
	elapsed, err := b.run(p, size, n)
	for err == nil {
		var next int
		if next, err = p.agree(raised(n, elapsed, o.MinTime)); err != nil || next == n {
			break
		}
		n = next
		elapsed, err = b.run(p, size, n)
	}
	if err != nil {
		return pt, err
	}
	pt.Iterations = n
	pt.Seconds = elapsed.Seconds() / float64(n) / float64(b.count)
	if len(o.Percentiles) > 0 {
		if pt.Percentiles, err = p.tail(size, n, o.Percentiles, b); err != nil {
			return pt, err
		}
	}
	if o.Validate {
		pt.Errors, err = p.validate(size, n, b)
	}
	return pt, err
}

// raised returns how many iterations make a pass take at least atLeast, given
// that n took elapsed; n if they did.
func raised(n int, elapsed, atLeast time.Duration) int {
	if elapsed >= atLeast {
		return n
	}
	factor := 1.1 * float64(atLeast) / float64(max(1, elapsed))
	return int(float64(n) * min(max(2, factor), 1000))
}

// agree returns rank 0's n on both ranks: only rank 0 knows how long a pass took.
func (p *Pair) agree(n int) (int, error) {
	var word [8]byte
	if p.first {
		binary.LittleEndian.PutUint64(word[:], uint64(n))
		return n, p.c.Send(word[:], p.peer, tagSync)
	}
	_, err := p.c.Recv(word[:], p.peer, tagSync)
	return int(binary.LittleEndian.Uint64(word[:])), err
}
