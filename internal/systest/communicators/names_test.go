package communicators

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// A name given to a communicator is in the errors of all kinds of operations on it, and begins the
// names of those made from it. Names of other communicators stay.
func TestSetName(t *testing.T) {
	require.NoError(t, banyan.Simulate(2, banyan.Simulation{}, func(w *banyan.World) error {
		c, err := w.Comm().Dup()
		require.NoError(t, err)
		require.Equal(t, "world.1", c.Name())
		before, err := c.Shrink()
		require.NoError(t, err)
		require.NoError(t, c.Barrier()) // its communicator of collectives exists
		name := fmt.Sprintf("ocean of %d", c.Rank())
		c.SetName(name)
		after, err := c.Dup()
		require.NoError(t, err)
		left, err := c.Shrink()
		require.NoError(t, err)
		require.Equal(t, []string{name, name + ".1", "world.1.left1", "world"},
			[]string{c.Name(), after.Name(), before.Name(), w.Comm().Name()})
		require.Contains(t, left.Name(), name+".left")
		require.NoError(t, c.Revoke())
		_, acked := c.AckFailed(-1)
		for _, err := range []error{
			c.Send(nil, 0, -5), c.Send(nil, 9, 0), c.Send(nil, 0, 0), c.Barrier(), acked, wait(c.Ibarrier()),
			c.SetUniformity(99), c.SetErrorRange(99), c.SetProfile(99),
		} {
			require.ErrorContains(t, err, " "+name)
			require.NotContains(t, err.Error(), "world")
		}
		c.SetName("")
		require.Equal(t, "world.1", c.Name())
		(*banyan.Comm)(nil).SetName("nothing") // has no effect
		require.Equal(t, "no communicator", (*banyan.Comm)(nil).Name())
		return nil
	}))
}

func wait(r banyan.Request) error {
	_, err := r.Wait()
	return err
}

// A rank's own communicator takes all operations, also when all others have failed. Two of them
// join, in any number.
func TestSelf(t *testing.T) {
	require.NoError(t, banyan.Simulate(3, banyan.Simulation{}, func(w *banyan.World) error {
		c := w.Self()
		require.Same(t, c, w.Self())
		require.Equal(t, []any{0, 1, "self", []int{w.Comm().Rank()}}, []any{c.Rank(), c.Size(), c.Name(), c.Group().Ranks()})
		require.ErrorIs(t, c.Free(), banyan.ErrArgument)
		if err := alone(c); err != nil {
			return err
		}
		for _, other := range [][]int{{0, 1}, {1, 2}, {0, 2}, {0, 1}} {
			me, a, b := w.Comm().Rank(), other[0], other[1]
			if me != a && me != b {
				continue
			}
			inter, err := c.CreateInter(0, w.Comm(), a+b-me, 7)
			require.NoError(t, err)
			both, err := inter.Merge(me == b)
			require.NoError(t, err)
			require.Equal(t, other, both.Group().Ranks())
			require.NoError(t, errors.Join(both.Barrier(), both.Free(), inter.Free()))
		}
		require.NoError(t, w.Finalize())
		require.ErrorIs(t, c.Send(nil, 0, 0), banyan.ErrClosed)
		require.ErrorIs(t, c.Barrier(), banyan.ErrClosed)
		return nil
	}))
}

// alone does operations of all kinds on a communicator of one rank, on a duplicate and on the
// shrunken communicator of a revoked one.
func alone(c *banyan.Comm) error {
	d, err := c.Dup()
	if err != nil {
		return err
	}
	for _, c := range []*banyan.Comm{c, d} {
		in := make([]byte, 3)
		r := c.Irecv(in, 0, 1)
		if err := errors.Join(c.Send([]byte("own"), 0, 1), wait(r), c.Barrier(), wait(c.Ibarrier()), c.Bcast(in, 0)); err != nil {
			return err
		}
		flag, err := c.Agree(5)
		failed, verr := c.Validate()
		if err := errors.Join(err, verr); err != nil || string(in) != "own" || flag != 5 || failed.Size() != 0 {
			return fmt.Errorf("%s, flag %d, failed %v: %w", in, flag, failed.Ranks(), err)
		}
	}
	if err := d.Revoke(); err != nil {
		return err
	}
	left, err := d.Shrink()
	if err != nil {
		return err
	}
	return errors.Join(left.Barrier(), left.Free(), d.Free())
}

