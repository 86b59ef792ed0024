package repairs

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// ended waits for a request.
func ended(r banyan.Request) error {
	_, err := r.Wait()
	return err
}

// barred are the operations that are not local: all methods of Comm but those of unbarred and
// bridged, some with further arguments, and functions. A method stands under its name, with its
// arguments behind a space.
func barred(c *banyan.Comm) map[string]func() error {
	b, one, all := make([]byte, 8), []int{1}, make([]int, c.Size())
	ops := map[string]func() error{
		"Recv any":                 func() error { return second(c.Recv(b, banyan.AnySource, banyan.AnyTag)) },
		"Recv null":                func() error { return second(c.Recv(b, banyan.ProcNull, 0)) },
		"Irecv any":                func() error { return ended(c.Irecv(b, banyan.AnySource, 0)) },
		"Create none":              func() error { return second(c.Create(banyan.Group{})) },
		"send value":               func() error { return banyan.SendValue(c, 5, 1, 0) },
		"recv value":               func() error { _, _, err := banyan.RecvValue[int](c, 1, 0); return err },
		"bcast":                    func() error { return banyan.Bcast(c, one, 0) },
		"reduce":                   func() error { return banyan.Reduce(c, one, one, banyan.Sum, 0) },
		"allreduce":                func() error { return banyan.Allreduce(c, one, one, banyan.Sum) },
		"allgather":                func() error { return banyan.Allgather(c, one, all) },
		"alltoall":                 func() error { return banyan.Alltoall(c, all, all) },
		"allgatherv":               func() error { return banyan.Allgatherv(c, one, ones(c.Size())) },
		"gatherv":                  func() error { return banyan.Gatherv(c, one, ones(c.Size()), 0) },
		"scatterv":                 func() error { return banyan.Scatterv(c, ones(c.Size()), one, 0) },
		"alltoallv":                func() error { return banyan.Alltoallv(c, ones(c.Size()), ones(c.Size())) },
		"reduce-scatter of blocks": func() error { return banyan.ReduceScatterBlock(c, all, one, banyan.Sum) },
		"reduce-scatter": func() error {
			return banyan.ReduceScatter(c, all, one, slices.Repeat([]int{1}, c.Size()), banyan.Sum)
		},
		"neighbour alltoall": func() error {
			ring := banyan.Neighborhood{Sources: []int{(c.Rank() + 1) % c.Size()}, Dests: []int{(c.Rank() + c.Size() - 1) % c.Size()}}
			return banyan.NeighborAlltoall(c, ring, one, make([]int, 1))
		},
		"scan":   func() error { return banyan.Scan(c, one, one, banyan.Sum) },
		"exscan": func() error { return banyan.Exscan(c, one, one, banyan.Sum) },
		"persistent": func() error {
			return ended(c.Persistent(func(c *banyan.Comm) banyan.Request { return c.Ibarrier() }).Start())
		},
		"wait any": func() error { _, _, err := banyan.WaitAny([]banyan.Request{c.Irecv(b, 1, 0)}); return err },
		"wait all": func() error { return banyan.WaitAll([]banyan.Request{c.Irecv(b, 1, 0), c.Isend(b, 1, 0)}) },
	}
	sends := regexp.MustCompile(`[sS]end(Context|Init)?$`)
	for m, v := range reflect.ValueOf(c).Methods() {
		call := func(buf []byte, rank int) func() error {
			return func() error {
				err, _ := ranktest.ErrorOf(v.Call(arguments(v.Type(), c, buf, rank)))
				return err
			}
		}
		switch {
		case slices.Contains(unbarred, m.Name), slices.Contains(bridged, m.Name):
		case sends.MatchString(m.Name):
			for size, buf := range map[string][]byte{"": b, " long": make([]byte, 1<<20)} {
				for who, to := range map[string]int{"another": 1, "itself": c.Rank(), "ProcNull": banyan.ProcNull} {
					ops[m.Name+size+" to "+who] = call(buf, to)
				}
			}
		default: // empty blocks fit every collective
			ops[m.Name] = call(nil, 1%c.Size())
		}
	}
	return ops
}

// ones are as many slices of one number.
func ones(n int) [][]int {
	out := make([][]int, n)
	for i := range out {
		out[i] = make([]int, 1)
	}
	return out
}

