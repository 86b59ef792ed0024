package ft

import (
	"sync/atomic"

	"github.com/banyan-hpc/banyan/internal/proc"
)

// View is what this process knows of the dead. One goroutine writes it (the
// one that holds the engine's lock); any goroutine may load Epoch. The rest is
// read under the engine's lock. The zero View knows of no death.
type View struct {
	// epoch: written by Enter after the set; readers compare it with the value
	// they saw last. Each death raises it by one.
	epoch  atomic.Uint64
	failed Set
	order  []proc.ID // the same, as they were entered
	causes map[proc.ID]proc.Cause
}

// Epoch is the number of deaths known. A waiter that sees it change looks
// again at what it waits for.
func (v *View) Epoch() uint64 { return v.epoch.Load() }

// Enter records a death and reports whether it was new. From now on the
// process is known dead and nothing from it may be delivered (E3).
func (v *View) Enter(id proc.ID, cause proc.Cause) bool {
	if !v.failed.Add(id) {
		return false
	}
	v.order = append(v.order, id)
	if v.causes == nil {
		v.causes = make(map[proc.ID]proc.Cause)
	}
	v.causes[id] = cause
	v.epoch.Add(1)
	return true
}

// Failed reports whether id is known dead.
func (v *View) Failed(id proc.ID) bool { return v.failed.Has(id) }

// Cause gives how a known dead process ended.
func (v *View) Cause(id proc.ID) proc.Cause { return v.causes[id] }

// Set is the set of the known dead; the caller does not change it.
func (v *View) Set() *Set { return &v.failed }

// Order lists the known dead in the order in which they were entered: what it
// gave before is a prefix of what it gives later. The caller does not change it.
func (v *View) Order() []proc.ID { return v.order }
