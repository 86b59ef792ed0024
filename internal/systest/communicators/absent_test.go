package communicators

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// Every exported method of every type is called on nil and on the zero value, with zero arguments.
// None panics; those that can return an error return ErrArgument.
func TestMethodsOfNothing(t *testing.T) {
	ending := map[string]bool{"World.Abort": true}
	harmless := map[string]bool{ // the zero Request has ended, and the zero Group is empty
		"Request.Wait": true, "Request.Test": true, "Request.Cancel": true, "Request.WithContext": true,
		"Group.Translate": true, "Group.Include": true, "Group.Exclude": true,
	}
	for _, of := range []any{
		(*banyan.Comm)(nil), new(banyan.Comm), (*banyan.World)(nil), new(banyan.World), (*banyan.Message)(nil),
		new(banyan.Message),
		(*banyan.Persistent)(nil), new(banyan.Persistent), banyan.Request{}, banyan.Group{}, banyan.Route{},
		banyan.Counters{}, banyan.Refused{},
	} {
		v := reflect.ValueOf(of)
		typ := v.Type()
		for i := range typ.NumMethod() {
			name := strings.TrimPrefix(strings.TrimPrefix(typ.String(), "*"), "banyan.") + "." + typ.Method(i).Name
			if ending[name] {
				continue
			}
			t.Run(fmt.Sprintf("%v/%s", v.Kind() == reflect.Pointer && v.IsNil(), name), func(t *testing.T) {
				err, fallible := ranktest.ErrorOf(zeroCall(v.Method(i)))
				if fallible && !harmless[name] {
					require.ErrorIs(t, err, banyan.ErrArgument)
				}
			})
		}
	}
}

// zeroCall calls a function with zero arguments.
func zeroCall(f reflect.Value) []reflect.Value {
	var args []reflect.Value
	n := f.Type().NumIn()
	if f.Type().IsVariadic() {
		n--
	}
	for i := range n {
		args = append(args, reflect.Zero(f.Type().In(i)))
	}
	return f.Call(args)
}

// The same for functions: with a nil communicator, without a context, an operation, a key.
func TestFunctionsOfNothing(t *testing.T) {
	w, err := banyan.Init()
	require.NoError(t, err)
	defer w.Finalize()
	c := w.Comm()
	for name, err := range onNoCommunicator() {
		require.ErrorIs(t, err, banyan.ErrArgument, name)
	}
	for name, err := range withoutArguments(c) {
		require.ErrorIs(t, err, banyan.ErrArgument, name)
	}
	_, found := banyan.Attr(nil, banyan.NewKey[int](nil, nil))
	require.False(t, found)
	_, found = banyan.Attr[int](c, nil)
	require.False(t, found)
	banyan.StartAll([]*banyan.Persistent{nil, c.SendInit(nil, banyan.ProcNull, 0)}, nil)
	require.NoError(t, c.Barrier(), "none of it has harmed a communicator")
}

func waited(r banyan.Request) error   { _, err := r.Wait(); return err }
func third(_, _ any, err error) error { return err }

