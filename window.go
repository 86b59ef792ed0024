package banyan

import (
	"fmt"
	"math"
	"reflect"

	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/p2p/rma"
)

// near returns memory on which an operation can act at once, or nil.
func (w *Window) near(rank int, at uint64, n int) []byte {
	if !w.valid() {
		return nil
	}
	return w.core.Near(rank, at, n)
}

// do starts an operation.
func (w *Window) do(name string, op rma.Op) error {
	if !w.valid() {
		return misuse(name, errAbsent)
	}
	return w.end(name, w.core.Do(&op), arg("rank", op.Rank))
}

// request is do with a request.
func (w *Window) request(name string, op rma.Op) Request {
	if !w.valid() {
		return absent().failed(name, errAbsent)
	}
	return Request{w.core.Request(&op, name), w.c}
}

// Put writes buf to a rank's memory, at an offset.
func (w *Window) Put(buf []byte, rank, at int) error {
	if mem := w.near(rank, uint64(at), len(buf)); mem != nil {
		copy(mem, buf)
		return nil
	}
	return w.do("Put", rma.Op{Kind: rma.Put, Data: buf, Rank: rank, At: uint64(at)})
}

// Get reads from a rank's memory, at an offset, into buf.
func (w *Window) Get(buf []byte, rank, at int) error {
	if mem := w.near(rank, uint64(at), len(buf)); mem != nil {
		copy(buf, mem)
		return nil
	}
	return w.do("Get", rma.Op{Kind: rma.Get, Old: buf, Rank: rank, At: uint64(at)})
}

// PutNotify is Put that increments a counter of the target after the data have been written; see
// [Window.WaitNotice] and [WithNotices].
func (w *Window) PutNotify(buf []byte, rank, at, counter int) error {
	if counter < 0 || counter >= maxNotices {
		return w.wrong("PutNotify", fmt.Errorf("%w: counter %d", ErrArgument, counter))
	}
	return w.do("PutNotify", rma.Op{Kind: rma.Put, Data: buf, Rank: rank, At: uint64(at), Notice: counter + 1})
}

// Rput is Put with a request, which completes when the data are at the target. Like every request it must be
// waited for.
func (w *Window) Rput(buf []byte, rank, at int) Request {
	return w.request("Rput", rma.Op{Kind: rma.Put, Data: buf, Rank: rank, At: uint64(at)})
}

// Rget is Get with a request, which completes when the data are in buf.
func (w *Window) Rget(buf []byte, rank, at int) Request {
	return w.request("Rget", rma.Op{Kind: rma.Get, Old: buf, Rank: rank, At: uint64(at)})
}

// AccOp is an operation of an accumulate: it combines an element with the one in memory. A wrong combination with a
// type is ErrArgument: And, Or and Xor need Integer types, Min and Max Ordered ones.
type AccOp uint8

// The operations of accumulates. AccReplace is an atomic put, AccNoOp an atomic get.
const (
	AccSum     = AccOp(rma.Sum)
	AccProd    = AccOp(rma.Prod)
	AccMin     = AccOp(rma.Min)
	AccMax     = AccOp(rma.Max)
	AccAnd     = AccOp(rma.And)
	AccOr      = AccOp(rma.Or)
	AccXor     = AccOp(rma.Xor)
	AccReplace = AccOp(rma.Replace)
	AccNoOp    = AccOp(rma.NoOp)
)

// elem returns the encoding of a type in frames.
func elem[T Number]() rma.Elem {
	switch k := reflect.TypeFor[T]().Kind(); k {
	case reflect.Int:
		return rma.Elem(reflect.Int64)
	case reflect.Uint:
		return rma.Elem(reflect.Uint64)
	default:
		return rma.Elem(k)
	}
}

// at returns the offset in bytes of an element.
func at[T Number](i int) uint64 {
	if i < 0 || i > math.MaxInt64/size[T]() {
		return rma.NoPlace
	}
	return uint64(i * size[T]())
}

