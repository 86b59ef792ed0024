package messages

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
)

// bounds are the communicators of a rank of two, bound to a context.
type bounds struct {
	c, side, inter *banyan.Comm
	world          *banyan.Comm // c without the context
	ctx            context.Context
}

// large is longer than the data that are sent before a receive is posted.
const large = 1 << 20

// uniform marks calls that wait only where creation is uniform.
const uniform = " (uniform)"

// waiting are the calls that wait for rank 1, which answers none.
var waiting = map[string]func(b bounds) error{
	"Comm.Send":   func(b bounds) error { return b.c.Send(make([]byte, large), 1, 5) },
	"Comm.Ssend":  func(b bounds) error { return b.c.Ssend(nil, 1, 5) },
	"Comm.Lend":   func(b bounds) error { return b.c.Lend(nil, 1, 5) },
	"Comm.Borrow": func(b bounds) error { return lastOf(b.c.Borrow(1, 5)) },
	"Comm.Rsend":  func(b bounds) error { return b.c.Rsend(make([]byte, large), 1, 5) },
	"Comm.Recv":   func(b bounds) error { return lastOf(b.c.Recv(nil, 1, 5)) },
	"Comm.Sendrecv": func(b bounds) error {
		return lastOf(b.c.Sendrecv(make([]byte, large), 1, 5, nil, 1, 5))
	},
	"Comm.SendrecvReplace": func(b bounds) error {
		return lastOf(b.c.SendrecvReplace(make([]byte, large), 1, 5, 1, 5))
	},
	"Comm.AllocWindow":      func(b bounds) error { return lastOf(b.c.AllocWindow(8)) },
	"Comm.NewWindow":        func(b bounds) error { return lastOf(b.c.NewWindow(nil)) },
	"Comm.NewDynamicWindow": func(b bounds) error { return lastOf(b.c.NewDynamicWindow()) },
	"Comm.Probe":            func(b bounds) error { return lastOf(b.c.Probe(banyan.AnySource, 5)) },
	"Comm.Mprobe":           func(b bounds) error { return lastOf(b.c.Mprobe(1, 5)) },

	"Comm.Barrier":   func(b bounds) error { return b.c.Barrier() },
	"Comm.Bcast":     func(b bounds) error { return b.c.Bcast(make([]byte, 8), 1) },
	"Comm.Reduce":    func(b bounds) error { return b.c.Reduce(make([]byte, 8), make([]byte, 8), fold, 0) },
	"Comm.Allreduce": func(b bounds) error { return b.c.Allreduce(make([]byte, 8), make([]byte, 8), fold) },
	"Comm.Gather":    func(b bounds) error { return b.c.Gather(make([]byte, 8), make([]byte, 16), 0) },
	"Comm.Scatter":   func(b bounds) error { return b.c.Scatter(nil, make([]byte, 8), 1) },
	"Comm.Allgather": func(b bounds) error { return b.c.Allgather(make([]byte, 8), make([]byte, 16)) },
	"Comm.Alltoall":  func(b bounds) error { return b.c.Alltoall(make([]byte, 16), make([]byte, 16)) },

	"Comm.Allgatherv": func(b bounds) error { return b.c.Allgatherv([]byte{1}, [][]byte{{1}, {2}}) },
	"Comm.Gatherv":    func(b bounds) error { return b.c.Gatherv([]byte{1}, [][]byte{{1}, {2}}, 0) },
	"Comm.Scatterv":   func(b bounds) error { return b.c.Scatterv(nil, []byte{1}, 1) },
	"Comm.Alltoallv":  func(b bounds) error { return b.c.Alltoallv([][]byte{{1}, {2}}, [][]byte{{1}, {2}}) },

	"Comm.ReduceScatterBlock": func(b bounds) error { return b.c.ReduceScatterBlock([]byte{1, 2}, []byte{1}, fold) },
	"Comm.ReduceScatter":      func(b bounds) error { return b.c.ReduceScatter([]byte{1, 2}, []byte{1}, []int{1, 1}, fold) },
	"Comm.Scan":               func(b bounds) error { return b.c.Scan(make([]byte, large), make([]byte, large), fold) },
	"Comm.Exscan":             func(b bounds) error { return b.c.Exscan(make([]byte, large), make([]byte, large), fold) },

	"Comm.Split":                 func(b bounds) error { return lastOf(b.c.Split(0, 0)) },
	"Comm.SplitByNode":           func(b bounds) error { return lastOf(b.c.SplitByNode(0)) },
	"Comm.CreateInter":           func(b bounds) error { return lastOf(b.side.CreateInter(0, b.c, 1, 8)) },
	"Comm.Merge":                 func(b bounds) error { return lastOf(b.inter.Merge(false)) },
	"Comm.Dup" + uniform:         func(b bounds) error { return lastOf(b.c.Dup()) },
	"Comm.Create" + uniform:      func(b bounds) error { return lastOf(b.c.Create(b.c.Group())) },
	"Comm.CreateGroup" + uniform: func(b bounds) error { return lastOf(b.c.CreateGroup(b.c.Group(), 1)) },

	"Comm.Agree":    func(b bounds) error { return lastOf(b.c.Agree(1)) },
	"Comm.Shrink":   func(b bounds) error { return lastOf(b.c.Shrink()) },
	"Comm.Validate": func(b bounds) error { return lastOf(b.c.Validate()) },

	"Request.Wait": func(b bounds) error { return lastOf(b.c.Irecv(nil, 1, 5).Wait()) },
	"Request.Wait, with another context": func(b bounds) error {
		return lastOf(b.world.Isend(make([]byte, large), 1, 5).WithContext(b.ctx).Wait())
	},
	"Result.Wait":              func(b bounds) error { return lastOf(b.c.Iagree(1).Wait()) },
	"Result.Wait, of a shrink": func(b bounds) error { return lastOf(b.c.Ishrink().Wait()) },
	"Result.Wait, with another context": func(b bounds) error {
		return lastOf(b.world.Ivalidate().WithContext(b.ctx).Wait())
	},
	"Persistent.Wait": func(b bounds) error {
		p := b.c.RecvInit(nil, 1, 5)
		p.Start()
		return lastOf(p.Wait())
	},

	"Send":     func(b bounds) error { return banyan.Send(b.c, make([]int, large), 1, 5) },
	"Ssend":    func(b bounds) error { return banyan.Ssend(b.c, []int{1}, 1, 5) },
	"Recv":     func(b bounds) error { return lastOf(banyan.Recv(b.c, []int{1}, 1, 5)) },
	"Sendrecv": func(b bounds) error { return lastOf(banyan.Sendrecv(b.c, []int{1}, 1, 5, []int{1}, 1, 5)) },
	"SendrecvReplace": func(b bounds) error {
		return lastOf(banyan.SendrecvReplace(b.c, []int{1}, 1, 5, 1, 5))
	},
	"SendValue": func(b bounds) error { return banyan.SendValue(b.c, make([]byte, large), 1, 5) },
	"RecvValue": func(b bounds) error {
		_, _, err := banyan.RecvValue[int](b.c, 1, 5)
		return err
	},
	"Bcast":          func(b bounds) error { return banyan.Bcast(b.c, []int{1}, 1) },
	"Reduce":         func(b bounds) error { return banyan.Reduce(b.c, []int{1}, make([]int, 1), banyan.Sum, 0) },
	"Allreduce":      func(b bounds) error { return banyan.Allreduce(b.c, []int{1}, make([]int, 1), banyan.Sum) },
	"AllreduceValue": func(b bounds) error { return lastOf(banyan.AllreduceValue(b.c, 1, banyan.Sum)) },
	"BcastValue":     func(b bounds) error { return lastOf(banyan.BcastValue(b.c, 1, 1)) },
	"AllreduceLocated": func(b bounds) error {
		return banyan.AllreduceLocated(b.c, []banyan.Located[int]{{}}, []banyan.Located[int]{{}}, banyan.MinLoc)
	},
	"ReduceLocated": func(b bounds) error {
		return banyan.ReduceLocated(b.c, []banyan.Located[int]{{}}, []banyan.Located[int]{{}}, banyan.MinLoc, 0)
	},
	"Gather":     func(b bounds) error { return banyan.Gather(b.c, []int{1}, []int{1, 2}, 0) },
	"Scatter":    func(b bounds) error { return banyan.Scatter(b.c, nil, []int{1}, 1) },
	"Allgather":  func(b bounds) error { return banyan.Allgather(b.c, []int{1}, []int{1, 2}) },
	"Alltoall":   func(b bounds) error { return banyan.Alltoall(b.c, []int{1, 2}, []int{1, 2}) },
	"Allgatherv": func(b bounds) error { return banyan.Allgatherv(b.c, []int{1}, [][]int{{1}, {2}}) },
	"Gatherv":    func(b bounds) error { return banyan.Gatherv(b.c, []int{1}, [][]int{{1}, {2}}, 0) },
	"Scatterv":   func(b bounds) error { return banyan.Scatterv(b.c, nil, []int{1}, 1) },
	"Alltoallv":  func(b bounds) error { return banyan.Alltoallv(b.c, [][]int{{1}, {2}}, [][]int{{1}, {2}}) },
	"ReduceScatterBlock": func(b bounds) error {
		return banyan.ReduceScatterBlock(b.c, []int{1, 2}, []int{1}, banyan.Sum)
	},
	"ReduceScatter": func(b bounds) error {
		return banyan.ReduceScatter(b.c, []int{1, 2}, []int{1}, []int{1, 1}, banyan.Sum)
	},
	"NeighborAlltoall": func(b bounds) error { return banyan.NeighborAlltoall(b.c, other(b.c), []int{1}, []int{1}) },
	"NeighborAlltoallv": func(b bounds) error {
		return banyan.NeighborAlltoallv(b.c, other(b.c), [][]int{{1}}, [][]int{{1}})
	},
	"NeighborAllgather": func(b bounds) error { return banyan.NeighborAllgather(b.c, other(b.c), []int{1}, []int{1}) },
	"NeighborAllgatherv": func(b bounds) error {
		return banyan.NeighborAllgatherv(b.c, other(b.c), []int{1}, [][]int{{1}})
	},
	"Scan":   func(b bounds) error { return banyan.Scan(b.c, make([]byte, large), make([]byte, large), banyan.Sum) },
	"Exscan": func(b bounds) error { return banyan.Exscan(b.c, make([]byte, large), make([]byte, large), banyan.Sum) },
	"WaitAll": func(b bounds) error {
		return banyan.WaitAll([]banyan.Request{b.world.Issend(nil, 1, 5), b.c.Irecv(nil, 1, 5)})
	},
	"WaitEach": func(b bounds) error {
		var out [2]banyan.Outcome
		err := banyan.WaitEach([]banyan.Request{b.world.Issend(nil, 1, 5), b.c.Irecv(nil, 1, 5)}, out[:])
		return errors.Join(err, out[0].Err, out[1].Err)
	},
	"WaitAny": func(b bounds) error {
		_, _, err := banyan.WaitAny([]banyan.Request{b.world.Issend(nil, 1, 5), b.c.Ibarrier()})
		return err
	},
	"WaitSome": func(b bounds) error {
		return lastOf(banyan.WaitSome([]banyan.Request{b.c.Isend(make([]byte, large), 1, 5)}, nil))
	},
	"ValidateMultiple": func(b bounds) error { return lastOf(banyan.ValidateMultiple(b.world, b.c)) },
}

