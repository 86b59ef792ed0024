package osu

import (
	"cmp"
	"sync/atomic"
	"time"
)

const (
	// putsEach is the number of puts of a ping-pong that share a flush, looksEach that of looks at the memory between two calls.
	putsEach, looksEach = 64, 1024
)

// PingPong does warmup and then n round trips: each rank puts a number into the other's memory and looks at its own, by loads
// and not by calls, until the other's number is there. It returns as Measure does.
func (r *Remote) PingPong(warmup, n int) (elapsed time.Duration, err error) {
	p := r.p
	p.remote.use(&putAccess)
	mine := wordAt(p.remote.memory)
	atomic.StoreUint64(mine, 0)
	if err := p.sync(); err != nil {
		return 0, err
	}
	err = p.remote.held(true, func() error {
		if err := p.remote.pingPong(mine, p.first, 1, warmup); err != nil {
			return err
		}
		elapsed, err = p.timed(func() error { return p.remote.pingPong(mine, p.first, warmup+1, warmup+n) })
		return err
	})
	return elapsed, cmp.Or(err, p.sync())
}

// pingPong exchanges the numbers from first to last.
func (r *remote) pingPong(mine *uint64, begins bool, first, last int) error {
	for i := first; i <= last; i++ {
		if !begins {
			if err := r.await(mine, uint64(i)); err != nil {
				return err
			}
		}
		at := word * (i % (min(putsEach, len(r.sbuf)/word)))
		if at == 0 { // the buffers of puts are used again
			if err := r.win.Flush(r.peer); err != nil {
				return err
			}
		}
		store(r.sbuf[at:], int64(i))
		if err := r.win.Put(r.sbuf[at:at+word], r.peer, 0); err != nil {
			return err
		}
		if begins {
			if err := r.await(mine, uint64(i)); err != nil {
				return err
			}
		}
	}
	return nil
}

// await looks at this rank's memory until a number is there. Now and then it has the library make progress.
func (r *remote) await(mine *uint64, number uint64) error {
	for looks := 1; atomic.LoadUint64(mine) != number; looks++ {
		if looks%looksEach == 0 {
			if err := r.win.Sync(); err != nil {
				return err
			}
		}
	}
	return nil
}
