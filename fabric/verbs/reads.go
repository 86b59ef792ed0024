//go:build cgo

package verbs

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/banyan-hpc/banyan/fabric"
)

// A message from registered memory is announced, and the receiver's adapter reads it: into registered memory directly,
// into other memory by way of buffers, several of which are under way. Reads have a queue pair of their own, so that
// one that fails, because the sender has freed the memory, does not end the lane.
//
// A Get returns when none of its reads is under way any more: after an error the pair is in the error state, and each
// read has been reported. So no memory is written to after a Get, whatever has become of the peer.

const (
	// stageBytes is the length of a buffer, and of a read by way of it.
	stageBytes = 256 << 10
	// directBytes is the length of a read into registered memory.
	directBytes = 1 << 20
	// readTimeout is the time after which a read without an answer fails: nothing else progresses meanwhile.
	readTimeout = 200 * time.Millisecond
)

// reads is what the connections of a provider share for reads.
type reads struct {
	mu    sync.Mutex // one Get at a time
	stage []memory   // the buffers; made by the first Get that needs them
	used  []*readPair
}

// readPair is the queue pair for reads of a connection. The flags are set by the provider's caller, and read by a Get.
type readPair struct {
	at           pair
	mine         end
	joined, over atomic.Bool // over: no Get may begin, and one that runs ends
	ended        bool        // it is in reads.used, or freed
}

var errNoReads = fmt.Errorf("verbs: no reads from this peer: %w", fabric.ErrUnsupported)

// Expose implements fabric.Conn, for registered memory.
func (c *Conn) Expose(buf []byte) (fabric.Region, error) {
	if r := c.reads.Load(); r == nil || !r.joined.Load() || r.over.Load() {
		return fabric.Region{}, errNoReads
	}
	m := c.p.registeredAs(buf)
	if m == nil {
		return fabric.Region{}, fmt.Errorf("verbs: this memory is not registered: %w", fabric.ErrUnsupported)
	}
	return fabric.Region{Addr: addressOf(buf), Len: uint64(len(buf)), Key: m.key}, nil
}

// ReadInPlace reports whether a message is better announced, as the peer's adapter reads it.
func (c *Conn) ReadInPlace(buf []byte) bool {
	r := c.reads.Load()
	return r != nil && c.sending && r.joined.Load() && !r.over.Load() && c.p.registeredAs(buf) != nil
}

// Get implements fabric.Conn.
func (c *Conn) Get(local []byte, remote fabric.Region, offset uint64) error {
	key, ok := readKey(remote.Key)
	r := c.reads.Load()
	if r == nil || !ok {
		return errNoReads
	}
	if offset > remote.Len || uint64(len(local)) > remote.Len-offset {
		return fmt.Errorf("verbs: %d bytes from %d exceed the region of %d", len(local), offset, remote.Len)
	}
	all := &c.p.reading
	all.mu.Lock()
	defer all.mu.Unlock()
	if !r.joined.Load() || r.over.Load() {
		return errNoReads
	}
	g := get{p: c.p, r: r, local: local, from: remote.Addr + offset, key: key}
	if g.direct = c.p.registeredAs(local); g.direct == nil {
		if err := all.prepare(c.p.d); err != nil {
			return err
		}
	}
	err := g.run()
	if err != nil {
		r.over.Store(true)
	}
	return err
}

// prepare makes the buffers.
func (a *reads) prepare(d *device) error {
	for len(a.stage) < readsAtOnce {
		m, err := d.newMemory(stageBytes)
		if err != nil {
			return err
		}
		a.stage = append(a.stage, m)
	}
	return nil
}

// get is a Get under way. Its reads are numbered; number n uses buffer n modulo readsAtOnce, and they end in order.
type get struct {
	p              *Provider
	r              *readPair
	local          []byte
	from           uint64
	key            uint32
	direct         *registration // of local; nil: by way of buffers
	posted, landed int           // bytes
	first, next    uint64        // numbers of the reads under way
}

var errReadsEnd = errors.New("verbs: the peer is gone or cut off")

func (g *get) run() error {
	for g.landed < len(g.local) {
		for g.posted < len(g.local) && g.next-g.first < readsAtOnce {
			if err := g.post(); err != nil {
				return g.fail(err)
			}
		}
		_, status, ended, err := g.p.d.waitRead()
		switch {
		case err != nil:
			return g.fail(err)
		case ended && status != 0:
			g.first++
			return g.fail(fmt.Errorf("verbs: reading %d bytes: %s", len(g.local), statusName(status)))
		case ended:
			g.land()
		}
		if g.r.over.Load() {
			return g.fail(errReadsEnd)
		}
	}
	return nil
}

// step is the length of the read that begins at a byte.
func (g *get) step(at int) int {
	if g.direct != nil {
		return min(directBytes, len(g.local)-at)
	}
	return min(stageBytes, len(g.local)-at)
}

