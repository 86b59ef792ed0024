package shm

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/futex"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/robust"
)

// Why unsafe: the structures below overlay mappings that other processes share. Each is reached by
// a fixed offset inside a mapping whose size the geometry fixes and whose seals or descriptor were
// checked.

// header is the first page of a segment. Its owner writes it before any process has the address;
// afterwards only state, fenced, endSpread, bell and knocks change.
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
	_         [20]byte
	bell      futex.Bell
	// knocks: incremented by every process that has written its address into its slot and its bit
	// into the bitmap, and by notifyPeers; read by the owner in every Poll.
	knocks atomic.Uint32
	_      [60]byte
}

// The values of header.state, beside 0: open.
const (
	stateDeparted = 1
	stateClosed   = 2 // without departing, which is a failure
)

// The header's page ends with the robust words. The owner's holder thread holds them; when it ends,
// the kernel marks them and wakes the process whose word it is. Peers set the bit that asks for the
// wake-up when they connect.
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

// slotEntry starts a slot's first page with the address of the connecting process. Written by that
// process before it sets its bit, read once by the owner.
type slotEntry struct {
	length  uint32
	address [cursorsAt - 4]byte
}

const cursorsAt = 256

// segment is a process's own memory, or the mapped part of a peer's.
type segment struct {
	geometry
	fd     int    // -1 of a peer's
	header []byte // header and knock bitmap
	slots  []byte // all slots of the own segment; one slot of a peer's
}

func (s *segment) head() *header { return (*header)(unsafe.Pointer(unsafe.SliceData(s.header))) }

func (s *segment) knockWord(i int) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(&s.header[headerBytes+8*i]))
}

func entryOf(slot []byte) *slotEntry { return (*slotEntry)(unsafe.Pointer(unsafe.SliceData(slot))) }

// slot is the slot of id in the own segment.
func (s *segment) slot(id proc.ID) []byte {
	at := int64(id) * s.slotBytes()
	return s.slots[at : at+s.slotBytes() : at+s.slotBytes()]
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
	if err := reserve(s.fd, 0, s.slotOffset(0)); err != nil {
		return err
	}
	if s.header, err = mapRange(s.fd, 0, s.slotOffset(0)); err != nil {
		return err
	}
	s.slots, err = mapRange(s.fd, s.slotOffset(0), s.segmentBytes()-s.slotOffset(0))
	return err
}

// The names by which peers distinguish a segment from another file with the same descriptor number.
const (
	memfdName  = "banyan-shm"
	filePrefix = "banyan-"
)

func openBacking(dir string) (int, error) {
	if dir == "" {
		fd, err := unix.MemfdCreate(memfdName, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
		if err != nil {
			return -1, fmt.Errorf("shm: memfd_create: %w: where a container forbids it, give a tmpfs directory to hold "+
				"the segment instead", err)
		}
		return fd, nil
	}
	f, err := os.CreateTemp(dir, filePrefix+"*")
	if err != nil {
		return -1, fmt.Errorf("shm: making the segment: %w", err)
	}
	defer f.Close()
	if err := os.Remove(f.Name()); err != nil {
		return -1, fmt.Errorf("shm: unlinking the segment: %w", err)
	}
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("shm: duplicating the segment's descriptor: %w", err)
	}
	return fd, nil
}

func mapRange(fd int, offset, length int64) ([]byte, error) {
	b, err := unix.Mmap(fd, offset, int(length), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("shm: mapping %d KiB: mmap: %w%s", length>>10, err, remedy(err))
	}
	return b, nil
}

// openPeer maps a peer's header and the slot of id in it, and allocates the slot.
func openPeer(a *address, id proc.ID, unsealed bool) (*segment, error) {
	s := &segment{geometry: a.geometry, fd: -1}
	if err := s.openPeer(a, id, unsealed); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *segment) openPeer(a *address, id proc.ID, unsealed bool) (err error) {
	if int64(id) >= int64(a.procs) {
		return fmt.Errorf("shm: the peer has slots for %d processes and none for %v: open all endpoints with the same "+
			"MaxProcs", a.procs, id)
	}
	if s.fd, err = findBacking(a); err != nil {
		return err
	}
	if err := s.checkSealed(unsealed); err != nil {
		return err
	}
	if s.header, err = mapRange(s.fd, 0, s.slotOffset(0)); err != nil {
		return err
	}
	if err := reserve(s.fd, s.slotOffset(id), s.slotBytes()); err != nil {
		return err
	}
	if s.slots, err = mapRange(s.fd, s.slotOffset(id), s.slotBytes()); err != nil {
		return err
	}
	// The mappings keep the segment: a peer costs one descriptor, its pidfd.
	fd := s.fd
	s.fd = -1
	return unix.Close(fd)
}

