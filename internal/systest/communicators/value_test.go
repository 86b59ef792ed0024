package communicators

import (
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

type particle struct {
	Name  string
	X     []float64
	Next  *particle
	Table map[string][]int
}

// values passes values of small, long and recursive types round all ranks.
func values(w *banyan.World) error {
	c := w.Comm()
	next, prev := (c.Rank()+1)%c.Size(), (c.Rank()+c.Size()-1)%c.Size()
	for _, opts := range [][]banyan.ValueOption{nil, {banyan.WithCodec(banyan.JSON)}} {
		for _, n := range []int{0, 3, 10_000} {
			mine := func(rank int) particle {
				return particle{
					Name: fmt.Sprint("of ", rank), X: make([]float64, n), Next: &particle{Name: "inner"},
					Table: map[string][]int{"a": {rank, 2}, "": {n}},
				}
			}
			sent := make(chan error, 1)
			go func() { sent <- banyan.SendValue(c, mine(c.Rank()), next, 3, opts...) }()
			got, st, err := banyan.RecvValue[particle](c, prev, 3, opts...)
			if err := errors.Join(err, <-sent); err != nil {
				return err
			}
			if want := mine(prev); got.Name != want.Name || len(got.X) != n || got.Next.Name != "inner" ||
				st.Source != prev ||
				!maps.EqualFunc(got.Table, want.Table, func(a, b []int) bool { return reflect.DeepEqual(a, b) }) {
				return fmt.Errorf("got %+v, want %+v", got, want)
			}
		}
	}
	return nil
}

func TestValues(t *testing.T) {
	for _, n := range []int{1, 3} {
		ranktest.Succeed(t, n, "values")
	}
}

type fussy struct{ A int }

func (fussy) GobEncode() ([]byte, error) { panic("I will not") }

func (*fussy) GobDecode([]byte) error { panic("nor this") }

func TestValuesThatDoNotFit(t *testing.T) {
	single(t, func(w *banyan.World) error {
		c := w.Comm()
		var h told
		c.SetErrorHandler(h.handle)
		check := func(what string, err, class error) error {
			if !errors.Is(err, class) || len(h.errs) != 1 {
				return fmt.Errorf("%s: %v, told %d times", what, err, len(h.errs))
			}
			h.errs = nil
			return nil
		}
		if err := check("a channel", banyan.SendValue(c, make(chan int), 0, 1), banyan.ErrEncoding); err != nil {
			return err
		}
		if err := check("a panic", banyan.SendValue(c, fussy{}, 0, 1), banyan.ErrEncoding); err != nil {
			return err
		}
		c.Isend([]byte("no gob"), 0, 1)
		_, _, err := banyan.RecvValue[int](c, 0, 1)
		if err := check("nonsense", err, banyan.ErrEncoding); err != nil {
			return err
		}
		if err := banyan.SendValue(c, "a text", 0, 1); err != nil {
			return err
		}
		n, _, err := banyan.RecvValue[int](c, 0, 1)
		if err := check("a text for a number", err, banyan.ErrEncoding); err != nil || n != 0 {
			return errors.Join(err, fmt.Errorf("n = %d", n))
		}
		// The message is too long and is dropped; the next one is received.
		for _, size := range []int{2000, 300} {
			if err := banyan.SendValue(c, make([]byte, size), 0, 1); err != nil {
				return err
			}
		}
		_, st, err := banyan.RecvValue[[]byte](c, 0, 1, banyan.WithValueLimit(1000))
		if err := check("too long", err, banyan.ErrTruncate); err != nil || st.Count < 2000 {
			return errors.Join(err, fmt.Errorf("%+v", st))
		}
		b, _, err := banyan.RecvValue[[]byte](c, 0, 1, banyan.WithValueLimit(1000))
		if err != nil || len(b) != 300 {
			return fmt.Errorf("the next has %d bytes: %w", len(b), err)
		}
		return nil
	})
}

// nest is the deepest type: a byte or two of encoding for each level.
type nest []nest

type chain struct{ Next *chain }

// deep is an encoding of at most n bytes of the deepest value that fits.
func deep[T any](n int, wrap func(T) T) []byte {
	var v T
	var b bytes.Buffer
	for step := n/2 - 100; step > 100; {
		for range step {
			v = wrap(v)
		}
		var next bytes.Buffer
		if err := gob.NewEncoder(&next).Encode(&v); err != nil || next.Len() > n {
			break
		}
		b, step = next, (n-next.Len())/2
	}
	return b.Bytes()
}

// The limit for recursive types keeps the stack from overflowing, which no recover stops.
func TestDeepestValues(t *testing.T) {
	single(t, func(w *banyan.World) error {
		c := w.Comm()
		slices := deep(banyan.NestedValueLimit, func(v nest) nest { return nest{v} })
		pointers := deep(banyan.NestedValueLimit, func(v *chain) *chain { return &chain{v} })
		for _, b := range [][]byte{slices, pointers} {
			if len(b) < banyan.NestedValueLimit*9/10 {
				return fmt.Errorf("the encoding is %d bytes short", banyan.NestedValueLimit-len(b))
			}
			c.Isend(b, 0, 1)
		}
		_, _, err1 := banyan.RecvValue[nest](c, 0, 1)
		_, _, err2 := banyan.RecvValue[*chain](c, 0, 1)
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		long := make([]byte, banyan.NestedValueLimit+1)
		for range 3 {
			c.Isend(long, 0, 1)
		}
		_, _, err1 = banyan.RecvValue[nest](c, 0, 1)
		_, _, err2 = banyan.RecvValue[map[string]any](c, 0, 1)
		_, _, err3 := banyan.RecvValue[particle](c, 0, 1)
		for _, err := range []error{err1, err2, err3} {
			if !errors.Is(err, banyan.ErrTruncate) {
				return fmt.Errorf("a long encoding of a type of any depth: %w", err)
			}
		}
		// A type of bounded depth may be longer.
		want := make([]float64, 200_000)
		for i := range want {
			want[i] = 1.0 / float64(i+1)
		}
		var b bytes.Buffer
		if err := gob.NewEncoder(&b).Encode(want); err != nil {
			return err
		}
		c.Isend(b.Bytes(), 0, 1) // a long message to oneself: Send would wait
		got, _, err := banyan.RecvValue[[]float64](c, 0, 1)
		if err == nil && !reflect.DeepEqual(got, want) {
			err = errors.New("long values differ")
		}
		return err
	})
}

// FuzzRecvValue: any bytes of a peer end in a value or an error.
func FuzzRecvValue(f *testing.F) {
	for _, v := range []any{particle{Name: "x", X: []float64{1}, Next: &particle{}}, nest{nest{}, nil},
		map[string]int{"a": 1}} {
		var b bytes.Buffer
		if err := gob.NewEncoder(&b).Encode(v); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes(), true)
	}
	f.Add([]byte(`{"Name":"x","X":[1,2],"Next":{"Next":null}}`), false)
	f.Fuzz(func(t *testing.T, b []byte, useGob bool) {
		codec := banyan.JSON
		if useGob {
			codec = banyan.Gob
		}
		single(t, func(w *banyan.World) error {
			c := w.Comm()
			for range 3 {
				c.Isend(b, 0, 1)
			}
			_, _, err1 := banyan.RecvValue[particle](c, 0, 1, banyan.WithCodec(codec))
			_, _, err2 := banyan.RecvValue[nest](c, 0, 1, banyan.WithCodec(codec))
			_, _, err3 := banyan.RecvValue[map[string]int](c, 0, 1, banyan.WithCodec(codec))
			for _, err := range []error{err1, err2, err3} {
				if err != nil && !errors.Is(err, banyan.ErrEncoding) {
					return err
				}
			}
			if _, found, err := c.Iprobe(0, 1); found || err != nil {
				return fmt.Errorf("left over: %v, %w", found, err)
			}
			return nil
		})
	})
}

