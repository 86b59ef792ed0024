//go:build cgo

package verbs

import (
	"cmp"
	"slices"
	"sync"
)

// registration is memory that the application has registered. It is pinned when it is first used.
type registration struct {
	from  uint64 // its address
	bytes []byte
	once  sync.Once
	on    regions
	key   []byte // for peers; nil: it is not registered
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
	x.once.Do(func() { x.on, x.key, _ = p.register(x.bytes, false) })
	if x.key == nil {
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
		r.list[i].on.deregister()
		r.list = slices.Delete(r.list, i, i+1)
	}
}

// close ends all registrations.
func (r *registrations) close() {
	r.mu.Lock()
	for _, x := range r.list {
		x.on.deregister()
	}
	r.list, r.over = nil, true
	r.mu.Unlock()
}