// post starts the next read.
func (g *get) post() error {
	n := g.step(g.posted)
	at, m := g.local[g.posted:][:n:n], (*memory)(nil)
	if g.direct != nil {
		m = &g.direct.memory
	} else {
		m = &g.p.reading.stage[g.next%readsAtOnce]
		at = m.bytes[:n:n]
	}
	if err := g.p.d.read(g.r.at, at, m, g.from+uint64(g.posted), g.key, g.next); err != nil {
		return err
	}
	g.posted += n
	g.next++
	return nil
}

// land ends the oldest read.
func (g *get) land() {
	n := g.step(g.landed)
	if g.direct == nil {
		copy(g.local[g.landed:], g.p.reading.stage[g.first%readsAtOnce].bytes[:n])
	}
	g.landed += n
	g.first++
}

// fail ends the reads that are under way.
func (g *get) fail(why error) error {
	g.r.at.fail()
	for g.first < g.next {
		_, _, ended, err := g.p.d.waitRead()
		if err != nil {
			break
		}
		if ended {
			g.first++
		}
	}
	return why
}

// newReads makes the queue pair for reads of a connection; without one messages go as frames.
func (c *Conn) newReads() *readPair {
	r := &readPair{}
	var err error
	if r.at, r.mine, _, err = c.p.d.newPair(newPSN(), readsAtOnce, true); err != nil {
		c.p.log.Info("no reads over RDMA", "peer", int(c.Peer()), "reason", err)
		r = nil
	}
	c.reads.Store(r)
	return r
}

// joinReads joins it to the peer's.
func (c *Conn) joinReads(theirs *end) {
	if r := c.reads.Load(); r != nil && theirs.qp != 0 {
		if err := c.p.d.join(r.at, r.mine.psn, theirs, ackTimeout(readTimeout), retries); err != nil {
			c.p.log.Info("no reads over RDMA", "peer", int(c.Peer()), "reason", err)
			return
		}
		r.joined.Store(true)
	}
}

// endReads ends the reads of a connection. A Get may run: Poll frees the pair after it.
func (c *Conn) endReads() {
	if r := c.reads.Load(); r != nil && !r.ended {
		r.over.Store(true)
		r.ended = true
		c.p.reading.used = append(c.p.reading.used, r)
	}
}

// free frees the pairs that have ended, unless a Get runs.
func (a *reads) free() {
	if len(a.used) > 0 && a.mu.TryLock() {
		for _, r := range a.used {
			r.at.free()
		}
		a.used = nil
		a.mu.Unlock()
	}
}

// close waits for a Get that runs, and frees all. The connections have ended.
func (a *reads) close() {
	a.mu.Lock()
	for _, r := range a.used {
		r.at.free()
	}
	for i := range a.stage {
		a.stage[i].free()
	}
	a.used, a.stage = nil, nil
	a.mu.Unlock()
}

// registration is memory that the application has registered. It is pinned when it is first used.
type registration struct {
	from  uint64 // its address
	bytes []byte
	once  sync.Once
	err   error
	memory
	key []byte // for peers
}

// registrations are those of a provider, by address. Any goroutine may call the methods.
type registrations struct {
	mu   sync.RWMutex
	list []*registration
	over bool // the device is closed
}

func (r *registrations) search(at uint64) (int, bool) {
	return slices.BinarySearchFunc(r.list, at, func(x *registration, at uint64) int { return cmp.Compare(x.from, at) })
}

// registeredAs is the registration that covers memory, or nil.
func (p *Provider) registeredAs(mem []byte) *registration {
	r := &p.registered
	if len(mem) == 0 {
		return nil
	}
	at := addressOf(mem)
	r.mu.RLock()
	defer r.mu.RUnlock()
	i, found := r.search(at)
	if !found {
		i--
	}
	if i < 0 || at-r.list[i].from+uint64(len(mem)) > uint64(len(r.list[i].bytes)) {
		return nil
	}
	x := r.list[i]
	x.once.Do(func() {
		if x.memory, x.err = p.d.register(x.bytes, false); x.err != nil {
			p.log.Info("memory is used without RDMA", "reason", x.err)
			return
		}
		x.key = binary.LittleEndian.AppendUint32(nil, x.remote())
	})
	if x.err != nil {
		return nil
	}
	return x
}

// Register implements fabric.Registrar.
func (p *Provider) Register(mem []byte) {
	r := &p.registered
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.over {
		at := addressOf(mem)
		i, _ := r.search(at)
		r.list = slices.Insert(r.list, i, &registration{from: at, bytes: mem})
	}
}

// Deregister implements fabric.Registrar.
func (p *Provider) Deregister(mem []byte) {
	r := &p.registered
	r.mu.Lock()
	defer r.mu.Unlock()
	if i, found := r.search(addressOf(mem)); found {
		r.list[i].end()
		r.list = slices.Delete(r.list, i, i+1)
	}
}

func (x *registration) end() {
	if x.key != nil {
		x.deregister()
	}
}

// close ends all registrations.
func (r *registrations) close() {
	r.mu.Lock()
	for _, x := range r.list {
		x.end()
	}
	r.list, r.over = nil, true
	r.mu.Unlock()
}