// instant are the calls that wait for no other rank, or for a message that has been matched.
const instant = `Comm.AckFailed Comm.Acknowledged Comm.Algorithm Comm.Failed Comm.FailedRanks Comm.SetName Comm.Compare Comm.Counters Comm.Design Comm.ErrorHandler Comm.ErrorRange Comm.FailureAck
	Comm.FailureGetAcked Comm.Free Comm.GetFailed Comm.Group Comm.GroupFailed Comm.Iallgather
	Comm.Bsend Comm.Ibsend Bsend Ibsend
	Comm.Ialltoall Comm.IreduceScatter Comm.IreduceScatterBlock Comm.Iscan Comm.Iexscan Comm.Iallgatherv Comm.Igatherv Comm.Iscatterv Comm.Ialltoallv Comm.Iallreduce Comm.Iagree Comm.Ibarrier Comm.Ibcast Comm.Igather Comm.Improbe Comm.Iprobe
	Comm.Irecv Comm.Ireduce Comm.Irsend Comm.IsInter Comm.Iscatter Comm.Isend Comm.Ishrink
	Comm.IsRevoked Comm.Issend Comm.Ilend Comm.Ivalidate Comm.Name Comm.Persistent Comm.Profile Comm.Rank Comm.RecvInit
	Comm.ReenableAnySource Comm.RemoteGroup Comm.RemoteGroupFailed Comm.Revoke Comm.SendInit
	Comm.SetAlgorithms Comm.SetDesign Comm.SetErrorHandler Comm.SetErrorRange Comm.SetProfile Comm.SetTree Comm.SetUniformity
	Comm.Size Comm.SsendInit Comm.Tree Comm.Uniformity Comm.WithContext
	Message.Borrow Message.Irecv Message.Recv Message.Status Persistent.Free Persistent.Start
	Result.Request Result.Test Result.Value Result.WithContext Request.Cancel Request.Test Request.WithContext
	Attr CopyValue DeleteAttr ErrorsAreFatal ErrorsReturn Iallgather Iallreduce IreduceScatter IreduceScatterBlock Iscan Iexscan Ialltoall Iallgatherv Igatherv Iscatterv Ialltoallv Ibcast Igather Irecv Ireduce Iscatter IneighborAlltoall IneighborAlltoallv IneighborAllgather IneighborAllgatherv
	Isend Issend IvalidateMultiple SetAttr StartAll TestAll TestAny TestSome `

