package p2p

import "iter"

// comms is the table of a process's communicators that have not been freed. The contexts stand
// together, so that a search by context, at each creation and revocation, reads few cache lines.
type comms struct {
	contexts []uint64 // as in Comm.ctx; noContext: the place is free
	places   []*Comm  // nil: free
	free     []int32
}

// noContext is not a context: contexts are in the upper half.
const noContext = 1

func (s *comms) add(c *Comm) {
	if n := len(s.free); n > 0 {
		c.place = s.free[n-1]
		s.free = s.free[:n-1]
		s.contexts[c.place], s.places[c.place] = c.ctx, c
		return
	}
	c.place = int32(len(s.places))
	s.contexts, s.places = append(s.contexts, c.ctx), append(s.places, c)
}

func (s *comms) remove(c *Comm) {
	s.contexts[c.place], s.places[c.place] = noContext, nil
	s.free = append(s.free, c.place)
}

// all iterates over the communicators. It may or may not include one that is added meanwhile.
func (s *comms) all() iter.Seq[*Comm] {
	return func(yield func(*Comm) bool) {
		for i := range s.places {
			if c := s.places[i]; c != nil && !yield(c) {
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
			return s.places[i]
		}
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
