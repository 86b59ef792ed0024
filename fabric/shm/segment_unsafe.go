package shm

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/internal/futex"
	"github.com/banyan-hpc/banyan/internal/nodemem"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/release"
	"github.com/banyan-hpc/banyan/internal/robust"
)

// Why unsafe: the structures below overlay mappings that other processes share. Each is reached by
// a fixed offset inside a mapping whose size the geometry fixes and whose seals or descriptor were
// checked.

// header is the first page of a segment. Its owner writes it before any process has the address;
// afterwards only state, fenced, endSpread, turn, bell, knocks and deaths change.
type header struct {
	magic      uint64
	version    uint32
	membarrier uint32 // 1: the owner can wake itself by membarrier; else senders need a barrier
	token      [tokenBytes]byte
	// state of the endpoint. Written by its owner, which checks for newcomers afterwards; read by
	// newcomers after they have knocked. So one of them sees the other.
	state atomic.Uint32
	// fenced: 1 once a peer kills the owner because it was silent. Written by that peer before the
	// kill; read by the processes that see the owner's end.
	fenced atomic.Uint32
	// endSpread: 1 once a peer has notified others of the owner's end; see Provider.notifyPeers.
	endSpread atomic.Uint32
	// turn is odd while the owner, which shares its cores with others, has one and does not yield.
	turn atomic.Uint32
	_    [16]byte
	bell futex.Bell
	// knocks: incremented by every process that has set its bit in the bitmap; read by the owner in
	// every Poll.
	knocks atomic.Uint32
	// deaths: incremented by notifyPeers; read like knocks.
	deaths atomic.Uint32
	_      [56]byte
}

// The values of header.state, beside 0: open.
const (
	stateDeparted = 1
	stateClosed   = 2 // without departing, which is a failure
)

// knocksAt is where the bitmap of newcomers is in the header's page, if there is room for it. A block
// has its markers there.
const knocksAt = 256

// The header's page ends with the robust words. The owner's holder thread holds them; when it ends,
// the kernel marks them and wakes the process whose word it is. Peers set the bit that asks for the
// wake-up when they connect, and clear it while they poll.
const (
	wordsAt  = 2048
	maxWords = (headerBytes - wordsAt) / 8
)

// words are all robust words in use: one for each process id, or one for several.
func (s *segment) words() []robust.Word {
	return unsafe.Slice((*robust.Word)(unsafe.Pointer(&s.header[wordsAt])), min(s.procs, maxWords))
}

// word is the one on which process id watches the owner.
func (s *segment) word(id proc.ID) *robust.Word {
	w := s.words()
	return &w[int(id)%len(w)]
}

// marker is a line in the header of a block that its owner writes to and the others read; see distance.
type marker struct {
	word uint64
	_    [56]byte
}

// touch changes it. Only the owner calls it, one goroutine at a time.
func (m *marker) touch() { release.Store64(&m.word, m.word+1) }

// load is for the others.
func (m *marker) load() uint64 { return atomic.LoadUint64(&m.word) }

const markersAt = 1024

func (s *segment) markers() *[markers]marker {
	return (*[markers]marker)(unsafe.Pointer(&s.header[markersAt]))
}

// entry starts a page with the address of the connecting process. Written by that process before it
// sets its bit, read once by the owner.
type entry struct {
	length  uint32
	address [cursorsAt - 4]byte
}

const cursorsAt = 128

// segment is a process's own memory, or the mapped part of a peer's.
type segment struct {
	geometry
	fd     int    // -1 of a peer's
	header []byte // header and knock bitmap, and the memory mapped with them
	pages  []byte // of a peer's up to that of this process
	rings  []byte // all long rings of the own segment, and its boards; one ring of a peer's
	// front is the file of the memory of header and pages. shared: that memory is a part of node, the mapping
	// of the fronts of all processes of the machine that have such a place.
	front  front
	shared bool
	node   []byte
}

func (s *segment) head() *header { return (*header)(unsafe.Pointer(unsafe.SliceData(s.header))) }

func (s *segment) knockWord(i int) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(&s.header[s.knockOffset()+8*int64(i)]))
}

func entryOf(page []byte) *entry { return (*entry)(unsafe.Pointer(unsafe.SliceData(page))) }

