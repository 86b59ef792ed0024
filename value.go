package banyan

import (
	"encoding"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"hash/fnv"
	"reflect"
	"sync"

	"github.com/banyan-hpc/banyan/internal/debug"
)

// The longest encodings, in bytes, that RecvValue accepts by default. Decoders use stack in
// proportion to the depth of a value, and Go ends a program whose stack overflows. ValueLimit
// applies if the type bounds the depth. NestedValueLimit is for types that contain themselves, or
// interfaces: no encoding of that length overflows the stack. In memory a value may be much longer
// than its encoding.
const (
	ValueLimit       = 16 << 20
	NestedValueLimit = 256 << 10
)

func gatherValue(t reflect.Type, opts []ValueOption) (valueOptions, error) {
	o, l := valueOptions{codec: Gob}, layoutOf(t)
	switch {
	case l.plain:
		o.codec = l
	case l.lock != nil:
		o.codec = nil
	}
	for _, f := range opts {
		if f == nil {
			return o, fmt.Errorf("%w: nil for an option", ErrArgument)
		}
		f(&o)
	}
	if o.codec == nil && l.lock != nil {
		return o, l.unfit()
	}
	if o.codec == nil {
		return o, fmt.Errorf("%w: nil for the codec", ErrArgument)
	}
	return o, nil
}

// SendValue sends a value to a rank that calls [RecvValue] with the same type. A value of a plain type
// travels as its memory, with 8 bytes that describe its layout. Plain types are numbers, arrays and
// structs of plain types, and types made from them, without methods for encoding. Unexported fields
// travel too; padding and fields named _ travel as zeros. A value of another type is encoded with its
// description, through reflection: that is for small and rare messages. Send many numbers with [Send].
//
// Errors: ErrEncoding, and then nothing was sent; ErrArgument for a type of numbers that contains a lock
// or an atomic value, such as sync.Mutex, which must not be copied; those of [Comm.Send].
func SendValue[T any](c *Comm, v T, dst, tag int, opts ...ValueOption) error {
	o, err := gatherValue(reflect.TypeFor[T](), opts)
	var b []byte
	if err == nil {
		b, err = encodeValue(o.codec, &v)
	}
	if err != nil {
		return c.valid().notifyOf("SendValue", err, arg("dst", dst), arg("tag", tag))
	}
	if c.debugs() {
		b = debug.Name(b, reflect.TypeFor[T]().String())
	}
	return c.Send(b, dst, tag)
}

// RecvValue receives a value that was sent by [SendValue]. The Status counts the bytes of its encoding.
//
// Errors: ErrEncoding if the message does not encode a T, or was sent from another layout; ErrTruncate if it is
// longer than the limit. The value is zero then and the message lost. Others are those of [Comm.Recv].
func RecvValue[T any](c *Comm, src, tag int, opts ...ValueOption) (v T, st Status, err error) {
	o, err := gatherValue(reflect.TypeFor[T](), opts)
	if err != nil {
		return v, Status{}, c.valid().notifyOf("RecvValue", err, arg("src", src), arg("tag", tag))
	}
	m, err := c.Mprobe(src, tag)
	if err != nil {
		return v, Status{}, err
	}
	if st = m.Status(); st.Source == ProcNull {
		return v, st, nil
	}
	if c.debugs() {
		return recvNamed[T](c, m, o, src, tag)
	}
	n := st.Count
	if l, plain := o.codec.(*layout); plain {
		if o.limit = n; n != header+l.size {
			return v, st, c.dropValue(m, src, tag, l.misfit(n))
		}
	}
	if err := o.tooLong(reflect.TypeFor[T](), n); err != nil {
		return v, st, c.dropValue(m, src, tag, err)
	}
	b := make([]byte, n)
	if st, err = m.Recv(b); err != nil {
		return v, st, err
	}
	if err := decodeValue(o.codec, b, &v); err != nil {
		var zero T
		return zero, st, c.badValue(src, tag, st, err)
	}
	return v, st, nil
}

// recvNamed is the slow path of RecvValue for the debug setting, with which a message contains the name of the
// sender's type.
func recvNamed[T any](c *Comm, m *Message, o valueOptions, src, tag int) (v T, st Status, err error) {
	if l, plain := o.codec.(*layout); plain {
		o.limit = header + l.size + ValueLimit // a wrong length is reported below, with the names
	}
	if err = o.tooLong(reflect.TypeFor[T](), m.Status().Count-debug.LongestPrefix); err != nil {
		return v, m.Status(), c.dropValue(m, src, tag, err)
	}
	b := make([]byte, m.Status().Count)
	if st, err = m.Recv(b); err != nil {
		return v, st, err
	}
	name, b, named := debug.Unname(b)
	st.Count = len(b)
	if err = o.tooLong(reflect.TypeFor[T](), len(b)); err == nil {
		err = decodeValue(o.codec, b, &v)
	}
	if err == nil {
		return v, st, nil
	}
	if named && errors.Is(err, ErrEncoding) {
		err = fmt.Errorf("sent as %s, received as %v: %w", name, reflect.TypeFor[T](), err)
	}
	var zero T
	return zero, st, c.badValue(src, tag, st, err)
}

