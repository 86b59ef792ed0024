package shm

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/nodemem"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// Why unsafe: as in segment_unsafe.go.

// The front of a segment, its header and pages, lies in its file, or where the launcher has made memory
// for all processes of the machine (package nodemem) in a place of that. There a first contact needs no
// descriptor of the peer and no mapping.

// front is a place in a file.
type front struct {
	fd int
	at int64
}

// joinNode puts the front into its place in the memory of the machine's processes.
func (s *segment) joinNode(n nodemem.Place) (err error) {
	end := n.At + s.ringOffset(0)
	if end > n.Bytes {
		err = fmt.Errorf("shm: a place of %d bytes, %d are needed", n.Bytes-n.At, s.ringOffset(0))
	}
	if err == nil {
		err = reserve(n.FD, n.At, s.pageOffset(0))
	}
	if err == nil {
		s.node, err = mapRange(n.FD, 0, n.Bytes)
	}
	if err == nil {
		s.header = s.node[n.At:end:end]
		s.head().knocks.Add(0) // a first read would map the pages of others, too
		if s.head().magic != 0 {
			err = errors.Join(errors.New("shm: the place has been used"), unix.Munmap(s.node))
		}
	}
	if err != nil {
		s.header, s.node = nil, nil
		return errors.Join(err, unix.Close(n.FD))
	}
	s.front, s.shared = front{n.FD, n.At}, true
	return nil
}

// copyHeader puts the header also where the rings are, since peers know that file by the same token.
func (s *segment) copyHeader() error {
	if err := reserve(s.fd, 0, headerBytes); err != nil {
		return err
	}
	first, err := mapRange(s.fd, 0, headerBytes)
	if err != nil {
		return err
	}
	copy(first, s.header[:unsafe.Sizeof(header{})])
	return unix.Munmap(first)
}

// openPeer maps the beginning of the peer's segment, up to the page of this process, which gets
// memory.
func (c *Conn) openPeer(a *address) (*segment, error) {
	s, self := &segment{geometry: a.geometry, fd: -1}, c.p.cfg.Self
	if int64(self) >= int64(a.procs) {
		return nil, fmt.Errorf("shm: the peer has room for %d processes and none for %v: open all endpoints with the "+
			"same MaxProcs", a.procs, self)
	}
	var err error
	if n := s.pageOffset(self) + pageBytes; !s.findFront(a, n, c.p.own, self) {
		at := a.front()
		if s.fd, c.traced, err = c.takeBacking(&at); err == nil {
			s.front = front{s.fd, at.at}
			err = s.mapFront(&at, n, c.p.cfg.Dir != "")
		}
	}
	if err == nil {
		err = s.back(s.front.fd, s.front.at+s.pageOffset(self), s.page(self))
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	// The mappings keep the segment: a peer costs one descriptor, its pidfd.
	return s, s.closeFile()
}

// findFront finds the first n bytes of the segment with an address in the memory that the machine's
// processes have, unless they are elsewhere or the process is ending: then its word is not held.
func (s *segment) findFront(a *address, n int64, own *segment, self proc.ID) bool {
	at := int64(a.frontAt)
	if a.frontFD == 0 || a.holderThread == 0 || at > int64(len(own.node))-n {
		return false
	}
	s.header, s.front, s.shared = own.node[at:at+n:at+n], front{own.front.fd, at}, true
	s.head().knocks.Add(0) // as in mapFront
	if s.head().check(a) != nil || !s.word(self).Held(int(a.holderThread)) {
		s.header, s.shared = nil, false
		return false
	}
	return true
}

// mapFront maps n bytes of the file, which has been taken for that of the front of the segment with an
// address, and makes sure that it is. Seals show that it is of a kind that may be mapped and read.
func (s *segment) mapFront(a *address, n int64, unsealed bool) (err error) {
	if unsealed {
		err = holdsToken(s.fd, a)
	}
	if err == nil {
		least, most := s.segmentBytes(), s.segmentBytes()
		if a.frontFD != 0 {
			least, most = a.at+n, math.MaxInt64
		}
		err = checkFile(s.fd, least, most, unsealed)
	}
	if err == nil {
		s.header, err = mapRange(s.fd, a.at, n)
	}
	if err != nil { // it may be another file
		return cmp.Or(holdsToken(s.fd, a), err)
	}
	h := s.head()
	h.knocks.Add(0) // a first read would map the pages of others along with the header
	return h.check(a)
}

// check makes sure that it is the header of the segment with an address.
func (h *header) check(a *address) error {
	if h.magic != magic || h.version != wireVersion || h.token != a.token {
		return fabric.ErrPeerGone
	}
	return nil
}