// The failed are known in the order of their deaths, and acknowledged in that order, by all names
// of the documents; their ranks are those of the communicator, or those in the world.
func TestKnownAndAcknowledged(t *testing.T) {
	j := ranktest.SimulatedJob{N: 5, Kills: map[int]time.Duration{4: 100 * time.Millisecond, 1: 300 * time.Millisecond}}
	require.NoError(t, j.Run(func(w *banyan.World) error {
		c, err := w.Comm().Split(0, -w.Comm().Rank()) // reversed
		if err != nil {
			return err
		}
		require.Nil(t, c.FailedRanks())
		for len(c.FailedRanks()) < 2 {
			w.Sleep(10 * time.Millisecond)
		}
		require.Equal(t, []int{0, 3}, c.FailedRanks())
		require.Equal(t, []int{4, 1}, c.Failed().Ranks())
		require.Zero(t, c.Acknowledged().Size())
		if _, err := c.AckFailed(1); err != nil {
			return err
		}
		require.Equal(t, []int{4}, c.Acknowledged().Ranks())
		require.Equal(t, banyan.Identical, c.GetFailed().Compare(c.Failed()))
		require.Equal(t, banyan.Identical, c.GroupFailed().Compare(c.Failed()))
		require.Equal(t, []int{4}, c.FailureGetAcked().Ranks())
		all, err := c.ReenableAnySource()
		require.NoError(t, err)
		require.Equal(t, []int{4, 1}, all.Ranks())
		require.Equal(t, []int{4, 1}, c.Acknowledged().Ranks())
		return nil
	}))
}

// go doc shows neither fields nor methods of an alias, so its comment lists them, all and no others.
func TestAliasesShowTheirFields(t *testing.T) {
	types := map[string]reflect.Type{
		"Status": reflect.TypeFor[banyan.Status](), "ProcFailedError": reflect.TypeFor[banyan.ProcFailedError](),
		"OpError":      reflect.TypeFor[banyan.OpError](),
		"MissingError": reflect.TypeFor[banyan.MissingError](), "ProcID": reflect.TypeFor[banyan.ProcID](),
		"Cause": reflect.TypeFor[banyan.Cause](), "Profile": reflect.TypeFor[banyan.Profile](),
		"ErrorRange": reflect.TypeFor[banyan.ErrorRange](), "Uniformity": reflect.TypeFor[banyan.Uniformity](),
		"Design": reflect.TypeFor[banyan.Design](), "LockKind": reflect.TypeFor[banyan.LockKind](),
		"Loan": reflect.TypeFor[banyan.Loan](), "Neighborhood": reflect.TypeFor[banyan.Neighborhood](),
	}
	docs := aliases(t, "../../..")
	require.Len(t, docs, len(types), "aliases: %v", docs)
	for name, typ := range types {
		require.Equal(t, members(typ), listed(docs[name]), name)
	}
}

// aliases are the comments of the aliases that a package declares.
func aliases(t *testing.T, dir string) map[string]string {
	docs := map[string]string{}
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, name := range files {
		file, err := parser.ParseFile(gotoken.NewFileSet(), name, nil, parser.ParseComments)
		require.NoError(t, err)
		for _, d := range file.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == gotoken.TYPE {
				if s := g.Specs[0].(*ast.TypeSpec); s.Assign.IsValid() {
					docs[s.Name.Name] = g.Doc.Text()
				}
			}
		}
	}
	return docs
}

// members are the exported fields and methods of a type, as "Name type" and "Name() type".
func members(typ reflect.Type) (out []string) {
	short := func(t reflect.Type) string { return regexp.MustCompile(`\w+\.`).ReplaceAllString(t.String(), "") }
	for i := 0; typ.Kind() == reflect.Struct && i < typ.NumField(); i++ {
		if f := typ.Field(i); f.IsExported() {
			out = append(out, f.Name+" "+short(f.Type))
		}
	}
	for m := range reflect.PointerTo(typ).Methods() {
		out = append(out, m.Name+"() "+short(m.Type.Out(0)))
	}
	slices.Sort(out)
	return out
}

// listed are those that a comment lists, indented.
func listed(doc string) (out []string) {
	for line := range strings.Lines(doc) {
		if strings.HasPrefix(line, "\t") {
			code, _, _ := strings.Cut(line, "//")
			out = append(out, strings.Join(strings.Fields(code), " "))
		}
	}
	slices.Sort(out)
	return out
}
