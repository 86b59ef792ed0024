package shm

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/nodemem"
)

// Why unsafe: a header is read as bytes; see segment_unsafe.go.

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

// findBacking opens the file that an address names in the peer's process, of which c has a pidfd.
// fabric.ErrPeerGone: the endpoint has been closed or the process is ending, because descriptors
// are closed before the pidfd reports the end.
func (c *Conn) findBacking(a *address) (fd int, err error) {
	fd, traced, err := c.takeBacking(a)
	if traced {
		err = checkToken(fd, a)
	}
	return fd, err
}

// takeBacking is findBacking. If the kernel lets this process trace the peer, nothing has shown yet
// that the file is the one that the address means.
func (c *Conn) takeBacking(a *address) (fd int, traced bool, err error) {
	process, err := c.reader.openLate()
	if err != nil {
		return -1, false, err
	}
	fd, err = unix.PidfdGetfd(process, int(a.fd), 0)
	switch {
	case err == nil:
		return fd, true, nil
	case errors.Is(err, unix.EBADF) || errors.Is(err, unix.ESRCH):
		return -1, false, fabric.ErrPeerGone
	case remedy(err) != "":
		return -1, false, fmt.Errorf("shm: taking the peer's segment: pidfd_getfd: %w%s", err, remedy(err))
	default: // it needs more rights than /proc
		fd, err = openBackingOf(a)
		return fd, false, err
	}
}

// openBackingOf opens the descriptor that an address names in its process by its name in /proc. The
// number may name another file than the segment, which must not be opened: opening a device or a
// pipe may have any effect.
func openBackingOf(a *address) (fd int, err error) {
	name := fmt.Sprintf("/proc/%d/fd/%d", a.pid, a.fd)
	to, err := os.Readlink(name)
	if err == nil {
		if !isBacking(to) {
			return -1, fabric.ErrPeerGone
		}
		// The flags guard against a file that has been replaced.
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
	return fd, checkToken(fd, a)
}

// checkToken closes a descriptor that is not that of the segment with an address.
func checkToken(fd int, a *address) error {
	err := holdsToken(fd, a)
	if err != nil {
		_ = unix.Close(fd)
	}
	return err
}

// isBacking reports by a descriptor's name in /proc whether it may hold a segment: a memfd that
// openBacking or the launcher named, or a file that it has unlinked.
func isBacking(name string) bool {
	base, unlinked := strings.CutSuffix(path.Base(name), " (deleted)")
	return unlinked && (base == "memfd:"+memfdName || base == "memfd:"+nodemem.Name || strings.HasPrefix(base, filePrefix))
}

// holdsToken reads the header without mapping it, because the file is unknown: only an ordinary one
// may be read. The error is fabric.ErrPeerGone if the file has another token, or cannot be read.
func holdsToken(fd int, a *address) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return fabric.ErrPeerGone
	}
	var h header
	b := unsafe.Slice((*byte)(unsafe.Pointer(&h)), unsafe.Sizeof(h))
	n, err := unix.Pread(fd, b, a.at)
	switch {
	case errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS):
		return fmt.Errorf("shm: reading the peer's segment: pread64: %w", err)
	case err != nil || n != len(b):
		return fabric.ErrPeerGone
	}
	return h.check(a)
}

// checkSealed makes sure that no process can shrink the segment under this mapping, which would end
// this process with SIGBUS.
func (s *segment) checkSealed(unsealed bool) error {
	return checkFile(s.fd, s.segmentBytes(), s.segmentBytes(), unsealed)
}

// checkFile is checkSealed for a file of a length from least to most.
func checkFile(fd int, least, most int64, unsealed bool) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("shm: looking at the peer's segment: fstat: %w", err)
	}
	if st.Size < least || st.Size > most {
		return fmt.Errorf("shm: the peer's segment has %d bytes, its address says %d", st.Size, least)
	}
	if unsealed {
		return nil
	}
	got, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil && !errors.Is(err, unix.EINVAL) { // of files without seals
		return fmt.Errorf("shm: the seals of the peer's segment: fcntl: %w", err)
	}
	if err != nil || got&seals != seals {
		return fmt.Errorf("shm: the peer's segment is not sealed (seals %#x): it could be truncated under us; set Dir "+
			"on both sides to allow that", got)
	}
	return nil
}