// Put writes elements to a rank's memory; otherwise as [Window.Put].
func Put[T Number](w *Window, data []T, rank, i int) error {
	if mem := w.near(rank, at[T](i), len(data)*size[T]()); mem != nil {
		copy(mem, Bytes(data))
		return nil
	}
	return w.do("Put", rma.Op{Kind: rma.Put, Data: Bytes(data), Rank: rank, At: at[T](i)})
}

// Get reads elements from a rank's memory; otherwise as [Window.Get].
func Get[T Number](w *Window, data []T, rank, i int) error {
	if mem := w.near(rank, at[T](i), len(data)*size[T]()); mem != nil {
		copy(Bytes(data), mem)
		return nil
	}
	return w.do("Get", rma.Op{Kind: rma.Get, Old: Bytes(data), Rank: rank, At: at[T](i)})
}

// Accumulate combines elements with those of a rank's memory, each atomically.
func Accumulate[T Number](w *Window, data []T, rank, i int, op AccOp) error {
	return w.do("Accumulate", combining(rma.Accumulate, data, nil, rank, i, op))
}

func combining[T Number](kind rma.Kind, data, old []T, rank, i int, op AccOp) rma.Op {
	return rma.Op{Kind: kind, Acc: rma.Acc(op), Elem: elem[T](), Data: Bytes(data), Old: Bytes(old), Rank: rank, At: at[T](i)}
}

// GetAccumulate is Accumulate, and reads the old values into old, which is as long as data.
func GetAccumulate[T Number](w *Window, data, old []T, rank, i int, op AccOp) error {
	return w.do("GetAccumulate", combining(rma.GetAccumulate, data, old, rank, i, op))
}

// Raccumulate is Accumulate with a request, which completes when the data have been combined.
func Raccumulate[T Number](w *Window, data []T, rank, i int, op AccOp) Request {
	return w.request("Raccumulate", combining(rma.Accumulate, data, nil, rank, i, op))
}

// RgetAccumulate is GetAccumulate with a request, which completes when the old values are in old too.
func RgetAccumulate[T Number](w *Window, data, old []T, rank, i int, op AccOp) Request {
	return w.request("RgetAccumulate", combining(rma.GetAccumulate, data, old, rank, i, op))
}

// FetchAndOp combines a value with an element of a rank's memory and returns the old element. It waits for that, so
// its errors include those of a synchronisation.
func FetchAndOp[T Number](w *Window, value T, rank, i int, op AccOp) (T, error) {
	if mem := w.near(rank, at[T](i), size[T]()); mem != nil {
		data, old := [1]T{value}, [1]T{}
		if rma.Combine(rma.Acc(op), elem[T](), mem, Bytes(data[:]), Bytes(old[:])) {
			return old[0], nil
		}
	}
	old := make([]T, 1)
	err := w.fetch("FetchAndOp", rma.Op{
		Kind: rma.GetAccumulate, Acc: rma.Acc(op), Elem: elem[T](), Data: Bytes([]T{value}), Old: Bytes(old),
		Rank: rank, At: at[T](i),
	})
	return old[0], err
}

// CompareAndSwap replaces an element of a rank's memory that equals compare by value, and returns the old element.
// Otherwise as [FetchAndOp].
func CompareAndSwap[T Integer](w *Window, compare, value T, rank, i int) (T, error) {
	if mem := w.near(rank, at[T](i), size[T]()); mem != nil {
		data, old := [2]T{compare, value}, [1]T{}
		if rma.Exchange(mem, Bytes(data[:1]), Bytes(data[1:]), Bytes(old[:])) {
			return old[0], nil
		}
	}
	old := make([]T, 1)
	err := w.fetch("CompareAndSwap", rma.Op{
		Kind: rma.CompareAndSwap, Elem: elem[T](), Data: Bytes([]T{compare, value}), Old: Bytes(old),
		Rank: rank, At: at[T](i),
	})
	return old[0], err
}

func (w *Window) fetch(name string, op rma.Op) error {
	if !w.valid() {
		return misuse(name, errAbsent)
	}
	return w.sync(name, w.core.Fetch(&op), arg("rank", op.Rank))
}

