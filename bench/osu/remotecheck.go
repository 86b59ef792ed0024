package osu

import (
	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/pattern"
)

// checkAccess is an iteration with patterns: afterwards each rank checks its memory, and an origin the
// data that it has read.
func (p *Pair) checkAccess(size int, f form, round byte) (wrong int, err error) {
	r, me := p.remote, byte(p.c.Rank())
	mine, theirs := seedsOf(me, round), seedsOf(1-me, round)
	accesses, accessed := p.first || r.takesTurns(f), !p.first || r.takesTurns(f)
	n := size * min(f.count, r.places(size))
	if err := p.sync(); err != nil { // a target does not wait for the end of the timed part
		return 0, err
	}
	if err := r.owned(func() { pattern.Fill(r.memory[:n], mine.memory) }); err != nil {
		return 0, err
	}
	if r.access.data {
		pattern.Fill(r.sbuf[:n], mine.data)
	}
	switch {
	case r.access.compares:
		pattern.Fill(r.rbuf[:n], theirs.memory)
	case r.access.old:
		pattern.Spoil(r.rbuf[:n], theirs.memory)
	}
	if err := p.sync(); err != nil {
		return 0, err
	}
	if err := r.held(p.first, func() error { return p.accessOnce(size, f) }); err != nil {
		return 0, err
	}
	if err := p.sync(); err != nil {
		return 0, err
	}
	err = r.owned(func() { wrong = unequal(r.memory[:n], r.access.after(n, mine, theirs, accessed)) })
	if r.access.old && accesses {
		wrong += unequal(r.rbuf[:n], r.access.after(n, theirs, mine, r.access.compares))
	}
	return wrong, err
}

// seeds are those of the patterns of a rank: of its memory, and of the data that it puts into the
// other's.
type seeds struct{ memory, data byte }

func seedsOf(rank, round byte) seeds { return seeds{round + 128 + 64*rank, round + 64*rank} }

// takesTurns reports whether the target has its turn as an origin.
func (r *remote) takesTurns(f form) bool { return r.way.active() && f.shape != oneWay }

// owned runs the function while no rank accesses this rank's memory.
func (r *remote) owned(run func()) error {
	if err := r.win.Lock(banyan.LockExclusive, 1-r.peer); err != nil {
		return err
	}
	run()
	return r.win.Unlock(1 - r.peer)
}

// after returns n expected bytes of an owner's memory, after an access of the origin or without.
func (a *access) after(n int, owner, origin seeds, accessed bool) []byte {
	memory, data := make([]byte, n), make([]byte, n)
	pattern.Fill(memory, owner.memory)
	pattern.Fill(data, origin.data)
	if accessed && a.turn != nil {
		a.turn(memory, data)
	}
	return memory
}

// unequal counts the bytes that differ.
func unequal(got, want []byte) (wrong int) {
	for i, b := range got {
		if b != want[i] {
			wrong++
		}
	}
	return wrong
}