// tooLong returns the error of an encoding of n bytes that exceeds the limit, or nil.
func (o *valueOptions) tooLong(t reflect.Type, n int) error {
	limit := o.limit
	if limit == 0 {
		limit = ValueLimit
		if n > NestedValueLimit && unbounded(t, make(map[reflect.Type]bool)) {
			limit = NestedValueLimit
		}
	}
	if n > limit {
		return fmt.Errorf("%w: %d bytes, the limit is %d: WithValueLimit raises it", ErrTruncate, n, limit)
	}
	return nil
}

// unbounded reports whether values of a type can have any depth. Seen contains the types that
// contain this one as true, and other types that were examined as false.
func unbounded(t reflect.Type, seen map[reflect.Type]bool) bool {
	if within, known := seen[t]; known {
		return within
	}
	seen[t] = true
	defer func() { seen[t] = false }()
	switch t.Kind() {
	case reflect.Interface:
		return true
	case reflect.Map:
		return unbounded(t.Key(), seen) || unbounded(t.Elem(), seen)
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return unbounded(t.Elem(), seen)
	case reflect.Struct:
		for i := range t.NumField() {
			if unbounded(t.Field(i).Type, seen) {
				return true
			}
		}
	}
	return false
}

// encodeValue and decodeValue convert a codec's panics to errors: a decoder reads bytes of a peer,
// and methods of the user's types run inside both.
func encodeValue[T any](codec Codec, v *T) (b []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
		if err != nil {
			b, err = nil, fmt.Errorf("%w: %v cannot encode a %T: %w", ErrEncoding, codec, *v, err)
		}
	}()
	return codec.Encode(v)
}

func decodeValue[T any](codec Codec, b []byte, v *T) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
		if err != nil {
			err = fmt.Errorf("%w: %v cannot decode %d bytes into a %T: %w", ErrEncoding, codec, len(b), *v, err)
		}
	}()
	return codec.Decode(b, v)
}

// AllreduceValue reduces one number of each rank with op; see [Allreduce]. After an error it returns
// v.
func AllreduceValue[T Number](c *Comm, v T, op func(a, b T) T) (T, error) {
	one := [1]T{v}
	if err := Allreduce(c, one[:], one[:], op); err != nil {
		return v, err
	}
	return one[0], nil
}

// BcastValue returns the root's value of a plain type (see [SendValue]) at every rank; the v of other
// ranks is ignored. After an error it returns v. Errors: ErrArgument if T is not plain, ErrEncoding if
// the root's type has another layout of the same size, and those of [Comm.Bcast].
func BcastValue[T any](c *Comm, v T, root int) (T, error) {
	l := layoutOf(reflect.TypeFor[T]())
	if !l.plain {
		return v, c.valid().notifyOf("BcastValue", l.unfit(), arg("root", root))
	}
	b, _ := l.Encode(&v)
	if err := c.bcastValue(b, root); err != nil {
		return v, err
	}
	if err := l.Decode(b, &v); err != nil {
		return v, c.valid().notifyOf("BcastValue",
			fmt.Errorf("%w: value from rank %d: %w", ErrEncoding, root, err), arg("root", root))
	}
	return v, nil
}

// PlainBytes returns the memory of a slice of a plain type (see [SendValue]), for the operations on
// bytes. It shares the slice's memory. All ranks use the same type. Padding would reveal earlier
// contents of the memory: a type with padding is ErrArgument, like one that is not plain.
func PlainBytes[T any](s []T) ([]byte, error) {
	l := layoutOf(reflect.TypeFor[T]())
	switch {
	case !l.plain:
		return nil, misuse("PlainBytes", l.unfit())
	case l.padded:
		return nil, misuse("PlainBytes",
			fmt.Errorf("%w: %v has padding: fill it with fields named _, as _ [4]byte", ErrArgument, l.of))
	}
	return memory(s, l.size), nil
}

// layout is the memory layout of a type. It is the codec of values of a plain type: a header of 8 bytes
// and the memory. The first byte of the header cannot begin a gob; the last four are sum.
type layout struct {
	of     reflect.Type
	plain  bool
	lock   reflect.Type // the part that must not be copied: without it the type would be plain
	size   int
	sum    uint32   // of the kinds and places of the numbers
	gaps   [][2]int // begin and end of padding, and of fields named _
	padded bool     // a gap is not a field
}

