package p2p

import "slices"

// comms are the communicators of a process that have not been freed. To look through them for a context is to look at a few lines of
// the cache, not at one for each communicator: it is done whenever one is made or revoked.
type comms struct {
	all      []*Comm
	contexts []uint64 // of each, as in Comm.ctx
}

func (s *comms) add(c *Comm) {
	s.all, s.contexts = append(s.all, c), append(s.contexts, c.ctx)
}

func (s *comms) remove(c *Comm) {
	if i := slices.Index(s.all, c); i >= 0 {
		s.all, s.contexts = slices.Delete(s.all, i, i+1), slices.Delete(s.contexts, i, i+1)
	}
}

// with gives the one that has a context when the bits that are set in any are set in it, too; or nil.
func (s *comms) with(ctx, anyway uint64) *Comm {
	ctx |= anyway
	for i, have := range s.contexts {
		if have|anyway == ctx {
			return s.all[i]
		}
	}
	return nil
}

// newPair makes a communicator and that of its collectives. Where their tables of links are large they do not lie together,
// since a validate replaces the second.
func newPair(size int) (c, coll *Comm) {
	if size > linkPage {
		return new(Comm), new(Comm)
	}
	both := new(struct{ comm, coll Comm })
	return &both.comm, &both.coll
}