// onNoCommunicator are the errors of functions on a nil or zero communicator.
func onNoCommunicator() map[string]error {
	var none *banyan.Comm
	one, key, self := []int{1}, banyan.NewKey[int](nil, nil), banyan.Neighborhood{Sources: []int{0}, Dests: []int{0}}
	return map[string]error{
		"Send":                banyan.Send(none, one, 0, 0),
		"Ssend":               banyan.Ssend(none, one, 0, 0),
		"Recv":                second(banyan.Recv(none, one, 0, 0)),
		"Recv from any":       second(banyan.Recv(new(banyan.Comm), one, banyan.AnySource, 0)),
		"Send to ProcNull":    banyan.Send(new(banyan.Comm), one, banyan.ProcNull, 0),
		"Sendrecv":            second(banyan.Sendrecv(none, one, 0, 0, one, 0, 0)),
		"Isend":               waited(banyan.Isend(none, one, 0, 0)),
		"Issend":              waited(banyan.Issend(none, one, 0, 0)),
		"Irecv":               waited(banyan.Irecv(none, one, 0, 0)),
		"SendValue":           banyan.SendValue(none, 1, 0, 0),
		"RecvValue":           third(banyan.RecvValue[int](none, 0, 0)),
		"Bcast":               banyan.Bcast(none, one, 0),
		"Reduce":              banyan.Reduce(none, one, one, banyan.Sum, 0),
		"Allreduce":           banyan.Allreduce(none, one, one, banyan.Sum),
		"AllreduceLocated":    banyan.AllreduceLocated(none, []banyan.Located[int]{{}}, []banyan.Located[int]{{}}, banyan.MinLoc),
		"ReduceLocated":       banyan.ReduceLocated(none, []banyan.Located[int]{{}}, []banyan.Located[int]{{}}, banyan.MinLoc, 0),
		"Gather":              banyan.Gather(none, one, one, 0),
		"Scatter":             banyan.Scatter(none, one, one, 0),
		"Allgather":           banyan.Allgather(none, one, one),
		"Alltoall":            banyan.Alltoall(none, one, one),
		"Allgatherv":          banyan.Allgatherv(none, one, [][]int{one}),
		"Gatherv":             banyan.Gatherv(none, one, [][]int{one}, 0),
		"Scatterv":            banyan.Scatterv(none, [][]int{one}, one, 0),
		"Alltoallv":           banyan.Alltoallv(none, [][]int{one}, [][]int{one}),
		"Iallgatherv":         waited(banyan.Iallgatherv(none, one, [][]int{one})),
		"Igatherv":            waited(banyan.Igatherv(none, one, [][]int{one}, 0)),
		"Iscatterv":           waited(banyan.Iscatterv(none, [][]int{one}, one, 0)),
		"Ialltoallv":          waited(banyan.Ialltoallv(none, [][]int{one}, [][]int{one})),
		"ReduceScatter":       banyan.ReduceScatter(none, one, one, one, banyan.Sum),
		"ReduceScatterBlock":  banyan.ReduceScatterBlock(none, one, one, banyan.Sum),
		"Scan":                banyan.Scan(none, one, one, banyan.Sum),
		"Exscan":              banyan.Exscan(none, one, one, banyan.Sum),
		"IreduceScatter":      waited(banyan.IreduceScatter(none, one, one, one, banyan.Sum)),
		"IreduceScatterBlock": waited(banyan.IreduceScatterBlock(none, one, one, banyan.Sum)),
		"Iscan":               waited(banyan.Iscan(none, one, one, banyan.Sum)),
		"Iexscan":             waited(banyan.Iexscan(none, one, one, banyan.Sum)),
		"Ialltoall":           waited(banyan.Ialltoall(none, one, one)),
		"Ibcast":              waited(banyan.Ibcast(none, one, 0)),
		"Ireduce":             waited(banyan.Ireduce(none, one, one, banyan.Sum, 0)),
		"Iallreduce":          waited(banyan.Iallreduce(none, one, one, banyan.Sum)),
		"Igather":             waited(banyan.Igather(none, one, one, 0)),
		"Iscatter":            waited(banyan.Iscatter(none, one, one, 0)),
		"Iallgather":          waited(banyan.Iallgather(none, one, one)),
		"NeighborAlltoall":    banyan.NeighborAlltoall(none, self, one, one),
		"NeighborAlltoallv":   banyan.NeighborAlltoallv(none, self, [][]int{one}, [][]int{one}),
		"NeighborAllgather":   banyan.NeighborAllgather(none, self, one, one),
		"NeighborAllgatherv":  banyan.NeighborAllgatherv(none, self, one, [][]int{one}),
		"IneighborAlltoall":   waited(banyan.IneighborAlltoall(none, self, one, one)),
		"IneighborAlltoallv":  waited(banyan.IneighborAlltoallv(none, self, [][]int{one}, [][]int{one})),
		"IneighborAllgather":  waited(banyan.IneighborAllgather(none, self, one, one)),
		"IneighborAllgatherv": waited(banyan.IneighborAllgatherv(none, self, one, [][]int{one})),
		"SetAttr":             banyan.SetAttr(none, key, 1),
		"DeleteAttr":          banyan.DeleteAttr(none, key),
	}
}

