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

// Head is the first part of each rank of a job of so many: a page, and pages with a bit for each of
// them where there are many. The heads of all ranks lie beside each other, so that a fault maps several.
func Head(size int) int64 {
	const fit = 8 << 10 // ranks whose bits have room in the page
	if size <= fit {
		return page
	}
	return (1 + int64(size)/(8*page) + 1) * page
}

// Pages is the second part of a rank: a page for each rank of the job. It has a half of each page, and another rank
// the other: a rank that writes to all maps a page for two.
func Pages(size int) int64 { return int64(size) * page }

// share is the number of ranks that have their parts of the same pages.
const share = 2

// span is all that a rank has.
func span(size int) int64 { return Head(size) + Pages(size) }

// Make makes the file for so many ranks on this machine, of a job of size.
func Make(ranks, size int) (*os.File, error) {
	n := int64(ranks) * span(size)
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
	Head  int64 // where the rank's head is
	Pages int64 // where its pages are
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
	fd, index, err := parse(text, size)
	var bytes int64
	if err == nil {
		bytes, err = check(fd)
	}
	if ranks := bytes / span(size); err == nil && index >= ranks {
		err = fmt.Errorf("the file has %d bytes, room for %d ranks", bytes, ranks)
	}
	if err != nil {
		return Place{}, fmt.Errorf("nodemem: %s=%.40q: %w", Env, text, err)
	}
	unix.CloseOnExec(fd)
	return At(fd, index, bytes, size), nil
}

// Heads is the length of the heads of all ranks in a file of so many bytes, for a job of size.
func Heads(bytes int64, size int) int64 { return bytes / span(size) * Head(size) }

// At is the place of the rank with an index in a file of so many bytes, for a job of size.
func At(fd int, index, bytes int64, size int) Place {
	pages := Heads(bytes, size) + index/share*Pages(size) + index%share*(page/share)
	return Place{FD: fd, Head: index * Head(size), Pages: pages, Bytes: bytes}
}

// parse reads the variable: a descriptor and an index.
func parse(text string, size int) (fd int, index int64, err error) {
	first, second, _ := strings.Cut(text, ",")
	f, err := strconv.ParseUint(first, 10, 20)
	i, err2 := strconv.ParseUint(second, 10, 20)
	switch {
	case err != nil || err2 != nil || f < 3:
		return 0, 0, errors.New("a descriptor and a place are needed")
	case int64(i) >= mostBytes/span(size):
		return 0, 0, errors.New("no file has that place")
	}
	return int(f), int64(i), nil
}

// check makes sure that the descriptor is the file's, and returns the length.
func check(fd int) (int64, error) {
	to, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil || to != "/memfd:"+Name+" (deleted)" {
		return 0, errors.New("another file: did a wrapper close it?")
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, fmt.Errorf("fstat: %w", err)
	}
	if got, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0); err != nil || got&Seals != Seals {
		return 0, errors.New("it is not sealed")
	}
	return st.Size, nil
}
