package repairs

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
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

// barred are the operations that are not local, by the name of the method of Comm or of the
// function, with what is done there behind a space.
func barred(c *banyan.Comm) map[string]func() error {
	ctx, long, b := context.Background(), make([]byte, 1<<20), make([]byte, 8)
	one, all := []int{1}, make([]int, c.Size())
	fold, add := func(acc, in []byte) {}, func(a, b int) int { return a + b }
	status := func(_ banyan.Status, err error) error { return err }
	made := func(_ *banyan.Comm, err error) error { return err }
	ops := map[string]func() error{
		"Recv":            func() error { return status(c.Recv(b, 1, 0)) },
		"Recv any":        func() error { return status(c.Recv(b, banyan.AnySource, banyan.AnyTag)) },
		"Recv null":       func() error { return status(c.Recv(b, banyan.ProcNull, 0)) },
		"RecvContext":     func() error { return status(c.RecvContext(ctx, b, 1, 0)) },
		"Irecv":           func() error { return ended(c.Irecv(b, 1, 0)) },
		"Irecv any":       func() error { return ended(c.Irecv(b, banyan.AnySource, 0)) },
		"RecvInit":        func() error { return ended(c.RecvInit(b, 1, 0).Start()) },
		"Sendrecv":        func() error { return status(c.Sendrecv(b, 1, 0, b, 1, 0)) },
		"SendrecvContext": func() error { return status(c.SendrecvContext(ctx, b, 1, 0, b, 1, 0)) },
		"Probe":           func() error { return status(c.Probe(1, 0)) },
		"ProbeContext":    func() error { return status(c.ProbeContext(ctx, 1, 0)) },
		"Iprobe":          func() error { _, _, err := c.Iprobe(1, 0); return err },
		"Mprobe":          func() error { _, err := c.Mprobe(1, 0); return err },
		"MprobeContext":   func() error { _, err := c.MprobeContext(ctx, 1, 0); return err },
		"Improbe":         func() error { _, _, err := c.Improbe(1, 0); return err },
		"Barrier":         c.Barrier,
		"Bcast":           func() error { return c.Bcast(b, 0) },
		"ReduceBytes":     func() error { return c.ReduceBytes(b, fold, 0) },
		"AllreduceBytes":  func() error { return c.AllreduceBytes(b, fold) },
		"AllgatherBytes":  func() error { return c.AllgatherBytes(b, make([]byte, 8*c.Size())) },
		"GatherBytes":     func() error { return c.GatherBytes(b, make([]byte, 8*c.Size()), 0) },
		"ScatterBytes":    func() error { return c.ScatterBytes(make([]byte, 8*c.Size()), b, 0) },
		"IBarrier":        func() error { return ended(c.IBarrier()) },
		"IBcast":          func() error { return ended(c.IBcast(b, 0)) },
		"IReduceBytes":    func() error { return ended(c.IReduceBytes(b, fold, 0)) },
		"IAllreduceBytes": func() error { return ended(c.IAllreduceBytes(b, fold)) },
		"IGatherBytes":    func() error { return ended(c.IGatherBytes(b, make([]byte, 8*c.Size()), 0)) },
		"IScatterBytes":   func() error { return ended(c.IScatterBytes(make([]byte, 8*c.Size()), b, 0)) },
		"IAllgatherBytes": func() error { return ended(c.IAllgatherBytes(b, make([]byte, 8*c.Size()))) },
		"Dup":             func() error { return made(c.Dup()) },
		"Create":          func() error { return made(c.Create(c.Group())) },
		"Create none":     func() error { return made(c.Create(banyan.Group{})) },
		"CreateGroup":     func() error { return made(c.CreateGroup(c.Group(), 1)) },
		"Split":           func() error { return made(c.Split(0, 0)) },
		"SplitByNode":     func() error { return made(c.SplitByNode(0)) },
		"send value":      func() error { return banyan.SendValue(c, 5, 1, 0) },
		"recv value":      func() error { _, _, err := banyan.RecvValue[int](c, 1, 0); return err },
		"bcast":           func() error { return banyan.Bcast(c, one, 0) },
		"reduce":          func() error { return banyan.Reduce(c, one, add, 0) },
		"allreduce":       func() error { return banyan.Allreduce(c, one, add) },
		"allgather":       func() error { return banyan.Allgather(c, one, all) },
		"wait any":        func() error { _, _, err := banyan.WaitAny([]banyan.Request{c.Irecv(b, 1, 0)}); return err },
		"wait all":        func() error { return banyan.WaitAll([]banyan.Request{c.Irecv(b, 1, 0), c.Isend(b, 1, 0)}) },
	}
	for size, buf := range map[string][]byte{"": b, " long": long} {
		for who, to := range map[string]int{"another": 1, "itself": c.Rank(), "nobody": banyan.ProcNull} {
			where := size + " to " + who
			ops["Send"+where] = func() error { return c.Send(buf, to, 0) }
			ops["Ssend"+where] = func() error { return c.Ssend(buf, to, 0) }
			ops["Rsend"+where] = func() error { return c.Rsend(buf, to, 0) }
			ops["SendContext"+where] = func() error { return c.SendContext(ctx, buf, to, 0) }
			ops["SsendContext"+where] = func() error { return c.SsendContext(ctx, buf, to, 0) }
			ops["RsendContext"+where] = func() error { return c.RsendContext(ctx, buf, to, 0) }
			ops["Isend"+where] = func() error { return ended(c.Isend(buf, to, 0)) }
			ops["Issend"+where] = func() error { return ended(c.Issend(buf, to, 0)) }
			ops["Irsend"+where] = func() error { return ended(c.Irsend(buf, to, 0)) }
			ops["SendInit"+where] = func() error { return ended(c.SendInit(buf, to, 0).Start()) }
			ops["SsendInit"+where] = func() error { return ended(c.SsendInit(buf, to, 0).Start()) }
		}
	}
	return ops
}

