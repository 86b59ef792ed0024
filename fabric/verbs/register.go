//go:build cgo

package verbs

import (
	"cmp"
	"encoding/binary"
	"slices"
	"sync"
)

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
	for i, port := range p.reading.ports {
		m, err := port.d.register(x.bytes, false)
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
