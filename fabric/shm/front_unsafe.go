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

// front is where a header and the pages are in a file.
type front struct {
	fd        int
	at, pages int64
}

// page is where the slot of a process is, in a page of its own or in one that it shares.
func (f *front) page(id proc.ID) int64 { return f.pages + int64(id)*pageBytes }

// joinNode puts the front into its place in the memory of the machine's processes.
func (s *segment) joinNode(n nodemem.Place) (err error) {
	end, last := n.Head+s.pageOffset(0), n.Pages+int64(s.procs-1)*pageBytes+slotBytes
	if end > n.Bytes || last > n.Bytes {
		err = fmt.Errorf("shm: a place at %d and %d of %d bytes", n.Head, n.Pages, n.Bytes)
	}
	if err == nil {
		err = reserve(n.FD, n.Head, s.pageOffset(0))
	}
	if err == nil {
		s.node, err = mapRange(n.FD, 0, n.Bytes)
	}
	if err == nil {
		s.header, s.pages = s.node[n.Head:end:end], s.node[n.Pages:last:last]
		if s.head().magic != 0 {
			s.dropCards()
			err = errors.Join(errors.New("shm: the place has been used"), unix.Munmap(s.node))
		}
	}
	if err != nil {
		s.header, s.pages, s.node = nil, nil, nil
		return errors.Join(err, unix.Close(n.FD))
	}
	s.front, s.shared = front{n.FD, n.Head, n.Pages}, true
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
	if s.findFront(a, c.p.own, self) {
		h := &c.reader.handle
		h.word, h.thread = s.word(self), int32(a.holderThread)
	} else {
		at := a.front()
		if s.fd, c.traced, err = c.takeBacking(&at); err == nil {
			err = s.mapFront(&at, self, c.p.cfg.Dir != "")
		}
	}
	if err == nil {
		err = s.back(s.front.fd, s.front.page(self), s.page(self))
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	// The mappings keep the segment: a peer costs one descriptor, its pidfd.
	return s, s.closeFile()
}

// findFront finds the front of the segment with an address in the memory that the machine's
// processes have, unless it is elsewhere or the process is ending: then its word is not held. The headers
// of all processes lie beside each other there, so the first read maps 16 of them.
func (s *segment) findFront(a *address, own *segment, self proc.ID) bool {
	at, pages, all := int64(a.frontAt), int64(a.pagesAt), int64(len(own.node))
	n, m := s.pageOffset(0), int64(self)*pageBytes+slotBytes
	if a.frontFD == 0 || a.holderThread == 0 || at > all-n || pages > all-m {
		return false
	}
	s.header, s.pages, s.shared = own.node[at:at+n:at+n], own.node[pages:pages+m:pages+m], true
	s.front = front{own.front.fd, at, pages}
	if s.head().check(a) != nil || !s.word(self).Held(int(a.holderThread)) {
		s.header, s.pages, s.shared = nil, nil, false
		return false
	}
	return true
}

// mapFront maps from the header to the page of this process in the file, which has been taken for that
// of the front of the segment with an address, and makes sure that it is. Seals show that it is of a kind that
// may be mapped and read.
func (s *segment) mapFront(a *address, self proc.ID, unsealed bool) (err error) {
	s.front = front{s.fd, a.at, s.pageOffset(0)}
	least, most := s.segmentBytes(), s.segmentBytes()
	if a.frontFD != 0 {
		s.front.pages = int64(a.pagesAt)
		least, most = s.front.page(self)+slotBytes, math.MaxInt64
	}
	if unsealed {
		err = holdsToken(s.fd, a)
	}
	if err == nil {
		err = checkFile(s.fd, least, most, unsealed)
	}
	if err == nil {
		s.header, err = mapRange(s.fd, a.at, s.front.page(self)+slotBytes-a.at)
	}
	if err != nil { // it may be another file
		return cmp.Or(holdsToken(s.fd, a), err)
	}
	s.pages = s.header[s.front.pages-a.at:]
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