// unbarred are the methods that work on a revoked communicator: they are local, or made for it.
var unbarred = []string{
	"AckFailed", "Compare", "ErrorHandler", "FailureAck", "FailureGetAcked", "Free", "GetFailed", "Group", "GroupFailed",
	"IsInter", "IsRevoked", "Name", "Profile", "Rank", "ReenableAnySource", "RemoteGroup", "RemoteGroupFailed", "Revoke",
	"SetErrorHandler", "SetProfile", "Size",
	"Agree", "IAgree", "Shrink", "IShrink",
	"Validate", "IValidate", "SetErrorRange", "ErrorRange", "SetUniformity", "Uniformity",
	"SetDesign", "Design", "SetTree", "Tree",
}

// bridged are those that want two sides: see TestRevokedIntercommunicator.
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

func cmpOr(err error) error {
	if err == nil {
		return errors.New("no error")
	}
	return err
}

// Every method of Comm is in one of the lists above: whoever adds one says what it does on a
// revoked communicator.
func TestEveryMethodIsListed(t *testing.T) {
	var listed []string
	require.NoError(t, banyan.Simulate(1, banyan.Simulation{}, func(w *banyan.World) error {
		for name := range barred(w.Comm()) {
			method, _, _ := strings.Cut(name, " ")
			listed = append(listed, method)
		}
		return nil
	}))
	listed = append(append(listed, unbarred...), bridged...)
	comm := reflect.TypeFor[*banyan.Comm]()
	for i := range comm.NumMethod() {
		require.Contains(t, listed, comm.Method(i).Name, "put it into barred or unbarred")
	}
}

// S1-30, S1-31: once a communicator has been revoked, here or by another rank, all operations that are not
// local are ErrRevoked, also when a member has failed; S1-33, S1-41: those made for it work, and so do queries.
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
		later := ^uint64(0)
		iagree := ended(c.IAgree(&later))
		left, shrink := c.Shrink()
		var again *banyan.Comm
		ishrink := ended(c.IShrink(&again))
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

// Both sides of an intercommunicator hear of its revocation, and what either side has for itself goes with it; its
// parents stay.
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

// Whatever waits when a communicator is revoked by another rank ends.
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
			// What does not wait for rank 2 or for a receive succeeds, and the second time is too late.
			for err == nil {
				if err = barred(c)[name](); err == nil { // it may not have made progress
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

// A collective on a revoked intercommunicator is ErrRevoked, as everything else on it.
func TestCollectiveOnRevokedIntercommunicator(t *testing.T) {
	sides := make([]*banyan.Comm, 2)
	require.NoError(t, banyan.Simulate(2, banyan.Simulation{}, func(w *banyan.World) error {
		inter, err := ranktest.BridgeHalves(w, sides, 0)
		if err != nil {
			return err
		}
		if err := inter.Barrier(); !errors.Is(err, banyan.ErrArgument) {
			return fmt.Errorf("before: %w", err)
		}
		if err := inter.Revoke(); err != nil {
			return err
		}
		_, begun := inter.IBarrier().Wait()
		for i, err := range []error{inter.Barrier(), inter.Bcast(nil, 0), banyan.Allreduce(inter, []int{1}, banyan.Sum), begun} {
			if !errors.Is(err, banyan.ErrRevoked) || errors.Is(err, banyan.ErrArgument) {
				return fmt.Errorf("operation %d: %w", i, err)
			}
		}
		return nil
	}))
}
