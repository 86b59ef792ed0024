//go:build cgo

package verbs

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/banyan-hpc/banyan/fabric"
)

// A message from registered memory is announced, and the receiver's adapter reads it: into registered memory directly,
// into other memory by way of buffers, several of which are under way. Reads have queue pairs of their own, so that
// one that fails, because the sender has freed the memory, does not end the lane: one for each rail, a port that both
// processes have. A long message is read in pieces over all of them: see get.go.
//
// A Get returns when none of its reads is under way any more: after an error each pair is in the error state, and each
// read has been reported. So no memory is written to after a Get, whatever has become of the peer.

const (
	// stageBytes is the length of a buffer, and of a read by way of it, or over several rails.
	stageBytes = 256 << 10
	// directBytes is the length of a read into registered memory over one rail.
	directBytes = 1 << 20
	// readTimeout is the time after which a read without an answer fails: nothing else progresses meanwhile.
	readTimeout = 200 * time.Millisecond
)

// reads is what the connections of a provider share for reads.
type reads struct {
	mu    sync.Mutex          // one Get at a time
	rails []*device           // the provider's own, then those of the further ports
	stage [mostRails][]memory // the buffers, by rail; made by the first Get that needs them
	used  []*readPairs
}

// readPairs are the queue pairs for reads of a connection, by rail. The flags are set by the provider's caller, and read by a Get.
type readPairs struct {
	rails        []rail
	joined, over atomic.Bool // over: no Get may begin, and one that runs ends
	ended        bool        // it is in reads.used, or freed
}

// rail is a pair over one port.
type rail struct {
	d    *device
	at   pair
	mine end
	// The following are a Get's: the pair is joined to the peer's and has not failed since; bytes that it has read.
	joined bool
	bytes  uint64
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
	keys, ok := readKeys(remote.Key)
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
	g := get{p: c.p, r: r, local: local, from: remote.Addr + offset, keys: keys, direct: c.p.registeredAs(local)}
	err := g.run()
	if err != nil {
		r.over.Store(true)
	}
	return err
}

// prepare makes the buffers of a rail.
func (a *reads) prepare(rail int) error {
	for len(a.stage[rail]) < readsAtOnce {
		m, err := a.rails[rail].newMemory(stageBytes)
		if err != nil {
			return err
		}
		a.stage[rail] = append(a.stage[rail], m)
	}
	return nil
}

// newReads makes the queue pairs for reads of a connection; without one messages go as frames.
func (c *Conn) newReads() *readPairs {
	r := &readPairs{}
	for _, d := range c.p.reading.rails {
		at, mine, _, err := d.newPair(newPSN(), readsAtOnce, true)
		if err != nil {
			c.p.log.Info("no reads over RDMA by one port", "peer", int(c.Peer()), "reason", err)
		}
		r.rails = append(r.rails, rail{d: d, at: at, mine: mine})
	}
	c.reads.Store(r)
	return r
}

// ends gives what the peer has to know of the pairs.
func (r *readPairs) ends() (list [mostRails]end) {
	for i := range r.rails {
		list[i] = r.rails[i].mine
	}
	return list
}

// joinReads joins them to the peer's, each to that of the same number.
func (c *Conn) joinReads(theirs *[mostRails]end) {
	r := c.reads.Load()
	if r == nil {
		return
	}
	any := false
	for i := range r.rails {
		x := &r.rails[i]
		if x.at == (pair{}) || theirs[i].qp == 0 {
			continue
		}
		if err := x.d.join(x.at, x.mine.psn, &theirs[i], ackTimeout(readTimeout), retries); err != nil {
			c.p.log.Info("no reads over RDMA by one port", "peer", int(c.Peer()), "reason", err)
			continue
		}
		x.joined, any = true, true
	}
	r.joined.Store(any)
}

// endReads ends the reads of a connection. A Get may run: Poll frees the pairs after it.
func (c *Conn) endReads() {
	if r := c.reads.Load(); r != nil && !r.ended {
		r.over.Store(true)
		r.ended = true
		c.p.reading.used = append(c.p.reading.used, r)
	}
}

func (r *readPairs) free() {
	for i := range r.rails {
		if x := &r.rails[i]; x.at != (pair{}) {
			x.at.free()
		}
	}
}

// free frees the pairs that have ended, unless a Get runs.
func (a *reads) free() {
	if len(a.used) > 0 && a.mu.TryLock() {
		for _, r := range a.used {
			r.free()
		}
		a.used = nil
		a.mu.Unlock()
	}
}

// close waits for a Get that runs, and frees all. The connections have ended.
func (a *reads) close() {
	a.mu.Lock()
	for _, r := range a.used {
		r.free()
	}
	for i := range a.stage {
		for k := range a.stage[i] {
			a.stage[i][k].free()
		}
		a.stage[i] = nil
	}
	a.used = nil
	a.mu.Unlock()
}

// registration is memory that the application has registered. It is pinned when it is first used.
type registration struct {
	from  uint64 // its address
	bytes []byte
	once  sync.Once
	on    []memory // by rail; the zero one: it is not registered there
	key   []byte   // for peers, of all rails; nil: it is not registered
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
	x.once.Do(func() { x.pin(p) })
	if x.key == nil {
		return nil
	}
	return x
}

// pin registers memory with all ports; it has to be registered with the first one.
func (x *registration) pin(p *Provider) {
	for i, d := range p.reading.rails {
		m, err := d.register(x.bytes, false)
		if err != nil {
			p.log.Info("memory is used without RDMA by one port", "reason", err)
			if i == 0 {
				return
			}
			x.on, x.key = append(x.on, memory{}), append(x.key, 0, 0, 0, 0)
			continue
		}
		x.on, x.key = append(x.on, m), binary.LittleEndian.AppendUint32(x.key, m.remote())
	}
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
	for i := range x.on {
		if m := &x.on[i]; m.c != nil {
			m.deregister()
		}
	}
	x.on = nil
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