// Revoke ends all communication on the window, here at once and soon at every living rank (ULFM 17.3.2):
// every call but Failed, Validate and Free is ErrRevoked.
func (w *Window) Revoke() error {
	if !w.valid() {
		return misuse("Revoke", errAbsent)
	}
	return w.end("Revoke", w.c.core.Revoke())
}

// IsRevoked makes progress and reports whether any rank has revoked the window.
func (w *Window) IsRevoked() bool { return w.valid() && w.c.core.Revoked() }

// Failed makes progress and returns the members that this process knows to have failed; see [Comm.Failed].
func (w *Window) Failed() Group {
	if !w.valid() {
		return Group{}
	}
	return w.c.Failed()
}

// FailedRanks returns the members of Failed by their ranks in the window.
func (w *Window) FailedRanks() []int {
	if !w.valid() {
		return nil
	}
	return w.c.FailedRanks()
}

// Synchronisation of windows. Errors of all: ErrProcFailed, if a rank that the call needs has failed; ErrDeparted,
// ErrRevoked, ErrClosed, ErrArgument. Fence, FlushAll, LockAll, UnlockAll and WaitNotice need all members, Flush,
// Lock and Unlock the target, Start, Post, Complete and Wait their group.

// LockKind is the kind of a lock.
type LockKind = rma.LockKind

// The kinds of locks. Several ranks may hold LockShared at once.
const (
	LockShared    = rma.LockShared
	LockExclusive = rma.LockExclusive
)

// Fence completes all operations on this rank's memory and of this rank, and begins an epoch at all
// ranks. It is collective.
func (w *Window) Fence() error {
	if !w.valid() {
		return misuse("Fence", errAbsent)
	}
	return w.sync("Fence", w.core.Fence(func() error { return w.c.doBarrier(manner{}) }))
}

// Post lets ranks access this rank's memory, until Wait. After ErrDeparted it does so for the other ranks.
func (w *Window) Post(origins Group) error {
	return w.among("Post", origins, (*rma.Window).Post)
}

// Start waits until ranks have posted, and lets this rank access their memory until Complete.
func (w *Window) Start(targets Group) error {
	return w.among("Start", targets, (*rma.Window).StartAccess)
}

func (w *Window) among(op string, g Group, do func(*rma.Window, []int) error) error {
	if !w.valid() {
		return misuse(op, errAbsent)
	}
	var ranks []int
	for _, p := range g.g.Procs() {
		rank := w.c.core.Members().Rank(p)
		if rank < 0 {
			return w.wrong(op, fmt.Errorf("%w: %v is no rank of the window", ErrArgument, p))
		}
		ranks = append(ranks, rank)
	}
	return w.sync(op, do(w.core, ranks))
}

// Complete ends the epoch of Start: the operations are complete.
func (w *Window) Complete() error { return w.call("Complete", (*rma.Window).Complete) }

// Wait ends the epoch of Post when all ranks of its group have called Complete. ErrDeparted names one that never will:
// call it again for the others.
func (w *Window) Wait() error { return w.call("Wait", (*rma.Window).Wait) }

func (w *Window) call(op string, do func(*rma.Window) error) error {
	if !w.valid() {
		return misuse(op, errAbsent)
	}
	return w.sync(op, do(w.core))
}

func (w *Window) callOn(op string, rank int, do func(*rma.Window, int) error) error {
	if !w.valid() {
		return misuse(op, errAbsent)
	}
	return w.sync(op, do(w.core, rank), arg("rank", rank))
}

// Test makes progress. If all have called Complete it is Wait; otherwise it returns false.
func (w *Window) Test() (done bool, err error) {
	err = w.call("Test", func(w *rma.Window) (err error) { done, err = w.Test(); return err })
	return done, err
}

// Lock waits for a lock of a rank's memory, and lets this rank access it until Unlock. Locks are granted in the
// order of requests. The lock of a rank that has died is released.
func (w *Window) Lock(kind LockKind, rank int) error {
	if w.valid() && w.core.LockNow(kind, rank) {
		return nil
	}
	return w.callOn("Lock", rank, func(w *rma.Window, rank int) error { return w.Lock(kind, rank) })
}

