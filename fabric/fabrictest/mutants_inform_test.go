package fabrictest

import (
	"slices"

	"github.com/banyan-hpc/banyan/internal/proc"
)

// informMutants have faults in Inform.
var informMutants = []mutant{
	{name: "does not listen", in: "informed", fault: func(b *mutantProvider) {
		b.inform = func(proc.ID, proc.Cause) {}
	}},
	{name: "does not bar", in: "informed-unmet", fault: func(b *mutantProvider) {
		b.inform = func(proc.ID, proc.Cause) {}
	}},
	{name: "drops what has arrived", in: "informed", fault: func(b *mutantProvider) {
		b.inform = func(id proc.ID, c proc.Cause) {
			b.net.mu.Lock()
			b.inbox = slices.DeleteFunc(b.inbox, func(it memItem) bool { return it.from == id })
			b.net.mu.Unlock()
			b.memProc.Inform(id, c)
		}
	}},
	{name: "forgets the cause", in: "informed", fault: func(b *mutantProvider) {
		b.inform = func(id proc.ID, _ proc.Cause) { b.memProc.Inform(id, proc.Cause{}) }
	}},
	{name: "says it twice", in: "informed-after", fault: func(b *mutantProvider) {
		b.inform = func(id proc.ID, c proc.Cause) {
			b.net.mu.Lock()
			b.out[id].ended = false
			b.net.mu.Unlock()
			b.memProc.Inform(id, c)
		}
	}},
	{name: "goes on listening", in: "informed", fault: func(b *mutantProvider) {
		b.inform = func(id proc.ID, c proc.Cause) {
			b.memProc.Inform(id, c)
			b.net.mu.Lock()
			b.out[id].ended = false
			b.net.procs[id].out[b.id].ended = false
			b.net.mu.Unlock()
		}
	}},
}