const header, plainMark = 8, 0 // the mark is the first byte, which no gob begins with

// layouts caches layouts: reflect.Type to *layout.
var layouts sync.Map

func layoutOf(t reflect.Type) *layout {
	if l, known := layouts.Load(t); known {
		return l.(*layout)
	}
	l := &layout{of: t, size: int(t.Size()), plain: plainType(t)}
	if l.plain {
		l.lock = lockIn(t)
		l.plain = l.lock == nil
	}
	if l.plain {
		h := fnv.New32a()
		l.add(t, 0, func(k reflect.Kind, at int) { fmt.Fprint(h, k, at, ";") })
		l.sum = h.Sum32()
	}
	layouts.Store(t, l)
	return l
}

// plainType reports whether values of a type are numbers in one piece of memory.
func plainType(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	if p.Implements(reflect.TypeFor[gob.GobEncoder]()) || p.Implements(reflect.TypeFor[encoding.BinaryMarshaler]()) ||
		p.Implements(reflect.TypeFor[encoding.TextMarshaler]()) {
		return false
	}
	switch k := t.Kind(); k {
	case reflect.Array:
		return plainType(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if !plainType(t.Field(i).Type) {
				return false
			}
		}
		return true
	default:
		return k >= reflect.Int && k <= reflect.Complex128 && k != reflect.Uintptr
	}
}

// lockIn finds a part of a plain type that must not be copied, by the rule of go vet: its pointer has
// the methods Lock and Unlock. Nil: there is none.
func lockIn(t reflect.Type) reflect.Type {
	locker := reflect.TypeFor[sync.Locker]()
	switch {
	case reflect.PointerTo(t).Implements(locker) && !t.Implements(locker):
		return t
	case t.Kind() == reflect.Array:
		return lockIn(t.Elem())
	case t.Kind() == reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			if lock := lockIn(f.Type); lock != nil && f.Name == "_" {
				return t // a marker such as noCopy
			} else if lock != nil {
				return lock
			}
		}
	}
	return nil
}

// add passes the numbers of a part to put, and enters its gaps.
func (l *layout) add(t reflect.Type, at int, put func(k reflect.Kind, at int)) {
	switch t.Kind() {
	case reflect.Array:
		part := layoutOf(t.Elem())
		put(reflect.Array, at)
		put(reflect.Kind(t.Len()), int(part.sum))
		l.padded = l.padded || part.padded && t.Len() > 0
		for i := range t.Len() {
			for _, g := range part.gaps {
				l.gaps = append(l.gaps, [2]int{at + i*part.size + g[0], at + i*part.size + g[1]})
			}
		}
	case reflect.Struct:
		end := 0
		for i := range t.NumField() {
			f := t.Field(i)
			l.pad(at+end, at+int(f.Offset))
			end = int(f.Offset + f.Type.Size())
			if f.Name == "_" {
				l.gaps = append(l.gaps, [2]int{at + int(f.Offset), at + end})
			} else {
				l.add(f.Type, at+int(f.Offset), put)
			}
		}
		l.pad(at+end, at+int(t.Size()))
	default:
		put(t.Kind(), at)
	}
}

func (l *layout) pad(from, to int) {
	if from < to {
		l.gaps, l.padded = append(l.gaps, [2]int{from, to}), true
	}
}

// unfit returns the error of a type that is not plain.
func (l *layout) unfit() error {
	if l.lock != nil {
		return fmt.Errorf("%w: %v holds a %v, which must not be copied: use a type without it", ErrArgument, l.of, l.lock)
	}
	return fmt.Errorf("%w: %v is not plain: numbers, and arrays and structs of them, are", ErrArgument, l.of)
}

// misfit returns the error of a message of n bytes.
func (l *layout) misfit(n int) error {
	return fmt.Errorf("%w: a message of %d bytes is no %v, which has %d: use one type and codec on both sides",
		ErrEncoding, n, l.of, header+l.size)
}

func (l *layout) String() string { return "plain memory" }

func (l *layout) Encode(v any) ([]byte, error) {
	b := append(make([]byte, header, header+l.size), memoryAt(v, l.size)...)
	copy(b, "\x00val")
	binary.LittleEndian.PutUint32(b[4:], l.sum)
	for _, g := range l.gaps {
		clear(b[header+g[0] : header+g[1]])
	}
	return b, nil
}

func (l *layout) Decode(b []byte, v any) error {
	if len(b) != header+l.size {
		return l.misfit(len(b))
	}
	if string(b[:4]) != "\x00val" || binary.LittleEndian.Uint32(b[4:]) != l.sum {
		return fmt.Errorf("the sender's type is another than %v: use one type and codec on both sides", l.of)
	}
	copy(memoryAt(v, l.size), b[header:])
	return nil
}
