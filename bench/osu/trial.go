package osu

import (
	"time"

	"github.com/banyan-hpc/banyan"
)

// Trial is one of the collectives at one size, for programs that count and time its calls themselves. All ranks of
// the job make it and call its methods alike. It is for one goroutine.
type Trial struct {
	g    *group
	o    Options
	size int
}

// Holds reports whether a message of so many bytes has an element.
func (b *Benchmark) Holds(size int) bool { return size >= b.unit(&b.Defaults) }

// Trial takes the memory of the operation, and writes to all of it.
//
// Precondition: the benchmark is a Collective.
func (b *Benchmark) Trial(w *banyan.World, size int) (*Trial, error) {
	o := b.Defaults
	o.Max = size
	if err := b.Check(w.Comm().Size(), o); err != nil {
		return nil, err
	}
	t := &Trial{newGroup(w, &o, b.op), o, size}
	return t, t.g.open(&o)
}

// Call calls the operation once.
func (t *Trial) Call() error { return t.g.op.call(t.g, t.size) }

// Time calls the operation so many times on a communicator of all ranks, in the order of the job's, and returns the
// time of the calls at this rank, without the barriers between calls after which ranks do not wait for each other.
func (t *Trial) Time(c *banyan.Comm, calls int) (time.Duration, error) {
	before := t.g.c
	defer func() { t.g.c = before }()
	t.g.c = c
	return t.g.calls(t.size, calls, nil)
}

// Rewrite writes this rank's send buffer: new values, the same everywhere. It takes as long as memset, which the peers'
// programs call here: with four ranks on a core the time counts in the calls of the others.
func (t *Trial) Rewrite(value byte) {
	given := t.g.buf[:min(t.size, len(t.g.buf))]
	if t.g.op.gives {
		given = t.g.buf
	}
	if len(given) == 0 {
		return
	}
	given[0] = value
	for done := 1; done < len(given); {
		done += copy(given[done:], given[:min(done, rewriteBytes)])
	}
}

// rewriteBytes are copied again and again from the nearest cache.
const rewriteBytes = 4096

// Free frees the memory of the trial.
func (t *Trial) Free() error { return t.g.free(&t.o) }
