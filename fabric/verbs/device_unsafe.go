//go:build cgo

package verbs

/*
#cgo CFLAGS: -O2 -Wall
#cgo LDFLAGS: -ldl
#cgo noescape bn_go
#cgo nocallback bn_go
#cgo noescape bn_arm
#cgo nocallback bn_arm
#cgo noescape bn_drain
#cgo nocallback bn_drain
#cgo noescape bn_manager_next
#cgo nocallback bn_manager_next
#include <stdlib.h>
#include "device.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"syscall"
	"time"
	"unsafe"

	"github.com/banyan-hpc/banyan/internal/ccall"
)

// Why unsafe: libibverbs reads and writes memory outside of Go's heap, and the arguments of a round lie there
// too, so that no call has to check pointers.

// most is the number of completions that a round takes, and of buffers and messages that it posts.
const most = C.bn_most

// device is an open adapter with one completion queue, for one goroutine at a time.
type device struct {
	c     *C.struct_bn_device
	links *C.struct_bn_manager // nil unless it is of iWARP
	r     *C.struct_bn_round
	// receiving and sending are the numbers of buffers and messages of the next round.
	receiving, sending int
	calls              Calls
	stack              *ccall.Stack // nil: rounds go by cgo
}

// Calls counts the calls into C that post messages or take completions, and those that have found nothing to do.
type Calls struct{ Busy, Idle uint64 }

// pair is a queue pair; the zero pair is none.
type pair struct{ at unsafe.Pointer }

// completion is the end of a message that was sent or received. Status 0 is success.
type completion struct {
	id         uint64
	qp, length uint32
	status     uint32
}

// load loads libibverbs.
func load() error {
	if why := C.bn_load(); why != nil {
		text := C.GoString(why)
		if C.bn_headers() == 0 {
			return fmt.Errorf("verbs: this program was built without the headers of libibverbs: install them " +
				"(libibverbs-dev, rdma-core-devel) and build it again")
		}
		return fmt.Errorf("verbs: libibverbs cannot be loaded (%s): install it (libibverbs1 and ibverbs-providers, "+
			"or rdma-core)", text)
	}
	return nil
}

func openDevice(port Port, receives, completions uint32) (*device, error) {
	if err := load(); err != nil {
		return nil, err
	}
	d := new(device)
	s := C.CString(port.Device)
	defer C.free(unsafe.Pointer(s))
	var step *C.char
	address := port.Address.As16()
	if err := C.bn_open(s, C.int(port.Number), C.int(port.GID), (*C.uint8_t)(&address[0]), C.uint32_t(receives),
		C.uint32_t(completions), &d.c, &step); err != 0 {
		return nil, failed(port.Device, C.GoString(step), err)
	}
	d.links = C.bn_links(d.c)
	d.r = (*C.struct_bn_round)(C.calloc(1, C.sizeof_struct_bn_round))
	d.r.device = d.c
	if ccall.Possible {
		d.stack, _ = ccall.NewStack() // without one rounds go by cgo
	}
	return d, nil
}

// goOn does the round.
func (d *device) goOn() {
	if d.stack != nil {
		d.stack.Call(unsafe.Pointer(C.bn_go), unsafe.Pointer(d.r))
		return
	}
	C.bn_go(d.r)
}

// failed is the error of a step, with its cure where one is known.
func failed(device, step string, code C.int) error {
	errno, cure := syscall.Errno(code), ""
	switch {
	case errno == syscall.ENOMEM:
		cure = ": raise the limit of locked memory (ulimit -l unlimited)"
	case errno == syscall.EACCES || errno == syscall.EPERM:
		cure = ": give this user access to /dev/infiniband"
	}
	return fmt.Errorf("verbs: %s: %s: %w%s", device, step, errno, cure)
}

func (d *device) close() {
	if d.stack != nil {
		d.stack.Close()
	}
	C.bn_close(d.c)
	C.free(unsafe.Pointer(d.r))
}

// fd becomes readable when a completion has come since arm.
func (d *device) fd() int { return int(C.bn_fd(d.c)) }

// arm has the next completion of a message of a peer, or with all any one, make fd readable.
func (d *device) arm(all bool) error {
	solicited := C.int(1)
	if all || d.links != nil { // Linux's siw does not notice that a message asks for it
		solicited = 0
	}
	if err := C.bn_arm(d.c, solicited); err != 0 {
		return failed("completion queue", "ibv_req_notify_cq", err)
	}
	return nil
}

// drain makes fd unreadable.
func (d *device) drain() { C.bn_drain(d.c) }

// memory is registered memory outside of Go's heap.
type memory struct {
	bytes []byte
	c     *C.struct_bn_memory
}

func (d *device) newMemory(n int) (memory, error) {
	m := memory{c: (*C.struct_bn_memory)(C.calloc(1, C.sizeof_struct_bn_memory))}
	if err := C.bn_memory_new(d.c, C.size_t(n), m.c); err != 0 {
		C.free(unsafe.Pointer(m.c))
		return memory{}, failed(fmt.Sprintf("%d bytes", n), "ibv_reg_mr", err)
	}
	m.bytes = unsafe.Slice((*byte)(m.c.at), n)
	return m, nil
}

func (m *memory) free() {
	C.bn_memory_free(m.c, C.size_t(len(m.bytes)))
	C.free(unsafe.Pointer(m.c))
}

// register has peers read, with writes also write, and the adapter write, memory that stays in place.
func (d *device) register(mem []byte, writes bool) (memory, error) {
	m := memory{bytes: mem, c: (*C.struct_bn_memory)(C.calloc(1, C.sizeof_struct_bn_memory))}
	too := C.int(0)
	if writes {
		too = 1
	}
	if err := C.bn_register(d.c, unsafe.Pointer(unsafe.SliceData(mem)), C.size_t(len(mem)), too, m.c); err != 0 {
		C.free(unsafe.Pointer(m.c))
		return memory{}, failed(fmt.Sprintf("%d bytes", len(mem)), "ibv_reg_mr", err)
	}
	return m, nil
}

func (m *memory) deregister() {
	C.bn_deregister(m.c)
	C.free(unsafe.Pointer(m.c))
}

// remote is the key for peers.
func (m *memory) remote() uint32 { return uint32(m.c.remote) }

// addressOf is where memory begins.
func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

// newPair makes a queue pair for so much work on its way. inlined is the longest that needs no buffer. A pair for
// reads does nothing else.
func (d *device) newPair(sends int, reads bool) (p pair, mine end, inlined int, err error) {
	var at unsafe.Pointer
	var longest C.uint32_t
	only := C.int(0)
	if reads {
		only = 1
	}
	mine.draw()
	e := mine.c()
	if err := C.bn_pair_new(d.c, C.uint32_t(sends), only, &at, &e, &longest); err != 0 {
		return pair{}, end{}, 0, failed("queue pair", "ibv_create_qp", err)
	}
	mine.qp, mine.lid, mine.mtu, mine.kind = uint32(e.qp), uint16(e.lid), uint8(e.mtu), Kind(e.kind)
	mine.probed, mine.probedKey = uint64(e.probed), uint32(e.probed_key)
	for i := range mine.gid {
		mine.gid[i] = byte(e.gid[i])
	}
	return pair{at}, mine, int(longest), nil
}

// c is an end as C has it.
func (e *end) c() C.struct_bn_end {
	c := C.struct_bn_end{
		qp: C.uint32_t(e.qp), psn: C.uint32_t(e.psn), lid: C.uint16_t(e.lid), mtu: C.uint8_t(e.mtu), kind: C.uint8_t(e.kind),
		probed: C.uint64_t(e.probed), probed_key: C.uint32_t(e.probedKey),
	}
	for i := range e.gid {
		c.gid[i], c.token[i] = C.uint8_t(e.gid[i]), C.uint8_t(e.token[i])
	}
	return c
}

// join connects a pair to that of a peer. What has no answer in time is sent again, several times at most. linked: the pair is
// connected; else next reports it. Of two ends of iWARP, one connects.
func (d *device) join(p pair, mine, theirs *end, all time.Duration, connects int) (linked bool, err error) {
	if (mine.kind == IWARP) != (theirs.kind == IWARP) {
		return false, fmt.Errorf("verbs: %w: %v and %v", errKinds, mine.kind, theirs.kind)
	}
	var step *C.char
	var code C.int
	e := theirs.c()
	switch {
	case d.links == nil:
		code = C.bn_pair_join(d.c, p.at, C.uint32_t(mine.psn), &e, C.int(ackTimeout(all)), retries, &step)
	default:
		code = C.bn_pair_connect(p.at, &e, C.int(connects), C.int(max(1, all.Milliseconds())), &step)
	}
	if code != 0 {
		return false, failed("queue pair", C.GoString(step), code)
	}
	return d.links == nil, nil
}

var errKinds = errors.New("this adapter and the peer's are of different kinds")

// change is news of the connection of a queue pair of iWARP. A nil error: it is there.
type change struct {
	qp  uint32
	err error
}

// next gives the next change; false: there is none.
func (d *device) next() (change, bool) {
	var c C.struct_bn_change
	if d.links == nil || C.bn_manager_next(d.links, &c) == 0 {
		return change{}, false
	}
	if c.up != 0 {
		return change{qp: uint32(c.qp)}, true
	}
	return change{uint32(c.qp), failed("queue pair", "connection", c.err)}, true
}

// fds are the descriptors that become readable when there is something to do: completions since arm, and changes.
func (d *device) fds() []int {
	if d.links == nil {
		return []int{d.fd()}
	}
	return []int{d.fd(), int(C.bn_manager_fd(d.links))}
}

// fail ends the sends and receives of a pair. free frees it.
func (p pair) fail() { _ = C.bn_pair_fail(p.at) }
func (p pair) free() { C.bn_pair_free(p.at) }

// receive adds a buffer to the next round; false: it is full.
func (d *device) receive(at []byte, m *memory, id uint64) bool {
	if d.receiving == most {
		return false
	}
	r := &d.r.receives[d.receiving]
	r.at, r.id, r.length, r.key = unsafe.Pointer(unsafe.SliceData(at)), C.uint64_t(id), C.uint32_t(len(at)), m.c.key
	d.receiving++
	return true
}

// work is a task of a pair with memory at, which belongs to m: to send it, to write it to the peer's memory, or to read
// from there into it.
type work struct {
	at              []byte
	m               *memory
	id, remote      uint64
	key             uint32 // of the peer's memory
	what            uint8
	signal, inlined bool
}

// The kinds of work.
const (
	workMessage = C.bn_message
	workWrite   = C.bn_write
	workGet     = C.bn_get
)

// send adds work to the next round. Its completion means that the peer's adapter has done it. Precondition: hasRoom.
func (d *device) send(p pair, w *work) {
	probes := w.signal && d.links != nil && w.what != workGet
	s := &d.r.sends[d.sending]
	*s = C.struct_bn_send{
		qp: p.at, at: C.uint64_t(addressOf(w.at)), id: C.uint64_t(w.id), remote: C.uint64_t(w.remote),
		length: C.uint32_t(len(w.at)), key: w.m.c.key, remote_key: C.uint32_t(w.key), what: C.uint8_t(w.what),
	}
	if w.signal && !probes {
		s.signal = 1
	}
	if w.inlined {
		s.inlined = 1
	}
	if d.sending++; probes {
		d.probe(p, w.id)
	}
}

// hasRoom reports whether the next round has room for so much work of send.
func (d *device) hasRoom(n int) bool {
	if d.links != nil {
		n++ // a probe may follow
	}
	return d.sending+n <= most
}

// probe adds work that touches no memory: its completion stands for the earlier work of the pair. Precondition: sending < most.
func (d *device) probe(p pair, id uint64) {
	d.r.sends[d.sending] = C.struct_bn_send{qp: p.at, id: C.uint64_t(id), signal: 1, what: C.bn_probe}
	d.sending++
}

var errQueue = errors.New("verbs: the completion queue is broken")

// round posts the waiting work and takes completions, with so many looks at the queue until there is one. If a message
// cannot be posted, refused is its pair: none of the next round goes to that, and the others wait for it.
func (d *device) round(looks int) (found int, refused pair, err error) {
	sending := d.sending
	d.r.receiving, d.r.sending, d.r.looks = C.int32_t(d.receiving), C.int32_t(sending), C.int32_t(looks)
	d.goOn()
	found = int(d.r.found)
	if found != 0 || d.receiving+sending > 0 {
		d.calls.Busy++
	} else {
		d.calls.Idle++
	}
	d.receiving, d.sending = 0, 0
	if posted := int(d.r.posted); posted < sending {
		refused, err = pair{d.r.sends[posted].qp}, failed("queue pair", "ibv_post_send", C.int(d.r.err))
		for _, s := range d.r.sends[posted:sending] {
			if s.qp != refused.at {
				d.r.sends[d.sending] = s
				d.sending++
			}
		}
		return max(0, found), refused, err
	}
	switch {
	case d.r.err != 0:
		err = failed("queue", "ibv_post_srq_recv", C.int(d.r.err))
	case found < 0:
		err = errQueue
	}
	return max(0, found), pair{}, err
}

// post posts the messages that wait. Those that cannot be posted wait for the next round, which says why.
func (d *device) post() {
	sending := d.sending
	d.r.receiving, d.r.sending, d.r.looks = 0, C.int32_t(sending), 0
	d.goOn()
	d.calls.Busy++
	d.sending = copy(d.r.sends[:], d.r.sends[int(d.r.posted):sending])
}

// tick changes every few milliseconds. It is of the last round.
func (d *device) tick() int64 { return int64(d.r.tick) }

// completed is one of those that the last round has found.
func (d *device) completed(i int) completion {
	c := &d.r.done[i]
	return completion{id: uint64(c.id), qp: uint32(c.qp), length: uint32(c.length), status: uint32(c.status)}
}

func statusName(status uint32) string { return C.GoString(C.bn_status(C.uint32_t(status))) }
