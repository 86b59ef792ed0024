package p2p

import "iter"

// comms is the table of a process's communicators that have not been freed. The contexts stand
// together, so that a search by context, at each creation and revocation, reads few cache lines.
type comms struct {
	contexts []uint64 // by place, as in Comm.ctx; noContext: the place is free
	places   []place
	free     []uint32
}

type place struct {
	c   *Comm // nil: free
	gen uint32
}

// noContext is not a context: contexts are in the upper half.
const noContext = 1

// Number identifies a communicator in this process, for layers that cannot hold a pointer, such as
// a C interface or a tool. Numbers are small and are reused with a new generation in the upper
// half, so that the number of a freed communicator finds nothing.
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

// all iterates over the communicators. It may or may not include one that is added meanwhile.
func (s *comms) all() iter.Seq[*Comm] {
	return func(yield func(*Comm) bool) {
		for i := range s.places {
			if c := s.places[i].c; c != nil && !yield(c) {
				return
			}
		}
	}
}

// find returns the communicator with a context, or nil. Bits that are set in anyway are ignored.
func (s *comms) find(ctx, anyway uint64) *Comm {
	ctx |= anyway
	for i, have := range s.contexts {
		if have|anyway == ctx {
			return s.places[i].c
		}
	}
	return nil
}

// Number identifies the communicator until it is freed.
func (c *Comm) Number() Number { return c.number }

// CommByNumber returns the communicator with a number, or nil if it does not exist or has been
// freed.
func (e *Engine) CommByNumber(n Number) *Comm {
	e.p.Lock()
	defer e.p.Unlock()
	if i := uint64(uint32(n)); i < uint64(len(e.comms.places)) && e.comms.places[i].gen == uint32(n>>32) {
		return e.comms.places[i].c
	}
	return nil
}

// contextInUse reports whether a communicator has a context, or will have it with its first
// collective.
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
