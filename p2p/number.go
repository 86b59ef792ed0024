package p2p

// Number names a communicator in this process, as a request's index does a
// request: for who cannot hold a pointer, an interface to C or a tool that shows
// what a rank waits for. Numbers are small and come again, with a generation in
// the upper half, so that one of a communicator that was freed names nobody.
type Number uint64

// numbers is a table of communicators with a list of free places.
type numbers struct {
	places []numbered
	free   []uint32
}

type numbered struct {
	c   *Comm // nil: free
	gen uint32
}

func (t *numbers) take(c *Comm) Number {
	if n := len(t.free); n > 0 {
		i := t.free[n-1]
		t.free = t.free[:n-1]
		t.places[i].c = c
		return Number(t.places[i].gen)<<32 | Number(i)
	}
	t.places = append(t.places, numbered{c: c})
	return Number(len(t.places) - 1)
}

func (t *numbers) drop(n Number) {
	p := &t.places[uint32(n)]
	p.c = nil
	p.gen++
	t.free = append(t.free, uint32(n))
}

// Number names the communicator until it is freed.
func (c *Comm) Number() Number { return c.handle }

// Numbered gives the communicator of that number, or nil: there is none, or it
// has been freed.
func (e *Engine) Numbered(n Number) *Comm {
	e.p.Lock()
	defer e.p.Unlock()
	if i := uint64(uint32(n)); i < uint64(len(e.numbers.places)) && e.numbers.places[i].gen == uint32(n>>32) {
		return e.numbers.places[i].c
	}
	return nil
}
