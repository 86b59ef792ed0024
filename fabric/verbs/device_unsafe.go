//go:build cgo

package verbs

/*
#cgo CFLAGS: -O2 -Wall
#cgo LDFLAGS: -ldl
#cgo noescape bn_round
#cgo nocallback bn_round
#cgo noescape bn_arm
#cgo nocallback bn_arm
#cgo noescape bn_drain
#cgo nocallback bn_drain
#include <stdlib.h>
#include "device.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"
)

// Why unsafe: libibverbs reads and writes memory outside of Go's heap, and the arguments of a round lie there
// too, so that no call has to check pointers.

// most is the number of completions that a round takes, and of buffers and messages that it posts.
const most = 32

// device is an open adapter with one completion queue, for one goroutine at a time.
type device struct {
	c        *C.struct_bn_device
	args     unsafe.Pointer // the arrays below
	receives *[most]C.struct_bn_receive
	sends    *[most]C.struct_bn_send
	done     *[most]C.struct_bn_done
	// waiting is the number of buffers and messages of the next round.
	receiving, sending int
	calls              uint64 // into C, for messages
}

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

func openDevice(name string, port, gid int, receives, completions uint32) (*device, error) {
	if err := load(); err != nil {
		return nil, err
	}
	d := new(device)
	s := C.CString(name)
	defer C.free(unsafe.Pointer(s))
	var step *C.char
	if err := C.bn_open(s, C.int(port), C.int(gid), C.uint32_t(receives), C.uint32_t(completions), &d.c, &step); err != 0 {
		return nil, failed(name, C.GoString(step), err)
	}
	const a, b = unsafe.Sizeof(*d.receives), unsafe.Sizeof(*d.sends)
	d.args = C.calloc(1, C.size_t(a+b+unsafe.Sizeof(*d.done)))
	d.receives = (*[most]C.struct_bn_receive)(d.args)
	d.sends = (*[most]C.struct_bn_send)(unsafe.Add(d.args, a))
	d.done = (*[most]C.struct_bn_done)(unsafe.Add(d.args, a+b))
	return d, nil
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
	C.bn_close(d.c)
	C.free(d.args)
}

// fd becomes readable when a completion has come since arm.
func (d *device) fd() int { return int(C.bn_fd(d.c)) }

// arm has the next completion of a message of a peer, or with all any one, make fd readable.
func (d *device) arm(all bool) error {
	solicited := C.int(1)
	if all {
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

// newPair makes a queue pair for so many messages on their way. inlined is the longest that needs no buffer.
func (d *device) newPair(psn uint32, sends int) (p pair, mine end, inlined int, err error) {
	var at unsafe.Pointer
	var e C.struct_bn_end
	var longest C.uint32_t
	if err := C.bn_pair_new(d.c, C.uint32_t(psn), C.uint32_t(sends), &at, &e, &longest); err != 0 {
		return pair{}, end{}, 0, failed("queue pair", "ibv_create_qp", err)
	}
	mine = end{qp: uint32(e.qp), psn: psn, lid: uint16(e.lid), mtu: uint8(e.mtu), ethernet: e.ethernet != 0}
	for i := range mine.gid {
		mine.gid[i] = byte(e.gid[i])
	}
	return pair{at}, mine, int(longest), nil
}

// join connects a pair to that of a peer. A message that has no answer for 4.096 µs × 2^timeout is sent again, so
// many times.
func (d *device) join(p pair, psn uint32, theirs *end, timeout, retries int) error {
	e := C.struct_bn_end{qp: C.uint32_t(theirs.qp), psn: C.uint32_t(theirs.psn), lid: C.uint16_t(theirs.lid), mtu: C.uint8_t(theirs.mtu)}
	for i, b := range theirs.gid {
		e.gid[i] = C.uint8_t(b)
	}
	var step *C.char
	if err := C.bn_pair_join(d.c, p.at, C.uint32_t(psn), &e, C.int(timeout), C.int(retries), &step); err != 0 {
		return failed("queue pair", C.GoString(step), err)
	}
	return nil
}

// fail ends what a pair sends and receives. free frees it.
func (p pair) fail() { _ = C.bn_pair_fail(p.at) }
func (p pair) free() { C.bn_pair_free(p.at) }

// receive adds a buffer to the next round; false: it is full.
func (d *device) receive(at []byte, m *memory, id uint64) bool {
	if d.receiving == most {
		return false
	}
	r := &d.receives[d.receiving]
	r.at, r.id, r.length, r.key = unsafe.Pointer(unsafe.SliceData(at)), C.uint64_t(id), C.uint32_t(len(at)), m.c.key
	d.receiving++
	return true
}

// send adds a message to the next round. Precondition: sending < most.
func (d *device) send(p pair, at []byte, m *memory, id uint64, signal, inlined bool) {
	s := &d.sends[d.sending]
	s.qp, s.at, s.id = p.at, unsafe.Pointer(unsafe.SliceData(at)), C.uint64_t(id)
	s.length, s.key, s.signal, s.inlined = C.uint32_t(len(at)), m.c.key, 0, 0
	if signal {
		s.signal = 1
	}
	if inlined {
		s.inlined = 1
	}
	d.sending++
}

var errQueue = errors.New("verbs: the completion queue is broken")

// round posts what waits and takes completions, none without take. posted is the number of messages that were
// posted; fewer than waited: err says why.
func (d *device) round(take bool) (posted, found int, err error) {
	n := C.int(0)
	if take {
		n = most
	}
	d.calls++
	var sent, got C.int
	code := C.bn_round(d.c, &d.receives[0], C.int(d.receiving), &d.sends[0], C.int(d.sending), &d.done[0], n, &sent, &got)
	d.receiving, d.sending = 0, 0
	switch {
	case code != 0:
		err = failed("queue pair", "ibv_post", code)
	case got < 0:
		err = errQueue
	}
	return int(sent), max(0, int(got)), err
}

// completed is one of those that the last round has found.
func (d *device) completed(i int) completion {
	c := &d.done[i]
	return completion{id: uint64(c.id), qp: uint32(c.qp), length: uint32(c.length), status: uint32(c.status)}
}

func statusName(status uint32) string { return C.GoString(C.bn_status(C.uint32_t(status))) }
