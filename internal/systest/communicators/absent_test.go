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
		"Request.Wait": true, "Request.Test": true, "Request.Cancel": true,
		"Group.Translate": true, "Group.Include": true, "Group.Exclude": true,
	}
	for _, of := range []any{
		(*banyan.Comm)(nil), new(banyan.Comm), (*banyan.World)(nil), new(banyan.World), (*banyan.Message)(nil), new(banyan.Message),
		(*banyan.Persistent)(nil), new(banyan.Persistent), banyan.Request{}, banyan.Group{}, banyan.Route{}, banyan.Counters{}, banyan.Refused{},
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
	var none *banyan.Comm
	var noContext context.Context
	w, err := banyan.Init()
	require.NoError(t, err)
	defer w.Finalize()
	c := w.Comm()
	wait := func(r banyan.Request) error {
		_, err := r.Wait()
		return err
	}
	second := func(_ any, err error) error { return err }
	third := func(_, _ any, err error) error { return err }
	one, key := []int{1}, banyan.NewKey[int](nil, nil)
	for name, err := range map[string]error{
		"Send":                   banyan.Send(none, one, 0, 0),
		"Ssend":                  banyan.Ssend(none, one, 0, 0),
		"Recv":                   second(banyan.Recv(none, one, 0, 0)),
		"Recv from any":          second(banyan.Recv(new(banyan.Comm), one, banyan.AnySource, 0)),
		"Send to nobody":         banyan.Send(new(banyan.Comm), one, banyan.ProcNull, 0),
		"Sendrecv":               second(banyan.Sendrecv(none, one, 0, 0, one, 0, 0)),
		"Isend":                  wait(banyan.Isend(none, one, 0, 0)),
		"Issend":                 wait(banyan.Issend(none, one, 0, 0)),
		"Irecv":                  wait(banyan.Irecv(none, one, 0, 0)),
		"SendValue":              banyan.SendValue(none, 1, 0, 0),
		"SendValue, no codec":    banyan.SendValue(c, 1, 0, 0, banyan.WithCodec(nil)),
		"SendValue, no option":   banyan.SendValue(c, 1, 0, 0, nil),
		"SendValueContext":       banyan.SendValueContext(noContext, c, 1, 0, 0),
		"RecvValue":              third(banyan.RecvValue[int](none, 0, 0)),
		"RecvValue, no codec":    third(banyan.RecvValue[int](c, 0, 0, banyan.WithCodec(nil))),
		"RecvValueContext":       third(banyan.RecvValueContext[int](noContext, c, 0, 0)),
		"Bcast":                  banyan.Bcast(none, one, 0),
		"Reduce":                 banyan.Reduce(none, one, banyan.Sum, 0),
		"Reduce, no operation":   banyan.Reduce(c, one, nil, 0),
		"Allreduce":              banyan.Allreduce(none, one, banyan.Sum),
		"Allreduce, none":        banyan.Allreduce(c, one, nil),
		"AllreduceLocated":       banyan.AllreduceLocated(none, []banyan.Located[int]{{}}, banyan.MinLoc),
		"AllreduceLocated, none": banyan.AllreduceLocated(c, []banyan.Located[int]{{}}, nil),
		"ReduceLocated":          banyan.ReduceLocated(none, []banyan.Located[int]{{}}, banyan.MinLoc, 0),
		"Gather":                 banyan.Gather(none, one, one, 0),
		"Scatter":                banyan.Scatter(none, one, one, 0),
		"Allgather":              banyan.Allgather(none, one, one),
		"IBcast":                 wait(banyan.IBcast(none, one, 0)),
		"IReduce":                wait(banyan.IReduce(none, one, banyan.Sum, 0)),
		"IReduce, none":          wait(banyan.IReduce(c, one, nil, 0)),
		"IAllreduce":             wait(banyan.IAllreduce(none, one, banyan.Sum)),
		"IAllreduce, none":       wait(banyan.IAllreduce(c, one, nil)),
		"IGather":                wait(banyan.IGather(none, one, one, 0)),
		"IScatter":               wait(banyan.IScatter(none, one, one, 0)),
		"IAllgather":             wait(banyan.IAllgather(none, one, one)),
		"SetAttr":                banyan.SetAttr(none, key, 1),
		"SetAttr, zero":          banyan.SetAttr(new(banyan.Comm), key, 1),
		"SetAttr, no key":        banyan.SetAttr[int](c, nil, 1),
		"DeleteAttr":             banyan.DeleteAttr(none, key),
		"DeleteAttr, no key":     banyan.DeleteAttr[int](c, nil),
		"ValidateMultiple":       second(banyan.ValidateMultiple(nil)),
		"ValidateMultiple, zero": second(banyan.ValidateMultiple(c, new(banyan.Comm))),
		"IValidateMultiple":      wait(banyan.IValidateMultiple(make([]banyan.Group, 1), nil)),
		"InitContext":            second(banyan.InitContext(noContext)),
		"Init, no option":        second(banyan.Init(nil)),
		"Simulate":               banyan.Simulate(1, banyan.Simulation{}, nil),
		"Simulate, no option":    banyan.Simulate(1, banyan.Simulation{Options: []banyan.Option{nil}}, func(*banyan.World) error { return nil }),
		"SendContext":            c.SendContext(noContext, nil, 0, 0),
		"RecvContext":            second(c.RecvContext(noContext, nil, 0, 0)),
		"WaitContext":            second(c.Irecv(nil, banyan.ProcNull, 0).WaitContext(noContext)),
		"WaitAllContext":         banyan.WaitAllContext(noContext, nil),
		"WaitAnyContext":         third(banyan.WaitAnyContext(noContext, nil)),
		"WaitSomeContext":        second(banyan.WaitSomeContext(noContext, nil, nil)),
		"CreateInter":            second(c.CreateInter(0, new(banyan.Comm), 0, 0)),
	} {
		require.ErrorIs(t, err, banyan.ErrArgument, name)
	}
	_, found := banyan.Attr(none, key)
	require.False(t, found)
	_, found = banyan.Attr[int](c, nil)
	require.False(t, found)
	banyan.StartAll([]*banyan.Persistent{nil, c.SendInit(nil, banyan.ProcNull, 0)}, nil)
	require.NoError(t, c.Barrier(), "nothing of it has harmed a communicator")
}

// Queries have an answer.
func TestNoCommunicator(t *testing.T) {
	for _, c := range []*banyan.Comm{nil, new(banyan.Comm)} {
		require.Equal(t, banyan.Undefined, c.Rank())
		require.Zero(t, c.Size())
		require.Zero(t, c.Group().Size())
		require.Equal(t, banyan.Identical, c.Compare(nil))
		c.SetErrorHandler(func(*banyan.Comm, error) { t.Error("the handler of nobody was called") })
		require.EqualError(t, c.Send(nil, 0, 0), "send on no communicator: wrong argument: it is nil, or no call has made it")
	}
}