// arguments are those of a method of Comm: of its numbers every other one is a rank, the rest are
// 0.
func arguments(method reflect.Type, c *banyan.Comm, buf []byte, rank int) (args []reflect.Value) {
	numbers := 0
	for i := range method.NumIn() {
		var arg any
		switch in := method.In(i); in {
		case reflect.TypeFor[context.Context]():
			arg = context.Background()
		case reflect.TypeFor[[]byte]():
			arg = buf
		case reflect.TypeFor[[][]byte]():
			arg = make([][]byte, c.Size())
		case reflect.TypeFor[[]int](): // counts
			arg = make([]int, c.Size())
		case reflect.TypeFor[int]():
			if arg = 0; numbers%2 == 0 {
				arg = rank
			}
			numbers++
		case reflect.TypeFor[banyan.Group]():
			arg = c.Group()
		case reflect.TypeFor[func(acc, in []byte)]():
			arg = func(_, _ []byte) {}
		default: // variadic
			return args
		}
		args = append(args, reflect.ValueOf(arg))
	}
	return args
}

// unbarred are the methods that work on a revoked communicator: they are local, or made for it.
var unbarred = []string{
	"Persistent",
	"Acknowledged", "Counters", "Failed", "FailedRanks", "SetName", "WithContext",
	"AckFailed", "Compare", "ErrorHandler", "FailureAck", "FailureGetAcked", "Free", "GetFailed", "Group",
	"GroupFailed",
	"IsInter", "IsRevoked", "Name", "Profile", "Rank", "ReenableAnySource", "RemoteGroup", "RemoteGroupFailed",
	"Revoke",
	"SetErrorHandler", "SetProfile", "Size",
	"Agree", "Iagree", "Shrink", "Ishrink",
	"Validate", "Ivalidate", "SetErrorRange", "ErrorRange", "SetUniformity", "Uniformity",
	"SetDesign", "Design", "SetTree", "Tree", "SetAlgorithms", "Algorithm",
}

// bridged are those that need two sides: see TestRevokedIntercommunicator.
var bridged = []string{"CreateInter", "Merge"}

// requireBarred checks that every operation ends with ErrRevoked.
func requireBarred(ops map[string]func() error) error {
	var wrong []error
	for name, op := range ops {
		if err := op(); !errors.Is(err, banyan.ErrRevoked) {
			wrong = append(wrong, fmt.Errorf("%s: %w", name, cmpOr(err)))
		}
	}
	return errors.Join(wrong...)
}

func second[T any](_ T, err error) error { return err }

func cmpOr(err error) error {
	if err == nil {
		return errors.New("no error")
	}
	return err
}

// The listed methods exist.
func TestExceptedMethodsExist(t *testing.T) {
	for _, name := range slices.Concat(unbarred, bridged) {
		_, ok := reflect.TypeFor[*banyan.Comm]().MethodByName(name)
		require.True(t, ok, name)
	}
}

// ULFM 17.3.1, MPI_COMM_REVOKE: after a revocation, by this rank or another, all operations that
// are not local return ErrRevoked, also when a member has failed. Agree, Shrink and queries work.
func TestOperationsOnARevokedCommunicator(t *testing.T) {
	ranktest.WithAndWithoutGet(t, 3, func(w *banyan.Comm) error {
		c, err := w.Dup()
		if err != nil {
			return err
		}
		if c.Rank() == 0 {
			if err := errors.Join(c.Revoke(), c.Revoke()); err != nil {
				return err
			}
		} else if _, err := c.Recv(nil, 0, 0); !errors.Is(err, banyan.ErrRevoked) {
			return fmt.Errorf("recv that waits: %w", cmpOr(err))
		}
		if !c.IsRevoked() || w.IsRevoked() {
			return errors.New("wrong communicator revoked")
		}
		if err := requireBarred(barred(c)); err != nil {
			return err
		}
		_, ack := c.AckFailed(9)
		flag, agree := c.Agree(1<<c.Rank() | 8)
		later, iagree := c.Iagree(^uint64(0)).Wait()
		left, shrink := c.Shrink()
		again, ishrink := c.Ishrink().Wait()
		if err := errors.Join(ack, agree, iagree, shrink, ishrink); err != nil {
			return err
		}
		if flag != 8 || later != ^uint64(0) || c.GetFailed().Size() != 0 || c.Group().Size() != 3 {
			return fmt.Errorf("agreed on %#x, %#x", flag, later)
		}
		for _, s := range []*banyan.Comm{left, again, w} {
			if err := s.Barrier(); err != nil {
				return err
			}
		}
		if err := c.Free(); err != nil {
			return err
		}
		if err := c.Barrier(); !errors.Is(err, banyan.ErrClosed) {
			return fmt.Errorf("after free: %w", cmpOr(err))
		}
		return left.Barrier()
	})
}

