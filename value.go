package banyan

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
)

// ErrEncoding is the class of errors of values that could not be encoded or
// decoded.
var ErrEncoding = errors.New("encoding")

// Codec turns values into bytes and back, for [SendValue] and [RecvValue]. Its
// methods may be called from several goroutines at once.
type Codec interface {
	// Encode gives the encoding of the value that v points to.
	Encode(v any) ([]byte, error)
	// Decode sets the value that v points to from an encoding, which it does not keep. The bytes
	// may be anything: a peer wrote them.
	Decode(b []byte, v any) error
	// String names the codec in errors.
	String() string
}

// The codecs of the standard library. Gob is the default: it knows Go's types, sends their
// description, and tolerates fields that only one side has. JSON is for peers of another version or
// language, and is readable.
var (
	Gob  Codec = gobCodec{}
	JSON Codec = jsonCodec{}
)

// The longest encodings, in bytes, that RecvValue accepts by default. Decoders use stack in
// proportion to the depth of a value, and Go ends a program whose stack overflows. Where the type
// bounds the depth ValueLimit holds. NestedValueLimit is for types that contain themselves, or
// interfaces: nothing so short overflows. In memory a value may be much longer than its encoding.
const (
	ValueLimit       = 16 << 20
	NestedValueLimit = 256 << 10
)

// ValueOption changes how a value is sent or received.
type ValueOption func(*valueOptions)

type valueOptions struct {
	codec Codec
	limit int
}

// WithCodec chooses the codec. Sender and receiver use the same.
func WithCodec(codec Codec) ValueOption { return func(o *valueOptions) { o.codec = codec } }

// WithValueLimit sets the longest encoding, in bytes, that is received, in place
// of [ValueLimit] and [NestedValueLimit].
func WithValueLimit(bytes int) ValueOption { return func(o *valueOptions) { o.limit = bytes } }

func gatherValue(opts []ValueOption) (valueOptions, error) {
	o := valueOptions{codec: Gob}
	for _, f := range opts {
		if f == nil {
			return o, fmt.Errorf("%w: nil for an option", ErrArgument)
		}
		f(&o)
	}
	if o.codec == nil {
		return o, fmt.Errorf("%w: nil for the codec", ErrArgument)
	}
	return o, nil
}

// SendValue sends a value of any type that the codec knows to a rank that calls [RecvValue] with
// the same type. It is for small and rare messages: a value is encoded with its description,
// through reflection. Send numbers with [Send].
//
// Errors: ErrEncoding, then nothing was sent, and those of [Comm.Send].
func SendValue[T any](c *Comm, v T, dst, tag int, opts ...ValueOption) error {
	o, err := gatherValue(opts)
	var b []byte
	if err == nil {
		b, err = encodeValue(o.codec, &v)
	}
	if err != nil {
		return c.valid().notify(fmt.Errorf("send on %s: %w", c.Name(), err))
	}
	return c.Send(b, dst, tag)
}

// RecvValue receives a value that was sent by [SendValue]. The Status counts the bytes of its
// encoding.
//
// Errors: ErrEncoding if the message is no encoding of a T; ErrTruncate if it is longer than the
// limit; the value is zero then and the message lost. Others are those of [Comm.Recv].
func RecvValue[T any](c *Comm, src, tag int, opts ...ValueOption) (v T, st Status, err error) {
	o, err := gatherValue(opts)
	if err != nil {
		return v, Status{}, c.valid().notify(fmt.Errorf("recv on %s: %w", c.Name(), err))
	}
	m, err := c.Mprobe(src, tag)
	if err != nil {
		return v, Status{}, err
	}
	if src == ProcNull {
		return v, m.Status(), nil
	}
	n := m.Status().Count
	if o.limit == 0 {
		o.limit = valueLimit(reflect.TypeFor[T](), n)
	}
	if n > o.limit {
		_, _ = m.m.Recv(nil) // lets the sender go on
		return v, m.Status(), c.notify(fmt.Errorf("recv on %s: %w: rank %d, tag %d sent a value of %d bytes, "+
			"the limit is %d: WithValueLimit raises it",
			c.Name(), ErrTruncate, m.Status().Source, m.Status().Tag, n, o.limit))
	}
	b := make([]byte, n)
	if st, err = m.Recv(b); err != nil {
		return v, st, err
	}
	if err := decodeValue(o.codec, b, &v); err != nil {
		var zero T
		return zero, st, c.notify(fmt.Errorf("recv on %s: value from rank %d, tag %d: %w", c.Name(), st.Source, st.Tag, err))
	}
	return v, st, nil
}

// valueLimit gives the limit for a value of a type whose encoding has n bytes.
func valueLimit(t reflect.Type, n int) int {
	if n <= NestedValueLimit || unbounded(t, make(map[reflect.Type]bool)) {
		return NestedValueLimit
	}
	return ValueLimit
}

// unbounded reports whether values of a type can be of any depth. Seen has the
// types that contain this one as true, others that were looked at as false.
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

// encodeValue and decodeValue turn a codec's panics into errors: a decoder reads what a peer wrote,
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

type gobCodec struct{}

func (gobCodec) String() string { return "gob" }

func (gobCodec) Encode(v any) ([]byte, error) {
	var b bytes.Buffer
	err := gob.NewEncoder(&b).Encode(v)
	return b.Bytes(), err
}

func (gobCodec) Decode(b []byte, v any) error {
	r := bytes.NewReader(b)
	if err := gob.NewDecoder(r).Decode(v); err != nil {
		return err
	}
	if r.Len() > 0 {
		return fmt.Errorf("%d bytes follow the value", r.Len())
	}
	return nil
}

type jsonCodec struct{}

func (jsonCodec) String() string { return "JSON" }

func (jsonCodec) Encode(v any) ([]byte, error) { return json.Marshal(v) }

func (jsonCodec) Decode(b []byte, v any) error { return json.Unmarshal(b, v) }
