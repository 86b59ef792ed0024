package p2p

import "iter"

// comms are the communicators of a process that have not been freed, each at a place. To look through them for a context is to look at a few
// lines of the cache, not at one for each communicator: it is done whenever one is made or revoked.
type comms struct {
	contexts []uint64 // by place, as in Comm.ctx; nowhere: the place is free
	places   []place
	free     []uint32
}

type place struct {
	c   *Comm // nil: free
	gen uint32
}

// noContext is no context: those are in the upper half.
const noContext = 1

// Number names a communicator in this process, as a request's index does a
// request: for who cannot hold a pointer, an interface to C or a tool that shows
// what a rank waits for. Numbers are small and come again, with a generation in
// the upper half, so that one of a communicator that was freed names nobody.
type Number uint64

func (s *comms) add(c *Comm) Number {
	if n := len(s.free); n > 0 {
		i := s.free[n-1]
		s.free = s.free[:n-1]
		s.contexts[i], s.places[i].c = c.ctx, c
		return Number(s.places[i].gen)<<32 | Number(i)
	}
	s.contexts, s.places = append(s.contexts, c.ctx), append(s.places, place{c: c})
	return Number(len(s.places) - 1)
}

func (s *comms) remove(n Number) {
	i := uint32(n)
	p := &s.places[i]
	s.contexts[i], p.c = noContext, nil
	p.gen++
	s.free = append(s.free, i)
}

// all gives each; one that is made meanwhile or not.
func (s *comms) all() iter.Seq[*Comm] {
	return func(yield func(*Comm) bool) {
		for i := range s.places {
			if c := s.places[i].c; c != nil && !yield(c) {
				return
			}
		}
	}
}

// find gives the one that has a context when the bits that are set in any are set in it, too; or nil.
func (s *comms) find(ctx, anyway uint64) *Comm {
	ctx |= anyway
	for i, have := range s.contexts {
		if have|anyway == ctx {
			return s.places[i].c
		}
	}
	return nil
}

// Number names the communicator until it is freed.
func (c *Comm) Number() Number { return c.number }

// CommByNumber gives the communicator of that number, or nil: there is none, or it
// has been freed.
func (e *Engine) CommByNumber(n Number) *Comm {
	e.p.Lock()
	defer e.p.Unlock()
	if i := uint64(uint32(n)); i < uint64(len(e.comms.places)) && e.comms.places[i].gen == uint32(n>>32) {
		return e.comms.places[i].c
	}
	return nil
}

// contextInUse reports whether a communicator that has not been freed has a context, or will have it with its first collective.
func (e *Engine) contextInUse(ctx uint32) bool {
	if e.comms.find(uint64(ctx)<<32, 0) != nil {
		return true
	}
	if ctx&collContext == 0 {
		return false
	}
	c := e.comms.find(uint64(ctx&^collContext)<<32, 0)
	return c != nil && c.coll.Load() == nil
}
