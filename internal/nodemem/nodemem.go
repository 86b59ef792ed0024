package nodemem

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Env is the variable that names the descriptor and this rank's place in the file, with a comma.
const Env = "BANYAN_FRONTS"

// Name is that of the memfd, by which processes distinguish it from another file with the same number.
const Name = "banyan-node"

const (
	page = 4096
	// mostBytes bounds a file, and so the addresses that each rank needs for it.
	mostBytes = 64 << 30
)

// Seals are those of the file.
const Seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// Span is the part of each rank of a job of so many: a page, a bit and a page more for each of them.
func Span(size int) int64 { return (1 + int64(size)/(8*page) + 1 + int64(size)) * page }

// Make makes the file for so many ranks on this machine, of a job of size.
func Make(ranks, size int) (*os.File, error) {
	n := int64(ranks) * Span(size)
	if n > mostBytes {
		return nil, fmt.Errorf("nodemem: %d ranks of %d: the file would have %d GiB", ranks, size, n>>30)
	}
	fd, err := unix.MemfdCreate(Name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("nodemem: memfd_create: %w", err)
	}
	f := os.NewFile(uintptr(fd), Name)
	if err = f.Truncate(n); err == nil {
		_, err = unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, Seals)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("nodemem: %w", err), f.Close())
	}
	return f, nil
}

// Variable is the variable for a rank that inherits the file as a descriptor.
func Variable(fd, index int) string { return fmt.Sprintf("%s=%d,%d", Env, fd, index) }

// Place is a rank's place in the file. The zero value is none.
type Place struct {
	FD    int
	At    int64 // of the rank's span
	Bytes int64 // of the file
}

// ErrNone: there is no variable, so no launcher has made such a file.
var ErrNone = errors.New("nodemem: the launcher has made none")

// Find finds the place of this rank, of a job of size. The descriptor will not be inherited further.
func Find(size int) (Place, error) {
	text := os.Getenv(Env)
	if text == "" {
		return Place{}, ErrNone
	}
	p, err := parse(text, size)
	if err == nil {
		err = p.check(size)
	}
	if err != nil {
		return Place{}, fmt.Errorf("nodemem: %s=%.40q: %w", Env, text, err)
	}
	unix.CloseOnExec(p.FD)
	return p, nil
}

// parse reads the variable.
func parse(text string, size int) (Place, error) {
	first, second, _ := strings.Cut(text, ",")
	fd, err := strconv.ParseUint(first, 10, 20)
	index, err2 := strconv.ParseUint(second, 10, 20)
	switch {
	case err != nil || err2 != nil || fd < 3:
		return Place{}, errors.New("a descriptor and a place are needed")
	case int64(index) >= mostBytes/Span(size):
		return Place{}, errors.New("no file has that place")
	}
	return Place{FD: int(fd), At: int64(index) * Span(size)}, nil
}

// check makes sure that the descriptor is the file's, and that the place is in it.
func (p *Place) check(size int) error {
	to, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", p.FD))
	if err != nil || to != "/memfd:"+Name+" (deleted)" {
		return errors.New("another file: did a wrapper close it?")
	}
	var st unix.Stat_t
	if err := unix.Fstat(p.FD, &st); err != nil {
		return fmt.Errorf("fstat: %w", err)
	}
	if p.Bytes = st.Size; p.At+Span(size) > st.Size {
		return fmt.Errorf("the file has %d bytes", st.Size)
	}
	if got, err := unix.FcntlInt(uintptr(p.FD), unix.F_GET_SEALS, 0); err != nil || got&Seals != Seals {
		return errors.New("it is not sealed")
	}
	return nil
}