// findBacking opens the descriptor that an address names in its process, which is known to be the
// right one. fabric.ErrPeerGone: the endpoint has been closed or the process is ending, because
// descriptors are closed before the pidfd reports the end. The number may name another file by
// then, which must not be opened: opening a device or a pipe may have any effect.
func findBacking(a *address) (fd int, err error) {
	name := fmt.Sprintf("/proc/%d/fd/%d", a.pid, a.fd)
	to, err := os.Readlink(name)
	if err == nil {
		if !isBacking(to) {
			return -1, fabric.ErrPeerGone
		}
		// The flags are for what the file may have become since.
		fd, err = unix.Open(name, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	}
	switch {
	case err == nil:
	case errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENXIO): // no file, or a socket by now
		return -1, fabric.ErrPeerGone
	case remedy(err) != "":
		return -1, fmt.Errorf("shm: opening the peer's segment: %w%s", err, remedy(err))
	default:
		return -1, fmt.Errorf("shm: opening the peer's segment %s: %w: the processes must share a pid namespace and a "+
			"user, and the peer must be dumpable (a program with file capabilities is not)", name, err)
	}
	if err := holdsToken(fd, a); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// isBacking reports by a descriptor's name in /proc whether it may hold a segment: a memfd that
// openBacking named, or a file that it has unlinked.
func isBacking(name string) bool {
	base, unlinked := strings.CutSuffix(path.Base(name), " (deleted)")
	return unlinked && (base == "memfd:"+memfdName || strings.HasPrefix(base, filePrefix))
}

// holdsToken reads the header without mapping it, because the file is unknown. The error is
// fabric.ErrPeerGone if the file has another token, or cannot be read.
func holdsToken(fd int, a *address) error {
	var h header
	b := unsafe.Slice((*byte)(unsafe.Pointer(&h)), unsafe.Sizeof(h))
	n, err := unix.Pread(fd, b, 0)
	switch {
	case errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS):
		return fmt.Errorf("shm: reading the peer's segment: pread64: %w", err)
	case err != nil || n != len(b) || h.magic != magic || h.version != wireVersion || h.token != a.token:
		return fabric.ErrPeerGone
	}
	return nil
}

// checkSealed makes sure that nobody can shrink the segment under our mapping, which would end this
// process with SIGBUS.
func (s *segment) checkSealed(unsealed bool) error {
	var st unix.Stat_t
	if err := unix.Fstat(s.fd, &st); err != nil {
		return fmt.Errorf("shm: looking at the peer's segment: fstat: %w", err)
	}
	if st.Size != s.segmentBytes() {
		return fmt.Errorf("shm: the peer's segment has %d bytes, its address says %d", st.Size, s.segmentBytes())
	}
	if unsealed {
		return nil
	}
	got, err := unix.FcntlInt(uintptr(s.fd), unix.F_GET_SEALS, 0)
	if err != nil && !errors.Is(err, unix.EINVAL) { // of files without seals
		return fmt.Errorf("shm: the seals of the peer's segment: fcntl: %w", err)
	}
	if err != nil || got&seals != seals {
		return fmt.Errorf("shm: the peer's segment is not sealed (seals %#x): it could be truncated under us; set Dir "+
			"on both sides to allow that", got)
	}
	return nil
}

// knock writes our address into our slot of the peer's segment and wakes the peer.
func (s *segment) knock(id proc.ID, a *address) {
	e, b := entryOf(s.slots), a.encode()
	e.length = uint32(copy(e.address[:], b))
	s.knockWord(int(id / 64)).Or(1 << (id % 64))
	s.head().knocks.Add(1)
	s.head().bell.Ring()
}

// errEmptySlot: no process has written an address into a slot.
var errEmptySlot = errors.New("shm: the slot is empty")

// knockAddress reads the address that a newcomer wrote into its slot. It does not touch the
// mapping: a slot without memory would get some, and fault where there is none.
func (s *segment) knockAddress(id proc.ID) (address, error) {
	var b [4 + addressBytes]byte
	if _, err := unix.Pread(s.fd, b[:], s.slotOffset(id)); err != nil {
		return address{}, fmt.Errorf("shm: reading the slot: %w", err)
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

// free returns the memory of a slot to the system. The slot is not used again: process ids are not
// reused.
func (s *segment) free(id proc.ID) error {
	return unix.Fallocate(s.fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, s.slotOffset(id), s.slotBytes())
}

func (s *segment) close() error {
	var errs []error
	for _, m := range []*[]byte{&s.header, &s.slots} {
		if *m != nil {
			errs = append(errs, unix.Munmap(*m))
			*m = nil
		}
	}
	if s.fd >= 0 {
		errs = append(errs, unix.Close(s.fd))
		s.fd = -1
	}
	return errors.Join(errs...)
}