// Both sides of an intercommunicator learn of its revocation, which covers each side's internal
// communicator. Its parents stay.
func TestRevokedIntercommunicator(t *testing.T) {
	ranktest.WithAndWithoutGet(t, 5, func(w *banyan.Comm) error {
		half, err := w.Split(w.Rank()%2, 0)
		if err != nil {
			return err
		}
		inter, err := half.CreateInter(0, w, 1-w.Rank()%2, 1)
		if err != nil {
			return err
		}
		if w.Rank() == 3 {
			err = inter.Revoke()
		} else if _, err = inter.Recv(nil, banyan.AnySource, 0); errors.Is(err, banyan.ErrRevoked) {
			err = nil
		}
		if err != nil {
			return err
		}
		_, merge := inter.Merge(w.Rank()%2 == 0)
		_, dup := inter.Dup()
		_, recv := inter.Recv(nil, 0, 0)
		for _, err := range []error{merge, dup, recv, inter.Send(nil, 0, 0)} {
			if !errors.Is(err, banyan.ErrRevoked) {
				return cmpOr(err)
			}
		}
		return errors.Join(half.Barrier(), w.Barrier(), inter.Free())
	})
}

// A revocation by another rank ends every waiting operation.
func TestWaitingOperationsEndWhenRevoked(t *testing.T) {
	names := []string{}
	require.NoError(t, banyan.Simulate(1, banyan.Simulation{}, func(w *banyan.World) error {
		for name := range barred(w.Comm()) {
			names = append(names, name)
		}
		return nil
	}))
	slices.Sort(names)
	for _, name := range names {
		require.NoError(t, banyan.Simulate(3, banyan.Simulation{}, func(w *banyan.World) error {
			c, err := w.Comm().Dup()
			if err != nil {
				return err
			}
			if c.Rank() == 2 {
				w.Sleep(time.Millisecond)
				return errors.Join(c.Revoke(), w.Comm().Barrier())
			}
			// An operation that waits neither for rank 2 nor for a receive succeeds; its repetition
			// is too late.
			for calls := 0; err == nil; calls++ {
				if calls == 100 { // a tenth of this waits longer than rank 2 does
					return errors.New("no error on a revoked communicator")
				}
				if err = barred(c)[name](); err == nil { // a call without progress
					w.Sleep(100 * time.Microsecond)
					_, _, err = w.Comm().Iprobe(banyan.AnySource, 0)
				}
			}
			if !errors.Is(err, banyan.ErrRevoked) {
				return err
			}
			return w.Comm().Barrier()
		}), name)
	}
}

// A collective on a revoked intercommunicator returns ErrRevoked, like every other operation.
func TestCollectiveOnRevokedIntercommunicator(t *testing.T) {
	sides := make([]*banyan.Comm, 2)
	require.NoError(t, banyan.Simulate(2, banyan.Simulation{}, func(w *banyan.World) error {
		inter, err := ranktest.BridgeHalves(w, sides, 0)
		if err != nil {
			return err
		}
		if _, err := inter.Agree(1); err != nil { // both have it before one of them revokes it
			return err
		}
		if err := inter.Revoke(); err != nil {
			return err
		}
		_, started := inter.Ibarrier().Wait()
		for i, err := range []error{inter.Barrier(), inter.Bcast(nil, 0),
			banyan.Allreduce(inter, []int{1}, []int{1}, banyan.Sum), started} {
			if !errors.Is(err, banyan.ErrRevoked) || errors.Is(err, banyan.ErrArgument) {
				return fmt.Errorf("operation %d: %w", i, err)
			}
		}
		return nil
	}))
}