func fold(_, _ []byte) {}

// other is the other one of two ranks.
func other(c *banyan.Comm) banyan.Neighborhood {
	ranks := []int{1 - c.Rank()}
	return banyan.Neighborhood{Sources: ranks, Dests: ranks}
}

// Each call that waits ends with the context of its communicator, and messages pass afterwards.
func TestBoundCallsEnd(t *testing.T) {
	for name, call := range waiting {
		for _, u := range []banyan.Uniformity{banyan.UniformNothing, banyan.UniformCollectives} {
			if u == banyan.UniformNothing && strings.HasSuffix(name, uniform) {
				continue
			}
			t.Run(fmt.Sprintf("%s/%d", name, u), func(t *testing.T) { endsBound(t, u, call) })
		}
	}
}

func endsBound(t *testing.T, u banyan.Uniformity, call func(bounds) error) {
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, banyan.Simulate(2, banyan.Simulation{}, func(w *banyan.World) error {
		c := w.Comm()
		if err := c.SetUniformity(u); err != nil {
			return err
		}
		side, err := c.Split(c.Rank(), 0)
		if err != nil {
			return err
		}
		inter, err := side.CreateInter(0, c, 1-c.Rank(), 7)
		if err != nil {
			return err
		}
		if c.Rank() == 1 {
			if _, err := c.Recv(nil, 0, 1); err != nil {
				return err
			}
			w.Sleep(time.Millisecond)
			cancel()
		} else {
			bound := bounds{c.WithContext(ctx), side.WithContext(ctx), inter.WithContext(ctx), c, ctx}
			called := 0
			c.SetErrorHandler(func(*banyan.Comm, error) { called++ })
			if err := c.Send(nil, 1, 1); err != nil {
				return err
			}
			if err := call(bound); !errors.Is(err, context.Canceled) || called > 0 {
				return fmt.Errorf("want the context's error, and no handler: %w, %d calls", err, called)
			}
		}
		in := make([]byte, 1)
		_, err = c.Sendrecv([]byte{byte(c.Rank())}, 1-c.Rank(), 2, in, 1-c.Rank(), 2)
		if in[0] != byte(1-c.Rank()) {
			err = errors.Join(err, fmt.Errorf("rank %d got %d", c.Rank(), in[0]))
		}
		return err
	}))
}