func TestTypedCollectives(t *testing.T) {
	ranktest.EverySize(t, func(c *banyan.Comm) error {
		n, me := c.Size(), c.Rank()
		for root := range n {
			data := []int32{int32(me), 1}
			if err := banyan.Reduce(c, data, data, banyan.Sum, root); err != nil {
				return err
			}
			if want := []int32{int32(n * (n - 1) / 2), int32(n)}; me == root && !reflect.DeepEqual(data, want) {
				return fmt.Errorf("root %d has %v, want %v", root, data, want)
			}
		}
		all := make([]float64, 2*n)
		if err := banyan.Allgather(c, []float64{float64(me), 0.5}, all); err != nil {
			return err
		}
		for r := range n {
			if all[2*r] != float64(r) || all[2*r+1] != 0.5 {
				return fmt.Errorf("block %d is %v", r, all[2*r:2*r+2])
			}
		}
		if err := banyan.Allgather(c, all, all[:1]); !errors.Is(err, banyan.ErrArgument) {
			return fmt.Errorf("wrong lengths: %v", err)
		}
		in := make([]int16, 5)
		st, err := banyan.Sendrecv(c, []int16{1, 2, int16(me)}, (me+1)%n, 0, in, (me+n-1)%n, 0)
		if err != nil || st.Count != 3 || in[2] != int16((me+n-1)%n) {
			return fmt.Errorf("sendrecv: %+v %v %w", st, in, err)
		}
		r := banyan.Issend(c, []int16{7}, me, 1)
		if _, err := banyan.Recv(c, in, me, 1); err != nil || in[0] != 7 {
			return fmt.Errorf("issend: %v %w", in, err)
		}
		_, err = r.Wait()
		return err
	})
}

