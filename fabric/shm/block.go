package shm

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// A block is a file of its own: a page with the header of a segment, then the memory. Its owner keeps the
// descriptor, by which peers find it as they find a segment, until it closes the block.
//
// A message that lies in a block of its sender is announced by the block's name. The receiver maps the
// block and copies from there, without a system call. It keeps the mapping, until the owner has closed
// the block and the receiver meets another one.

// blocks are the blocks that this process uses, by their first byte.
type blocks struct {
	mu   sync.Mutex
	used map[*byte]*segment // header holds all of the file
	own  atomic.Pointer[[]ownBlock]
}

// ownBlock is a block of this process. They are in the order of their addresses.
type ownBlock struct {
	from, n uint64 // address and length
	name    fabric.BlockName
	markers *[markers]marker
}

// holding gives the block of this process that holds memory, or nil. Any goroutine may call it.
func (b *blocks) holding(from, n uint64) *ownBlock {
	list := b.own.Load()
	if list == nil || len(*list) == 0 || from < (*list)[0].from {
		return nil
	}
	i := len(*list) - 1
	if (*list)[i].from > from {
		i = sort.Search(i, func(i int) bool { return (*list)[i].from > from }) - 1
	}
	if o := &(*list)[i]; from-o.from <= o.n && n <= o.n-(from-o.from) {
		return o
	}
	return nil
}

// publish changes the list of own blocks. Precondition: mu is held.
func (b *blocks) publish(change func([]ownBlock) []ownBlock) {
	var list []ownBlock
	if old := b.own.Load(); old != nil {
		list = slices.Clone(*old)
	}
	list = change(list)
	slices.SortFunc(list, func(x, y ownBlock) int { return cmp.Compare(x.from, y.from) })
	b.own.Store(&list)
}

// blockBytes is the length of the file of a block.
func blockBytes(n int) int64 { return pageBytes + (int64(n)+pageBytes-1)&^(pageBytes-1) }

// MakeBlock implements fabric.Blocks.
func (p *Provider) MakeBlock(n int) (mem []byte, name fabric.BlockName, err error) {
	s := &segment{fd: -1}
	if err := s.createBlock(&p.cfg, blockBytes(n)); err != nil {
		return nil, name, errors.Join(err, s.close())
	}
	h := s.head()
	if _, err := rand.Read(h.token[:]); err != nil {
		return nil, name, errors.Join(fmt.Errorf("shm: token: %w", err), s.close())
	}
	h.magic, h.version = magic, wireVersion
	binary.LittleEndian.PutUint32(name[:], uint32(s.fd))
	copy(name[blockToken:], h.token[:])
	mem = p.blocks.keep(s, n)
	p.blocks.mu.Lock()
	p.blocks.publish(func(list []ownBlock) []ownBlock {
		return append(list, ownBlock{addressOf(mem), uint64(n), name, s.markers()})
	})
	p.blocks.mu.Unlock()
	return mem, name, nil
}

// blockToken is where the token lies in a name.
const blockToken = 8

func (s *segment) createBlock(cfg *Config, size int64) (err error) {
	if err := checkMachine(os.DirFS("/"), size); err != nil {
		return err
	}
	if s.fd, err = openBacking(cfg.Dir); err != nil {
		return err
	}
	if err := unix.Ftruncate(s.fd, size); err != nil {
		return fmt.Errorf("shm: ftruncate: sizing a block to %d MiB: %w", size>>20, err)
	}
	if cfg.Dir == "" {
		if _, err := unix.FcntlInt(uintptr(s.fd), unix.F_ADD_SEALS, seals); err != nil {
			return fmt.Errorf("shm: sealing a block: fcntl: %w", err)
		}
	}
	if s.header, err = mapRange(s.fd, 0, size); err != nil {
		return err
	}
	if size >= hugeBytes {
		_ = unix.Madvise(s.header, unix.MADV_HUGEPAGE) // where the system has them
	}
	return s.back(s.fd, 0, s.header)
}

const hugeBytes = 2 << 20

func (b *blocks) keep(s *segment, n int) []byte {
	mem := s.header[pageBytes:][:n:n]
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used == nil {
		b.used = make(map[*byte]*segment)
	}
	b.used[&mem[0]] = s
	return mem
}

// OpenBlock implements fabric.Blocks.
//
//banyan:decodes
func (p *Provider) OpenBlock(owner proc.ID, name fabric.BlockName, n int) ([]byte, error) {
	c := p.conns[owner]
	switch {
	case c == nil || !c.live:
		return nil, fabric.ErrPeerGone
	case n < 1 || int64(n) > mostBlock:
		return nil, fmt.Errorf("shm: a block of %d bytes", n)
	}
	s, err := c.mapBlock(name, blockBytes(n))
	if err != nil {
		return nil, err
	}
	return p.blocks.keep(s, n), nil
}

// BlockOf implements fabric.Blocks.
func (p *Provider) BlockOf(mem []byte) (name fabric.BlockName, length, at int, ok bool) {
	o := p.blocks.holding(addressOf(mem), uint64(len(mem)))
	if o == nil {
		return name, 0, 0, false
	}
	return o.name, int(o.n), int(addressOf(mem) - o.from), true
}

// mapBlock maps a block of the peer, of a file with so many bytes; 0: of any length, to read only.
func (c *Conn) mapBlock(name fabric.BlockName, size int64) (*segment, error) {
	if binary.LittleEndian.Uint32(name[4:]) != 0 {
		return nil, errors.New("shm: the name of no block")
	}
	a := c.address
	a.fd, a.token = binary.LittleEndian.Uint32(name[:]), [tokenBytes]byte(name[blockToken:])
	fd, err := c.findBacking(&a)
	if err != nil {
		return nil, err
	}
	s, mapping := &segment{fd: fd}, mapRange
	if size == 0 {
		mapping = mapToRead
		size, err = fileLength(fd)
	}
	if err == nil {
		err = checkFile(fd, size, size, c.p.cfg.Dir != "")
	}
	if err == nil {
		s.header, err = mapping(fd, 0, size)
	}
	if err = errors.Join(err, s.closeFile()); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func fileLength(fd int) (int64, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, fmt.Errorf("shm: looking at a block: fstat: %w", err)
	}
	if st.Size <= pageBytes || st.Size > blockBytes(mostBlock) {
		return 0, fmt.Errorf("shm: a block of %d bytes", st.Size)
	}
	return st.Size, nil
}

// mostBlock bounds the length of a block.
const mostBlock = 1 << 46

// CloseBlock implements fabric.Blocks.
func (p *Provider) CloseBlock(mem []byte) error {
	b := &p.blocks
	b.mu.Lock()
	s := b.used[&mem[0]]
	delete(b.used, &mem[0])
	if s != nil && s.fd >= 0 { // its own
		s.head().state.Store(stateClosed)
		from := addressOf(mem)
		b.publish(func(list []ownBlock) []ownBlock {
			return slices.DeleteFunc(list, func(o ownBlock) bool { return o.from == from })
		})
	}
	b.mu.Unlock()
	if s == nil {
		return errors.New("shm: no block begins there")
	}
	return s.close()
}

// close closes the files. Mappings stay, as the application may still read them.
func (b *blocks) close() (err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.used {
		err = errors.Join(err, s.closeFile())
	}
	b.used = nil
	return err
}

var _ fabric.Blocks = (*Provider)(nil)