// Each method and each function with a communicator or requests is in one of the tables.
func TestBoundCallsAreComplete(t *testing.T) {
	var all []string
	for _, of := range []any{(*banyan.Comm)(nil), (*banyan.Message)(nil), (*banyan.Persistent)(nil), banyan.Request{},
		banyan.Result[int]{}} {
		typ := reflect.TypeOf(of)
		name := strings.TrimPrefix(strings.TrimPrefix(typ.String(), "*"), "banyan.")
		for i := range typ.NumMethod() {
			name, _, _ := strings.Cut(name, "[")
			all = append(all, name+"."+typ.Method(i).Name)
		}
	}
	all = append(all, functions(t)...)
	rest := strings.Fields(instant)
	for _, name := range all {
		waits := waiting[name] != nil || waiting[name+uniform] != nil
		rest = slices.DeleteFunc(rest, func(o string) bool { return o == name })
		require.NotEqual(t, waits, slices.Contains(strings.Fields(instant), name), "%s: in one table", name)
	}
	require.Empty(t, rest, "no such calls")
}

// functions are the package's functions that take a communicator or requests.
func functions(t *testing.T) (names []string) {
	paths, err := filepath.Glob("../../../*.go")
	require.NoError(t, err)
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		require.NoError(t, err)
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv != nil || !f.Name.IsExported() {
				continue
			}
			for _, p := range f.Type.Params.List {
				if taken(p.Type) {
					names = append(names, f.Name.Name)
					break
				}
			}
		}
	}
	require.NotEmpty(t, names)
	return names
}