func lastOf(_ banyan.Status, err error) error { return err }

func plainPasses[T comparable](c *banyan.Comm, v T) error {
	if err := banyan.SendValue(c, v, 0, 1); err != nil {
		return err
	}
	got, _, err := banyan.RecvValue[T](c, 0, 1)
	if err != nil || got != v {
		return fmt.Errorf("%T did not pass: %w", v, err)
	}
	if got, err = banyan.BcastValue(c, v, 0); err != nil || got != v {
		return fmt.Errorf("%T was not copied: %w", v, err)
	}
	return nil
}

// A value of another type than the receiver's is ErrEncoding, in each direction.
func TestPlainValuesThatDoNotFit(t *testing.T) {
	single(t, func(w *banyan.World) error {
		c := w.Comm()
		type pair struct{ A, B int32 }
		send := []func() error{
			func() error { return banyan.SendValue(c, 1, 0, 1) },
			func() error { return banyan.SendValue(c, 1, 0, 1, banyan.WithCodec(banyan.Gob)) },
			func() error { return banyan.SendValue(c, "text", 0, 1) },
			func() error { return banyan.SendValue(c, [3]int{}, 0, 1) },
			func() error { return banyan.SendValue(c, pair{}, 0, 1) },
		}
		for i, f := range send {
			if err := f(); err != nil {
				return err
			}
			if v, _, err := banyan.RecvValue[float64](c, 0, 1); v != 0 || !errors.Is(err, banyan.ErrEncoding) {
				return fmt.Errorf("message %d as float64: %v, %v", i, v, err)
			}
			if i == 2 {
				continue
			}
			if err := f(); err != nil {
				return err
			}
			if v, _, err := banyan.RecvValue[string](c, 0, 1); v != "" || !errors.Is(err, banyan.ErrEncoding) {
				return fmt.Errorf("message %d as string: %v, %v", i, v, err)
			}
		}
		if _, err := banyan.BcastValue(c, "text", 0); !errors.Is(err, banyan.ErrArgument) {
			return fmt.Errorf("bcast of a string: %v", err)
		}
		if b, err := banyan.PlainBytes([]pair{{1, 2}, {3, 4}}); err != nil || len(b) != 16 || b[12] != 4 {
			return fmt.Errorf("memory of pairs: %v, %v", b, err)
		}
		if _, err := banyan.PlainBytes([]plain{{}}); !errors.Is(err, banyan.ErrArgument) {
			return fmt.Errorf("memory with padding: %v", err)
		}
		_, err := banyan.PlainBytes([]*int{nil})
		if !errors.Is(err, banyan.ErrArgument) {
			return fmt.Errorf("memory of pointers: %v", err)
		}
		n, err := banyan.AllreduceValue(c, 5, banyan.Sum)
		if n != 5 || err != nil {
			return fmt.Errorf("allreduce of 5: %v, %v", n, err)
		}
		return nil
	})
}

// Types that must not be copied are no plain ones, and are refused.
func TestValuesWithLocks(t *testing.T) {
	type guarded struct {
		Sum int
		Mu  sync.Mutex
	}
	type counted struct {
		Hits [2]atomic.Int64
	}
	single(t, func(w *banyan.World) error {
		c := w.Comm()
		return errors.Join(refused[sync.Mutex](c, "holds a sync.Mutex"), refused[guarded](c, "guarded holds a sync.Mutex"),
			refused[counted](c, "counted holds a atomic.Int64"), refused[[1]sync.RWMutex](c, "holds a sync.RWMutex"))
	})
}

func refused[T any](c *banyan.Comm, want string) error {
	v := new(T)
	_, _, received := banyan.RecvValue[T](c, 0, 1)
	_, shared := banyan.BcastValue(c, *v, 0)
	_, plain := banyan.PlainBytes([]T(nil))
	for i, err := range []error{banyan.SendValue(c, *v, 0, 1), received, shared, plain} {
		if !errors.Is(err, banyan.ErrArgument) || !strings.Contains(err.Error(), want) {
			return fmt.Errorf("case %d: got %v, want ErrArgument and %q", i, err, want)
		}
	}
	return nil
}
