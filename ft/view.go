package ft

import (
	"slices"
	"sync/atomic"

	"github.com/banyan-hpc/banyan/internal/proc"
)

// View is this process's knowledge of failed processes. The goroutine that holds the engine's lock
// writes it; any goroutine may load Epoch. Everything else is read under the lock. The zero View is
// empty.
type View struct {
	// epoch is written by Enter after the set; readers compare it with the value that they saw
	// last. Each failure increments it.
	epoch  atomic.Uint64
	failed Set
	order  []proc.ID               // failed, in the order of entry
	first  [firstCauses]proc.Cause // of the first in order
	causes map[proc.ID]proc.Cause  // of the others, without kind Unknown, the usual kind of failures that others have detected
}

// firstCauses is the number of failures whose causes need no map, whose first entry costs a process some microseconds
// on the way from a death to the error.
const firstCauses = 8

// Epoch is the number of known failures. A waiting goroutine that sees it change checks its
// condition again.
func (v *View) Epoch() uint64 { return v.epoch.Load() }

// Enter records a failure and reports whether it was new. From now on nothing from the process may
// be delivered.
func (v *View) Enter(id proc.ID, cause proc.Cause) bool {
	if !v.failed.Add(id) {
		return false
	}
	v.order = append(v.order, id)
	v.explain(len(v.order)-1, cause)
	v.epoch.Add(1)
	return true
}

// Explain enters the cause of a known failure, for what asks from now on.
func (v *View) Explain(id proc.ID, cause proc.Cause) { v.explain(slices.Index(v.order, id), cause) }

// explain enters the cause of the failure with an index in order.
func (v *View) explain(i int, cause proc.Cause) {
	switch {
	case i < 0:
	case i < firstCauses:
		v.first[i] = cause
	case cause != (proc.Cause{}):
		if v.causes == nil {
			v.causes = make(map[proc.ID]proc.Cause)
		}
		v.causes[v.order[i]] = cause
	}
}

// Failed reports whether id is known to have failed.
func (v *View) Failed(id proc.ID) bool { return v.failed.Has(id) }

// Cause returns how a failed process ended.
func (v *View) Cause(id proc.ID) proc.Cause {
	if i := slices.Index(v.order[:min(len(v.order), firstCauses)], id); i >= 0 {
		return v.first[i]
	}
	return v.causes[id]
}

// Set is the set of known failures; the caller does not change it.
func (v *View) Set() *Set { return &v.failed }

// Order lists the known failures in the order of entry: an earlier list is a prefix of a later one.
// The caller does not change it.
func (v *View) Order() []proc.ID { return v.order }
