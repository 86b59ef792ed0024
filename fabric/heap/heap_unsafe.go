package heap

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"unsafe"

	"github.com/banyan-hpc/banyan/fabric"
)

// ErrForeign: memory that Alloc has not given, or that is free already.
var ErrForeign = errors.New("heap: no allocated memory begins there")

// ErrLimit: the memory would exceed the limit.
var ErrLimit = errors.New("heap: the limit of registered memory is reached")

// Heap is the memory of one process. Any goroutine may call its methods.
type Heap struct {
	blocks fabric.Blocks // nil: ordinary memory
	mu     sync.Mutex
	areas  []*area
	used   map[*byte]piece
	report Report
	limit  func() int64
	// adapters register the areas.
	adapters []fabric.Registrar
}

// Report is the use of a heap, in bytes.
type Report struct {
	Used, Peak int // by the application
	Held       int // in blocks
	Pieces     int // allocated
	Limit      int // of Used; 0: not known before the first Alloc
}

// area is a block, or ordinary memory in its place.
type area struct {
	mem   []byte
	block bool
	free  []extent // in order, never adjacent
	clean int      // from here on nothing has been given yet, and all is zero
}

// extent is a range of an area.
type extent struct{ at, n int }

type piece struct {
	of *area
	extent
}

const (
	// large is the length from which memory has a block of its own.
	large = 1 << 20
	// firstArea and mostArea bound the blocks that are shared; each is twice the last one.
	firstArea = 1 << 20
	mostArea  = 16 << 20
	line      = 64
	page      = 4096
)

// New makes an empty heap. limit gives the most bytes that it gives, and is called once, by the first Alloc.
func New(blocks fabric.Blocks, limit func() int64) *Heap {
	return &Heap{blocks: blocks, used: make(map[*byte]piece), limit: limit}
}

// RegisterWith has providers register the memory that is given. Call it before the first Alloc.
func (h *Heap) RegisterWith(r fabric.Registrar) { h.adapters = append(h.adapters, r) }

// Alloc allocates n zeroed bytes, aligned to a cache line, or to a page from the size of a page on. Errors
// are ErrLimit and those of [fabric.Blocks].
func (h *Heap) Alloc(n int) ([]byte, error) {
	if n <= 0 {
		return nil, fmt.Errorf("heap: %d bytes", n)
	}
	unit := line
	if n >= page {
		unit = page
	}
	size := (n + unit - 1) &^ (unit - 1)
	if size < n {
		return nil, fmt.Errorf("heap: %d bytes", n)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.fits(size); err != nil {
		return nil, err
	}
	p, err := h.take(size, unit)
	if err != nil {
		return nil, err
	}
	mem := p.of.mem[p.at:][:n:n]
	clear(mem[:min(n, max(0, p.of.clean-p.at))])
	p.of.clean = max(p.of.clean, p.at+p.n)
	h.used[&mem[0]] = p
	h.report.Used += p.n
	h.report.Peak = max(h.report.Peak, h.report.Used)
	return mem, nil
}

// Fits is the error of an Alloc of n bytes at the limit, or nil.
func (h *Heap) Fits(n int) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.fits(n)
}

func (h *Heap) fits(size int) error {
	r := &h.report
	if r.Limit == 0 {
		r.Limit = int(min(h.limit(), math.MaxInt))
	}
	if size > r.Limit-r.Used {
		return fmt.Errorf("%w: %d KiB more exceed %d KiB, of which %d are in use: raise BANYAN_MEMORY_LIMIT or "+
			"WithMemoryLimit, or free some", ErrLimit, size>>10, r.Limit>>10, r.Used>>10)
	}
	return nil
}

// take finds room, or makes it. Precondition: mu is held, as for the functions below.
func (h *Heap) take(size, unit int) (piece, error) {
	if size < large {
		for _, a := range h.areas {
			if at, ok := a.take(size, unit); ok {
				return piece{a, extent{at, size}}, nil
			}
		}
	}
	length := size
	if size < large {
		length = min(firstArea<<min(len(h.areas), 8), mostArea)
	}
	a, err := h.newArea(length)
	if err != nil {
		return piece{}, err
	}
	at, _ := a.take(size, unit)
	return piece{a, extent{at, size}}, nil
}

func (h *Heap) newArea(length int) (*area, error) {
	a := &area{free: []extent{{0, length}}}
	if h.blocks != nil {
		mem, _, err := h.blocks.MakeBlock(length)
		switch {
		case err == nil:
			a.mem, a.block = mem, true
		case !errors.Is(err, fabric.ErrUnsupported):
			return nil, err
		}
	}
	if a.mem == nil {
		a.mem = ordinary(length)
	}
	for _, r := range h.adapters {
		r.Register(a.mem)
	}
	h.areas = append(h.areas, a)
	h.report.Held += length
	return a, nil
}

// ordinary is memory of the Go heap that begins on a page.
func ordinary(n int) []byte {
	b := make([]byte, n+page)
	skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) & (page - 1)
	return b[skip:][:n:n]
}

// take takes the first extent that is long enough.
func (a *area) take(size, unit int) (at int, ok bool) {
	for i, e := range a.free {
		at = (e.at + unit - 1) &^ (unit - 1)
		end := e.at + e.n
		if at+size > end {
			continue
		}
		var rest []extent
		if at > e.at {
			rest = append(rest, extent{e.at, at - e.at})
		}
		if at+size < end {
			rest = append(rest, extent{at + size, end - at - size})
		}
		a.free = slices.Replace(a.free, i, i+1, rest...)
		return at, true
	}
	return 0, false
}

// give is the inverse.
func (a *area) give(e extent) {
	i, _ := slices.BinarySearchFunc(a.free, e, func(x, y extent) int { return x.at - y.at })
	a.free = slices.Insert(a.free, i, e)
	for _, k := range []int{i, i - 1} { // join with the next one, and with the one before
		if k >= 0 && k+1 < len(a.free) && a.free[k].at+a.free[k].n == a.free[k+1].at {
			a.free[k].n += a.free[k+1].n
			a.free = slices.Delete(a.free, k+1, k+2)
		}
	}
}

// Whole is the memory of Alloc that begins with b, and is rounded up; nil for other memory.
func (h *Heap) Whole(b []byte) []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	p, ok := h.used[unsafe.SliceData(b)]
	if cap(b) == 0 || !ok {
		return nil
	}
	return p.of.mem[p.at:][:p.n]
}

// Free frees memory of Alloc, as a whole. It must not be used any more. Error: ErrForeign.
func (h *Heap) Free(b []byte) error {
	if cap(b) == 0 {
		return ErrForeign
	}
	first := unsafe.SliceData(b)
	h.mu.Lock()
	defer h.mu.Unlock()
	p, ok := h.used[first]
	if !ok {
		return ErrForeign
	}
	delete(h.used, first)
	h.report.Used -= p.n
	a := p.of
	a.give(p.extent)
	if whole := a.free[0].n == len(a.mem); !whole || len(h.areas) == 1 && len(a.mem) < large+1 {
		return nil
	}
	h.areas = slices.DeleteFunc(h.areas, func(x *area) bool { return x == a })
	h.report.Held -= len(a.mem)
	for _, r := range h.adapters {
		r.Deregister(a.mem)
	}
	if a.block {
		return h.blocks.CloseBlock(a.mem)
	}
	return nil
}

// Report counts.
func (h *Heap) Report() Report {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.report
	r.Pieces = len(h.used)
	return r
}