// withoutArguments are the errors of calls without a context, an operation, an option or a key.
func withoutArguments(c *banyan.Comm) map[string]error {
	var noContext context.Context
	view := c.WithContext(noContext)
	one, key := []int{1}, banyan.NewKey[int](nil, nil)
	return map[string]error{
		"SendValue, no codec":    banyan.SendValue(c, 1, 0, 0, banyan.WithCodec(nil)),
		"SendValue, no option":   banyan.SendValue(c, 1, 0, 0, nil),
		"SendValue, no context":  banyan.SendValue(view, 1, 0, 0),
		"RecvValue, no codec":    third(banyan.RecvValue[int](c, 0, 0, banyan.WithCodec(nil))),
		"RecvValue, no context":  third(banyan.RecvValue[int](view, 0, 0)),
		"Reduce, no operation":   banyan.Reduce(c, one, one, nil, 0),
		"Allreduce, none":        banyan.Allreduce(c, one, one, nil),
		"AllreduceLocated, none": banyan.AllreduceLocated(c, []banyan.Located[int]{{}}, []banyan.Located[int]{{}}, nil),
		"Ireduce, none":          waited(banyan.Ireduce(c, one, one, nil, 0)),
		"Iallreduce, none":       waited(banyan.Iallreduce(c, one, one, nil)),
		"SetAttr, zero":          banyan.SetAttr(new(banyan.Comm), key, 1),
		"AllocWindow, no option": second(c.AllocWindow(8, nil)),
		"SetAttr, no key":        banyan.SetAttr[int](c, nil, 1),
		"DeleteAttr, no key":     banyan.DeleteAttr[int](c, nil),
		"ValidateMultiple":       second(banyan.ValidateMultiple(nil)),
		"ValidateMultiple, zero": second(banyan.ValidateMultiple(c, new(banyan.Comm))),
		"IvalidateMultiple":      second(banyan.IvalidateMultiple(nil).Wait()),
		"Init, no context":       second(banyan.Init(banyan.WithContext(noContext))),
		"Init, no option":        second(banyan.Init(nil)),
		"Simulate":               banyan.Simulate(1, banyan.Simulation{}, nil),
		"Simulate, no option": banyan.Simulate(1, banyan.Simulation{Options: []banyan.Option{nil}},
			func(*banyan.World) error { return nil }),
		"Send, no context":    view.Send(nil, 0, 0),
		"Recv, no context":    second(view.Recv(nil, 0, 0)),
		"Wait, no context":    second(c.Irecv(nil, 0, 0).WithContext(noContext).Wait()),
		"WaitAll, no context": banyan.WaitAll([]banyan.Request{view.Irecv(nil, 0, 0)}),
		"WaitAny, no context": third(banyan.WaitAny([]banyan.Request{view.Irecv(nil, 0, 0)})),
		"WaitSome, none":      second(banyan.WaitSome([]banyan.Request{view.Irecv(nil, 0, 0)}, nil)),
		"Barrier, no context": view.Barrier(),
		"Agree, no context":   second(view.Agree(1)),
		"Dup, no context":     second(view.Dup()),
		"CreateInter":         second(c.CreateInter(0, new(banyan.Comm), 0, 0)),
	}
}

// Queries have an answer.
func TestNoCommunicator(t *testing.T) {
	for _, c := range []*banyan.Comm{nil, new(banyan.Comm)} {
		require.Equal(t, banyan.Undefined, c.Rank())
		require.Zero(t, c.Size())
		require.Zero(t, c.Group().Size())
		require.Equal(t, banyan.Identical, c.Compare(nil))
		c.SetErrorHandler(func(*banyan.Comm, error) { t.Error("the handler of a nil communicator was called") })
		require.EqualError(t, c.Send(nil, 0, 0),
			"banyan: Send(dst 0, tag 0, 0 bytes) on no communicator: wrong argument: it is nil, or no call has made it")
	}
}
