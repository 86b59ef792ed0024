package shm

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/banyan-hpc/banyan/fabric"
)

// theirs are the blocks of a peer from which messages have been read.
type theirs struct {
	mu     sync.RWMutex // held by readers while they copy
	mapped map[fabric.BlockName]*theirBlock
	recent atomic.Pointer[theirBlock] // the last one that was asked for, or nil
	closed bool
	claims *atomic.Uint64 // of messages to the peer; see split.go
	distance
}

// theirBlock is a block of a peer, mapped to be read.
type theirBlock struct {
	*segment
	write *segment // the same, mapped to be written; nil: it is not
	name  fabric.BlockName
	// views counts those that have not ended. From drop on it has the mark dropped, and the last view unmaps the block.
	views atomic.Int64
	end   func() error // release
}

const dropped = 1 << 32

func (b *theirBlock) close() error {
	if b.write == nil {
		return b.segment.close()
	}
	return errors.Join(b.segment.close(), b.write.close())
}

// hold adds a view; false: the block has been dropped.
func (b *theirBlock) hold() bool {
	for {
		n := b.views.Load()
		if n >= dropped {
			return false
		}
		if b.views.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// release ends a view.
func (b *theirBlock) release() error {
	if b.views.Add(-1) == dropped {
		return b.close()
	}
	return nil
}

// drop ends the use of a block that is in no map any more, but for views.
func (b *theirBlock) drop() error {
	if b.views.Add(dropped) == dropped {
		return b.close()
	}
	return nil
}

// View implements fabric.Viewer.
//
//banyan:decodes
func (c *Conn) View(remote fabric.Region, alone bool) (mem []byte, end func() error, err error) {
	if len(remote.Key) != len(fabric.BlockName{}) {
		return nil, nil, fabric.ErrUnsupported
	}
	if c.gone.Load() {
		return nil, nil, fabric.ErrPeerGone
	}
	b, err := c.theirs.holdBlock(c, fabric.BlockName(remote.Key))
	if err != nil {
		return nil, nil, err
	}
	all := b.header[pageBytes:]
	switch {
	case remote.Addr > uint64(len(all)) || remote.Len > uint64(len(all))-remote.Addr:
		err = fmt.Errorf("shm: view of %d bytes at %d of a block of %d", remote.Len, remote.Addr, len(all))
	case alone:
		mem, end, err = mapAgain(b.header, pageBytes+int(remote.Addr), int(remote.Len))
	default:
		return all[remote.Addr:][:remote.Len:remote.Len], b.end, nil
	}
	return mem, end, errors.Join(err, b.release())
}

// holdBlock is block with a view of it.
func (t *theirs) holdBlock(c *Conn, name fabric.BlockName) (*theirBlock, error) {
	if b := t.recent.Load(); b != nil && b.name == name && b.hold() {
		return b, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	b, err := c.block(name)
	if err == nil {
		b.hold() // it is in the map
	}
	return b, err
}

// ReadNow copies memory of the peer's block, without its registration, if the block is mapped; else it does nothing. Any
// goroutine may call it.
//
//banyan:decodes
func (c *Conn) ReadNow(local []byte, remote fabric.Region) bool {
	if len(remote.Key) != len(fabric.BlockName{}) || c.gone.Load() {
		return false
	}
	got, err := c.theirs.read(local, fabric.BlockName(remote.Key), remote.Addr)
	return got && err == nil
}

// readBlock copies from a block of the peer. Any goroutine may call it.
//
//banyan:decodes
func (c *Conn) readBlock(local []byte, key []byte, at uint64) error {
	if len(key) != len(fabric.BlockName{}) {
		return errors.New("shm: the name of no block")
	}
	name := fabric.BlockName(key)
	for len(local) > 0 { // in pieces, so that a goroutine that ends the use waits for one piece
		piece := local[:min(len(local), maxCopy)]
		got, err := c.theirs.read(piece, name, at)
		switch {
		case err != nil:
			return err
		case got:
			local, at = local[len(piece):], at+uint64(len(piece))
		default:
			if err := c.addBlock(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// read copies a piece; false: the block has not been mapped.
func (t *theirs) read(piece []byte, name fabric.BlockName, at uint64) (bool, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	s := t.find(name)
	if s == nil {
		return false, nil
	}
	mem := s.header[pageBytes:]
	if at > uint64(len(mem)) || uint64(len(piece)) > uint64(len(mem))-at {
		return false, fmt.Errorf("shm: get of %d bytes at %d from a block of %d", len(piece), at, len(mem))
	}
	t.copy(piece, mem[at:][:len(piece)], s.segment)
	return true, nil
}

// addBlock maps one more block of the peer.
func (c *Conn) addBlock(name fabric.BlockName) error {
	c.theirs.mu.Lock()
	defer c.theirs.mu.Unlock()
	_, err := c.block(name)
	return err
}

// block returns a block of the peer. If it is not mapped yet, block maps it, and ends the use of blocks that the
// peer has closed. Precondition: mu of theirs is held.
func (c *Conn) block(name fabric.BlockName) (*theirBlock, error) {
	t := &c.theirs
	if t.closed {
		return nil, fabric.ErrPeerGone
	}
	if b := t.find(name); b != nil {
		return b, nil
	}
	for name, b := range t.mapped {
		if b.head().state.Load() == stateClosed {
			t.recent.CompareAndSwap(b, nil)
			delete(t.mapped, name)
			_ = b.drop() // it can only fail to unmap
		}
	}
	s, err := c.mapBlock(name, 0)
	if err != nil {
		return nil, err
	}
	if t.mapped == nil {
		t.mapped = make(map[fabric.BlockName]*theirBlock)
	}
	b := &theirBlock{segment: s, name: name}
	b.end = b.release
	t.mapped[name] = b
	return b, nil
}

// find returns a mapped block, or nil. Precondition: mu is held, to read at least.
func (t *theirs) find(name fabric.BlockName) *theirBlock {
	if b := t.recent.Load(); b != nil && b.name == name {
		return b
	}
	b := t.mapped[name]
	if b != nil {
		t.recent.Store(b)
	}
	return b
}

// close ends the use of all, when no reader is there.
func (t *theirs) close() (err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	t.recent.Store(nil)
	for _, b := range t.mapped {
		err = errors.Join(err, b.drop())
	}
	t.mapped = nil
	return err
}

var _ fabric.Viewer = (*Conn)(nil)
