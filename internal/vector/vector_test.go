package vector

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

type number interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | float32 | float64
}

// lengths are those of buffers in elements, beyond every way through a loop.
const lengths = 130

// Every loop gives the same as Go for the whole groups of 32 bytes, to the bit, leaves the rest alone, and reads no
// further.
func TestLoops(t *testing.T) {
	tested := 0
	tested += loopsOf[int8](t) + loopsOf[int16](t) + loopsOf[int32](t) + loopsOf[int64](t)
	tested += loopsOf[uint8](t) + loopsOf[uint16](t) + loopsOf[uint32](t) + loopsOf[uint64](t)
	tested += loopsOf[float32](t) + loopsOf[float64](t)
	ints := 0
	for k := range loops {
		if k.kind == reflect.Int || k.kind == reflect.Uint { // of which package binary knows nothing
			ints++
			require.Equal(t, reflect.ValueOf(loops[key{k.op, k.kind + reflect.Int64 - reflect.Int}]).Pointer(), reflect.ValueOf(loops[k]).Pointer(), "%v", k)
		}
	}
	require.Equal(t, len(loops), tested+ints)
	if runtime.GOARCH != "amd64" {
		require.Empty(t, loops)
	}
}

// loopsOf tries all operations on one type and returns the number of those with a loop.
func loopsOf[T number](t *testing.T) (tested int) {
	for op, fold := range []func(a, b T) T{
		Sum:  func(a, b T) T { return a + b },
		Prod: func(a, b T) T { return a * b },
		Min:  func(a, b T) T { return min(a, b) },
		Max:  func(a, b T) T { return max(a, b) },
	} {
		loop := Find(Op(op), reflect.TypeFor[T]().Kind())
		if loop == nil {
			continue
		}
		tested++
		t.Logf("%T: operation %d", T(0), op)
		for n := range lengths + 1 {
			loopOn(t, loop, n, Op(op), fold)
		}
	}
	return tested
}

// loopOn folds n elements, at a place that is aligned for nothing in particular.
func loopOn[T number](t *testing.T, loop Loop, n int, op Op, fold func(a, b T) T) {
	size := int(reflect.TypeFor[T]().Size())
	a, b := operands[T](n), operands[T](n)
	for i := range a {
		if op <= Prod && a[i] != a[i] && b[i] != b[i] {
			b[i] = 1 // which NaN it is then is not promised
		}
	}
	acc, in := misplaced(t, a), misplaced(t, b)
	for i := range n * size / Group * Group / size {
		a[i] = fold(a[i], b[i])
	}
	require.Equal(t, n*size/Group*Group, loop(acc, in))
	require.Equal(t, bits(t, a), acc, "%d elements", n)
	require.Equal(t, bits(t, b), in)
}

// misplaced is a slice's memory somewhere in a larger one.
func misplaced[T number](t *testing.T, s []T) []byte {
	at := rand.IntN(70)
	return append(make([]byte, at, at+8*lengths), bits(t, s)...)[at:]
}

func bits[T number](t *testing.T, s []T) []byte {
	var buf bytes.Buffer
	require.NoError(t, binary.Write(&buf, binary.LittleEndian, s))
	return append([]byte{}, buf.Bytes()...)
}

// operands are any bits, and of floating-point numbers often a special one.
func operands[T number](n int) []T {
	out := make([]T, n)
	for i := range out {
		switch p := any(&out[i]).(type) {
		case *float32:
			*p = math.Float32frombits(rand.Uint32())
		case *float64:
			*p = math.Float64frombits(rand.Uint64())
		default:
			out[i] = T(rand.Uint64())
			continue
		}
		special := []float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.NaN(), 1, -1}
		if k := rand.IntN(2 * len(special)); k < len(special) {
			out[i] = T(special[k])
		}
	}
	return out
}