// page is the page of process id in this segment, which that process writes.
func (s *segment) page(id proc.ID) []byte {
	at := int64(id) * pageBytes
	return s.pages[at : at+slotBytes : at+slotBytes]
}

// ringOf is the long ring of process id in the own segment.
func (s *segment) ringOf(id proc.ID) []byte {
	at := int64(id) * s.ringBytes()
	return s.rings[at : at+s.ringBytes() : at+s.ringBytes()]
}

const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// createSegment makes this process's own segment, with memory for the header only.
func createSegment(cfg *Config) (*segment, error) {
	s := &segment{geometry: cfg.geometry(), fd: -1}
	if err := s.create(cfg); err != nil {
		return nil, errors.Join(err, s.close())
	}
	h := s.head()
	h.magic, h.version = magic, wireVersion
	if futex.Registered() {
		h.membarrier = 1
	}
	if _, err := rand.Read(h.token[:]); err != nil {
		return nil, errors.Join(fmt.Errorf("shm: token: %w", err), s.close())
	}
	if s.shared {
		if err := s.copyHeader(); err != nil {
			return nil, errors.Join(err, s.close())
		}
	}
	return s, nil
}

func (s *segment) create(cfg *Config) (err error) {
	if s.fd, err = openBacking(cfg.Dir); err != nil {
		return err
	}
	if err := unix.Ftruncate(s.fd, s.segmentBytes()); err != nil {
		return fmt.Errorf("shm: ftruncate: sizing the segment to %d MiB: %w", s.segmentBytes()>>20, err)
	}
	if cfg.Dir == "" {
		if _, err := unix.FcntlInt(uintptr(s.fd), unix.F_ADD_SEALS, seals); err != nil {
			return fmt.Errorf("shm: sealing the segment: fcntl: %w", err)
		}
	}
	s.front = front{fd: s.fd, pages: s.pageOffset(0)}
	if cfg.Node != (nodemem.Place{}) && cfg.Dir == "" {
		if err := s.joinNode(cfg.Node); err != nil {
			cfg.Log.Info("peers map this process's memory one by one", "reason", err)
		}
	}
	if !s.shared {
		if err := reserve(s.fd, 0, s.pageOffset(0)); err != nil {
			return err
		}
		if s.header, err = mapRange(s.fd, 0, s.ringOffset(0)); err != nil {
			return err
		}
		s.pages = s.header[s.pageOffset(0):]
	}
	s.rings, err = mapRange(s.fd, s.ringOffset(0), s.segmentBytes()-s.ringOffset(0))
	return err
}

func mapRange(fd int, offset, length int64) ([]byte, error) {
	return mapAs(unix.PROT_READ|unix.PROT_WRITE, fd, offset, length)
}

// mapToRead is mapRange of memory that must not change: a store ends the process.
func mapToRead(fd int, offset, length int64) ([]byte, error) {
	return mapAs(unix.PROT_READ, fd, offset, length)
}

func mapAs(protection, fd int, offset, length int64) ([]byte, error) {
	b, err := unix.Mmap(fd, offset, int(length), protection, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("shm: mapping %d KiB: mmap: %w%s", length>>10, err, remedy(err))
	}
	return b, nil
}

// openSegment opens the file of the peer's segment.
func (c *Conn) openSegment(s *segment, a *address) (err error) {
	if s.fd, err = c.findBacking(a); err != nil {
		return err
	}
	return s.checkSealed(c.p.cfg.Dir != "")
}

// mapRing maps this process's long ring in the peer's segment. backRing gives it memory.
func (c *Conn) mapRing() error {
	s := c.segment
	err := c.openSegment(s, &c.address)
	if err == nil {
		s.rings, err = mapRange(s.fd, s.ringOffset(c.p.cfg.Self), s.ringBytes())
	}
	return errors.Join(err, s.closeFile())
}

// backRing gives memory to a part of the long ring.
func (c *Conn) backRing(from, to uint64) (err error) {
	s := c.segment
	if !populates() {
		if err := c.openSegment(s, &c.address); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.closeFile()) }()
	}
	return s.back(s.fd, s.ringOffset(c.p.cfg.Self)+int64(from), s.rings[from:to])
}

