package p2p

import (
	"cmp"
	"iter"
	"slices"

	"github.com/banyan-hpc/banyan/internal/few"
	"github.com/banyan-hpc/banyan/internal/proc"
)

const linkPage = 64

// links is the table of an engine's links by process id.
type links struct {
	pages  []*[linkPage]*link
	sparse bool // few has them, and there are no pages
	few    few.Map[proc.ID, *link]
	// byRank has the place of Comm.links in a sparse engine.
	byRank few.Map[rankKey, *link]
}

// rankKey is a rank of a communicator.
type rankKey struct {
	ctx  uint32
	rank int32
}

func (c *Comm) rankKey(rank int) rankKey { return rankKey{c.Context(), int32(rank)} }

func (t *links) get(peer proc.ID) *link {
	if i := int(peer / linkPage); i < len(t.pages) && t.pages[i] != nil {
		return t.pages[i][peer%linkPage]
	}
	return t.few.Get(peer)
}

func (t *links) put(l *link) {
	if t.sparse {
		t.few.Put(l.peer, l)
		return
	}
	i := int(l.peer / linkPage)
	for len(t.pages) <= i {
		t.pages = append(t.pages, nil)
	}
	if t.pages[i] == nil {
		t.pages[i] = new([linkPage]*link)
	}
	t.pages[i][l.peer%linkPage] = l
}

// all iterates over the links in the order of process ids.
func (t *links) all() iter.Seq[*link] {
	return func(yield func(*link) bool) {
		for _, page := range t.pages {
			for i := 0; page != nil && i < linkPage; i++ {
				if l := page[i]; l != nil && !yield(l) {
					return
				}
			}
		}
		few := make([]*link, 0, t.few.Len())
		for _, l := range t.few.All() {
			few = append(few, l)
		}
		slices.SortFunc(few, func(a, b *link) int { return cmp.Compare(a.peer, b.peer) })
		for _, l := range few {
			if !yield(l) {
				return
			}
		}
	}
}

// sparseLink is link in a sparse engine; nil in others. Precondition: the lock is not held.
func (c *Comm) sparseLink(rank int) *link {
	if c.reach != 0 {
		return nil
	}
	c.e.p.Lock()
	defer c.e.p.Unlock()
	return c.e.links.byRank.Get(c.rankKey(rank))
}

// setLink fills a rank's entry in the table of links. Preconditions: the lock is held; the rank is in range.
func (c *Comm) setLink(rank int, l *link) {
	if c.reach == 0 {
		if c.state.Load()&stateFreed == 0 { // another communicator may get its context
			c.e.links.byRank.Put(c.rankKey(rank), l)
		}
		return
	}
	page := c.links[rank/linkPage].Load()
	if page == nil {
		page = new(linkTable)
		c.links[rank/linkPage].Store(page)
	}
	page[rank%linkPage].Store(l)
}

// dropLink undoes setLink. Precondition: the lock is held.
func (c *Comm) dropLink(rank int) {
	c.e.links.byRank.Delete(c.rankKey(rank))
	if c.link(rank) != nil {
		c.links[rank/linkPage].Load()[rank%linkPage].Store(nil)
	}
}

// forget drops the links of a freed communicator, whose context another one may get.
func (t *links) forget(c *Comm) {
	t.byRank.DeleteFunc(func(k rankKey, _ *link) bool { return k.ctx == c.Context() })
}