// taken reports whether this is the type of a communicator, of communicators, or of requests.
func taken(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.StarExpr:
		return taken(e.X)
	case *ast.ArrayType:
		return taken(e.Elt)
	case *ast.Ellipsis:
		return taken(e.Elt)
	case *ast.Ident:
		return e.Name == "Comm" || e.Name == "Request"
	}
	return false
}

// A view is the same communicator.
func TestViewIsTheSameCommunicator(t *testing.T) {
	c := alone(t)
	ctx, cancel := context.WithCancel(t.Context())
	v := c.WithContext(ctx)
	require.Equal(t, banyan.Identical, c.Compare(v))
	require.Equal(t, c.Name(), v.Name())
	key := banyan.NewKey[int](nil, nil)
	require.NoError(t, banyan.SetAttr(v, key, 3))
	got, ok := banyan.Attr(c, key)
	require.True(t, ok)
	require.Equal(t, 3, got)
	require.NoError(t, v.SetTree(banyan.FlatTree))
	require.Equal(t, banyan.FlatTree, c.Tree())
	var on *banyan.Comm
	v.SetErrorHandler(func(c *banyan.Comm, _ error) { on = c })
	require.ErrorIs(t, v.Send(nil, 7, 0), banyan.ErrArgument)
	require.Same(t, c, on)
	require.Same(t, c, v.WithContext(context.Background()), "a context that cannot end")
	cancel()
	require.ErrorIs(t, v.Send(nil, 0, 0), context.Canceled)
	require.NoError(t, v.WithContext(soon(t)).Ssend(nil, banyan.ProcNull, 0), "the new context alone")
	d, err := c.Dup()
	require.NoError(t, err)
	require.NoError(t, d.WithContext(soon(t)).Free())
	require.ErrorIs(t, d.Barrier(), banyan.ErrClosed)
}
