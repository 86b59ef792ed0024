package debug

import (
	"bytes"
	"hash/maphash"
	"reflect"
	"strconv"
	"strings"
)

// Kind is the type of the elements of a message. The zero Kind is bytes, which match all types.
type Kind uint8

const (
	Bytes Kind = 0                    // of []byte
	Value      = Kind(reflect.Struct) // of a value with a description, and of one with a place
)

// KindOf gives the Kind of a type of numbers. Types of the same representation are the same.
func KindOf(k reflect.Kind) Kind {
	switch {
	case k == reflect.Uint8:
		return Bytes
	case k == reflect.Int && strconv.IntSize == 64:
		k = reflect.Int64
	case k == reflect.Int:
		k = reflect.Int32
	case k == reflect.Uint && strconv.IntSize == 64:
		k = reflect.Uint64
	case k == reflect.Uint:
		k = reflect.Uint32
	}
	return Kind(k)
}

// String is the type's name in Go.
func (k Kind) String() string {
	if k == Bytes {
		return "byte"
	}
	return reflect.Kind(k).String()
}

// Match reports whether one side may send k and the other receive o.
func (k Kind) Match(o Kind) bool { return k == o || k == Bytes || o == Bytes }

// Header is the length of the header, in bytes. All types of numbers are aligned behind it.
const Header = 16

const sign = "banyan debug: "

// Frame copies a message behind a header.
func Frame(buf []byte, k Kind) []byte { return FrameIn(Room(len(buf)), buf, k) }

// FrameIn is Frame into f, of Header bytes more.
func FrameIn(f, buf []byte, k Kind) []byte {
	copy(f, sign)
	f[len(sign)] = byte(k)
	copy(f[Header:], buf)
	return f
}

// Room is a buffer for a message of that length behind a header.
func Room(length int) []byte { return make([]byte, Header+length) }

// Unframe gives the type in the header. False: there is no header.
func Unframe(f []byte) (k Kind, ok bool) {
	if len(f) < Header || string(f[:len(sign)]) != sign {
		return 0, false
	}
	return Kind(f[len(sign)]), true
}

// longestName bounds the name of a type in a message, in bytes.
const longestName = 100

const nameSign = "banyan type: "

// LongestPrefix bounds the prefix that Name puts before a value, in bytes.
const LongestPrefix = len(nameSign) + 1 + longestName

// Name puts the name of a type before an encoded value.
func Name(value []byte, name string) []byte {
	name = name[:min(len(name), longestName)]
	b := append([]byte(nameSign), byte(len(name)))
	return append(append(b, name...), value...)
}

// Unname is the inverse. False: there is no name, and the value is all of the message. The name can be printed.
//
//banyan:decodes
func Unname(b []byte) (name string, value []byte, ok bool) {
	rest, ok := bytes.CutPrefix(b, []byte(nameSign))
	if !ok || len(rest) == 0 || int(rest[0]) > min(longestName, len(rest)-1) {
		return "", b, false
	}
	n := 1 + int(rest[0])
	return strings.Trim(strconv.Quote(string(rest[1:n])), `"`), rest[n:], true
}

var seed = maphash.MakeSeed()

// Sum is a checksum within this process.
func Sum(buf []byte) uint64 { return maphash.Bytes(seed, buf) }
