package osu

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/banyan-hpc/banyan"
)

// Creation is how the memory of a window is made, by the words of OSU's option -w.
type Creation string

// The ways that there are. OSU's dynamic needs windows to which memory is attached later.
const (
	CreateWindow   Creation = "create"   // memory of the program: [banyan.Comm.NewWindow]
	AllocateWindow Creation = "allocate" // [banyan.Comm.AllocWindow]
)

// Creations has them all.
var Creations = []Creation{AllocateWindow, CreateWindow}

// Check reports a way that is invalid or not implemented, and the remedy.
func (c Creation) Check() error {
	switch c {
	case CreateWindow, AllocateWindow:
		return nil
	case "dynamic":
		return fmt.Errorf("windows of kind dynamic are not built: use %s or %s", AllocateWindow, CreateWindow)
	}
	return fmt.Errorf("%q is no kind of window: use %s or %s", string(c), AllocateWindow, CreateWindow)
}

// Synchronization is how an iteration of operations on a window ends, by the words of OSU's option -s.
type Synchronization string

// The ways that there are. With the last two the target calls, too.
const (
	SyncLock  Synchronization = "lock"  // a shared lock and unlock
	SyncFlush Synchronization = "flush" // a flush; the lock is taken once and not timed
	// SyncFlushLocal is SyncFlush with a flush that is over when the buffers may be used again.
	SyncFlushLocal Synchronization = "flush_local"
	SyncLockAll    Synchronization = "lock_all" // a lock of all ranks and unlock
	SyncPSCW       Synchronization = "pscw"     // start and complete, post and wait
	SyncFence      Synchronization = "fence"
)

// Synchronizations has them all.
var Synchronizations = []Synchronization{SyncFlush, SyncFlushLocal, SyncLock, SyncLockAll, SyncPSCW, SyncFence}

// Check reports a way that is invalid or not implemented, and the remedy.
func (s Synchronization) Check() error {
	if slices.Contains(Synchronizations, s) {
		return nil
	}
	return fmt.Errorf("%q is no synchronization: use one of %v", string(s), Synchronizations)
}

// active: the target takes part.
func (s Synchronization) active() bool { return ways[s].active() }

// access describes the use of a window in the benchmarks of a kind of operation.
type access struct {
	// call starts an operation on the peer's memory, at an offset in bytes.
	call func(r *remote, at, size int) error
	// data and old: it reads sbuf, and it writes to rbuf.
	data, old bool
	// turn computes, from the bytes of the memory, and of sbuf if it is read, the contents of the
	// memory afterwards; nil if it only reads.
	turn func(memory, data []byte)
	// compares: rbuf has the value that is expected in the memory, and then the one that is there.
	compares bool
	// fixed is the only length in bytes; 0: there are all.
	fixed int
}

// word is the length in bytes of the operands of atomic operations.
const word = 8

var (
	putAccess = access{
		call: func(r *remote, at, size int) error { return r.win.Put(r.sbuf[at:at+size], r.peer, at) },
		data: true,
		turn: func(memory, data []byte) { copy(memory, data) },
	}
	getAccess = access{
		call: func(r *remote, at, size int) error { return r.win.Get(r.rbuf[at:at+size], r.peer, at) },
		old:  true,
	}
	// OSU adds up characters.
	accAccess = access{
		call: func(r *remote, at, size int) error {
			return banyan.Accumulate(r.win, r.sbuf[at:at+size], r.peer, at, banyan.AccSum)
		},
		data: true,
		turn: addBytes,
	}
	getAccAccess = access{
		call: func(r *remote, at, size int) error {
			return banyan.GetAccumulate(r.win, r.sbuf[at:at+size], r.rbuf[at:at+size], r.peer, at, banyan.AccSum)
		},
		data: true, old: true,
		turn: addBytes,
	}
	fopAccess = access{
		call: func(r *remote, _, _ int) error {
			old, err := banyan.FetchAndOp(r.win, load(r.sbuf), r.peer, 0, banyan.AccSum)
			store(r.rbuf, old)
			return err
		},
		data: true, old: true, fixed: word,
		turn: func(memory, data []byte) { store(memory, load(memory)+load(data)) },
	}
	// casAccess adds one each time: the value is the expected one, but for the first.
	casAccess = access{
		call: func(r *remote, _, _ int) error {
			expected := load(r.rbuf)
			old, err := banyan.CompareAndSwap(r.win, expected, expected+1, r.peer, 0)
			if old == expected {
				old++
			}
			store(r.rbuf, old)
			return err
		},
		old: true, compares: true, fixed: word,
		turn: func(memory, _ []byte) { store(memory, load(memory)+1) },
	}
)

// checkWindow reports the first option that makes no sense for a window.
func (b *Benchmark) checkWindow(o *Options) error {
	if b.access == nil {
		if o.Creation != "" || o.Sync != "" {
			return errors.New("it has no window to make or to synchronize")
		}
		return nil
	}
	if err := cmp.Or(o.Creation.Check(), o.Sync.Check()); err != nil {
		return err
	}
	if b.active && !o.Sync.active() {
		return fmt.Errorf("synchronization by %s: both ranks access at once, so %s or %s is needed", o.Sync, SyncPSCW,
			SyncFence)
	}
	if n := b.access.fixed; n > 0 && (o.Min != n || o.Max != n) {
		return fmt.Errorf("sizes %d:%d: it has one, %d bytes", o.Min, o.Max, n)
	}
	return nil
}

func addBytes(memory, data []byte) {
	for i := range memory {
		memory[i] += data[i]
	}
}

// load and store have a word of the machine, as the operations do.
func load(b []byte) int64     { return int64(binary.NativeEndian.Uint64(b)) }
func store(b []byte, v int64) { binary.NativeEndian.PutUint64(b, uint64(v)) }