// populates reports whether this kernel has MADV_POPULATE_WRITE: Linux 5.14 and later do.
var populates = sync.OnceValue(func() bool {
	page, err := unix.Mmap(-1, 0, pageBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return false
	}
	defer unix.Munmap(page)
	return unix.Madvise(page, unix.MADV_POPULATE_WRITE) == nil
})

// unmapRing ends the use of the long ring, whose memory the peer frees.
func (s *segment) unmapRing() error {
	ring := s.rings
	s.rings = nil
	return unix.Munmap(ring)
}

// back gives memory to a part of a file of the segment that is mapped at b, so that touching it cannot
// fail.
func (s *segment) back(fd int, offset int64, b []byte) error {
	if err := limits.take(int64(len(b))); err != nil {
		return err
	}
	if !populates() {
		return allocate(fd, offset, int64(len(b)))
	}
	whole := wholePages(b)
	err := populate(whole)
	for errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN) {
		err = populate(whole)
	}
	if errors.Is(err, unix.EFAULT) || errors.Is(err, unix.ENOMEM) || errors.Is(err, unix.ENOSPC) {
		return noSpace(int64(len(b)), err)
	}
	if err != nil {
		return fmt.Errorf("shm: reserving %d KiB: madvise: %w", len(b)>>10, err)
	}
	return nil
}

// wholePages is a part of a mapping from the beginning of its first page on.
func wholePages(b []byte) []byte {
	at := unsafe.Pointer(unsafe.SliceData(b))
	before := uintptr(at) % pageBytes
	return unsafe.Slice((*byte)(unsafe.Add(at, -int(before))), int(before)+len(b))
}

// knock writes our encoded address into our page of the peer's segment and wakes the peer.
func (s *segment) knock(id proc.ID, address []byte) {
	e := entryOf(s.page(id))
	e.length = uint32(copy(e.address[:], address))
	s.announce(id)
	s.head().bell.Summon()
}

// announce makes the peer look at our page, or at our ring.
func (s *segment) announce(id proc.ID) {
	s.knockWord(int(id / 64)).Or(1 << (id % 64))
	s.head().knocks.Add(1)
}

// errEmptySlot: no process has written an address into a page.
var errEmptySlot = errors.New("shm: the page is empty")

// knockAddress reads the address that a newcomer wrote into its page. Outside of the memory of the node it
// does not touch the mapping: a page without memory would get some, and fault where there is none.
func (s *segment) knockAddress(id proc.ID) (address, error) {
	var b [4 + addressBytes]byte
	if s.shared {
		copy(b[:], s.page(id))
	} else if err := pread(s.front.fd, b[:], s.front.page(id)); err != nil {
		return address{}, fmt.Errorf("shm: reading the page: %w", err)
	}
	switch binary.NativeEndian.Uint32(b[:]) {
	case 0:
		return address{}, errEmptySlot
	case addressBytes:
		return decodeAddress(b[4:])
	default:
		return address{}, errNotShm
	}
}

// free returns the memory of a process's page, and of its long ring, to the system. They are not used again:
// process ids are not reused. A page in the memory of the node stays, since another segment has a part of it.
func (s *segment) free(id proc.ID, ring bool) (err error) {
	if !s.shared {
		err = punch(s.front.fd, s.front.page(id), pageBytes)
	}
	if ring {
		err = errors.Join(err, s.freeRing(id))
	}
	return err
}

// freeRing returns the memory of a long ring, which is all zero when it is used again.
func (s *segment) freeRing(id proc.ID) error { return punch(s.fd, s.ringOffset(id), s.ringBytes()) }

func punch(fd int, offset, length int64) error {
	return unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, offset, length)
}

func (s *segment) closeFile() error {
	if s.fd < 0 {
		return nil
	}
	fd := s.fd
	s.fd = -1
	return unix.Close(fd)
}

func (s *segment) close() error {
	var errs []error
	if s.shared {
		s.header = nil
	}
	s.pages = nil
	if s.node != nil {
		errs = append(errs, unix.Close(s.front.fd))
	}
	for _, m := range []*[]byte{&s.header, &s.rings, &s.node} {
		if *m != nil {
			errs = append(errs, unix.Munmap(*m))
			*m = nil
		}
	}
	return errors.Join(append(errs, s.closeFile())...)
}