// Unlock completes the operations on the rank and releases the lock.
func (w *Window) Unlock(rank int) error {
	if w.valid() && w.core.UnlockNow(rank) {
		return nil
	}
	return w.callOn("Unlock", rank, (*rma.Window).Unlock)
}

// LockAll locks all ranks, shared. It is not collective.
func (w *Window) LockAll() error { return w.call("LockAll", (*rma.Window).LockAll) }

// UnlockAll unlocks all ranks that are locked.
func (w *Window) UnlockAll() error { return w.call("UnlockAll", (*rma.Window).UnlockAll) }

// Flush completes the operations on a rank: puts are in its memory, and the results of gets are here. Like all kinds of
// it, it is ErrArgument outside of an epoch.
func (w *Window) Flush(rank int) error {
	if w.valid() && w.core.Settled(rank) {
		return nil
	}
	return w.callOn("Flush", rank, (*rma.Window).Flush)
}

// FlushLocal waits until the buffers of the operations on a rank may be used again; at the rank the operations may
// not be complete.
func (w *Window) FlushLocal(rank int) error {
	return w.callOn("FlushLocal", rank, (*rma.Window).FlushLocal)
}

// FlushLocalAll is FlushLocal of all ranks.
func (w *Window) FlushLocalAll() error { return w.call("FlushLocalAll", (*rma.Window).FlushLocalAll) }

// Sync orders this rank's own loads and stores on memory of the window, its own and [Window.Shared], and makes
// progress.
func (w *Window) Sync() error { return w.call("Sync", (*rma.Window).Sync) }

// FlushAll is Flush of all ranks.
func (w *Window) FlushAll() error { return w.call("FlushAll", (*rma.Window).FlushAll) }

// WaitNotice waits until a counter of this rank has reached n, and subtracts n ([Window.PutNotify]). It needs no
// epoch. The failure of any member ends it, unless the counter has reached n.
func (w *Window) WaitNotice(counter int, n uint64) error {
	return w.call("WaitNotice", func(w *rma.Window) error { return w.WaitNotice(counter, n) })
}

// TestNotice makes progress. If the counter has reached n it is WaitNotice; otherwise it returns false, with an error
// if a member has failed.
func (w *Window) TestNotice(counter int, n uint64) (ok bool, err error) {
	err = w.call("TestNotice", func(w *rma.Window) (err error) { ok, err = w.TestNotice(counter, n); return err })
	return ok, err
}

// SizeAt returns the length of a rank's memory in bytes; 0 for a rank that does not exist, and in a dynamic
// window.
func (w *Window) SizeAt(rank int) int {
	if !w.valid() || rank < 0 || rank >= w.c.Size() {
		return 0
	}
	return w.core.SizeAt(rank)
}

// Validate makes the window work again after failures, among the remaining ranks; see [Comm.Validate]. All living
// ranks call it. It ends all epochs, locks and waiting notices; memory and counters keep their values. Operations on
// the agreed failed ranks do nothing under [RTS]; under [ULFM] synchronisation with only such ranks is
// ErrProcFailed. Otherwise ErrProcFailed means that another rank has failed meanwhile: call it again. A revoked
// window remains revoked.
func (w *Window) Validate() (Group, error) {
	if !w.valid() {
		return Group{}, misuse("Validate", errAbsent)
	}
	var failed Group
	err := w.c.wait(w.c.validate([]*Comm{w.c}, func(_ int, g Group) { failed = g }))
	if err != nil {
		return Group{}, w.end("Validate", err)
	}
	var ended []proc.ID
	ended = append(ended, failed.g.Procs()...)
	w.core.Reset(ended)
	if w.c.core.Revoked() {
		return failed, nil
	}
	if err = w.c.doBarrier(manner{}); err != nil {
		w.core.Fail()
	}
	return failed, w.sync("Validate", err)
}
