package route

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Card is a process's published description.
type Card struct {
	Node Node
	// Allowed are the fabrics that it may use.
	Allowed Set
	// Addresses are those of its providers.
	Addresses []Address
	// Enclosed is the reason why no other machine reaches it by TCP, in words for the user; "" if
	// one may. It is cut at 255 bytes.
	Enclosed string
	// Adapter is the RDMA adapter that it uses, in words for the user; "" if it uses none. It is cut as Enclosed is.
	Adapter string
	// NoShm is the reason why the process does not share memory although it may, in words for the
	// user; "" if it does. It is cut as Enclosed is.
	NoShm string
	// Quota is the number of cores that its control group permits, in thousandths; 0: no limit, or
	// unknown. One rank of a node determines it for all.
	Quota uint32
	// Debug: it checks the calls of its program, as all ranks of a job do or none.
	Debug bool
	// Algorithms is the sum of its table of collectives' algorithms, which all ranks have alike; 0: it has none.
	Algorithms uint64
	// Cores are those on which it may run, a bit each, byte by byte.
	Cores []byte
}

// Address is the address of a provider.
type Address struct {
	Provider string
	Blob     []byte
}

// Address returns the blob of a provider, nil if there is none.
func (c *Card) Address(provider string) []byte {
	for _, a := range c.Addresses {
		if a.Provider == provider {
			return a.Blob
		}
	}
	return nil
}

// The published form of a card, numbers little endian:
//
//	version 1 | fabrics 1 | hidden 1 | debug 1 | boot 16 | pids 8 | users 8 | net 8 |
//	uid 4 | gid 4 | caps 8 | quota 4 | algorithms 8 | name: length 1, bytes |
//	addresses: count 1, each: length 1, name, length 2, blob |
//	enclosed: length 1, bytes | no shm: length 1, bytes | adapter: length 1, bytes |
//	cores: length 2, bytes
const (
	cardVersion  = 7
	maxAddresses = 8
	maxProvider  = 16
	// maxBlob is the limit of the providers' contract.
	maxBlob = 256
	// maxEnclosed is the largest value of a length byte.
	maxEnclosed = 255
	// maxCores is the number of bytes for 8192 cores.
	maxCores = 1024
)

// Encode returns the published form. Preconditions: the lengths are within the bounds of
// DecodeCard.
func (c *Card) Encode() []byte {
	le := binary.LittleEndian
	n := &c.Node
	b := make([]byte, 0, 256+len(c.Cores))
	b = append(b, cardVersion, byte(c.Allowed), flag(n.Hidden), flag(c.Debug))
	b = append(b, n.Boot[:]...)
	for _, v := range [...]uint64{n.PIDs, n.Users, n.Net} {
		b = le.AppendUint64(b, v)
	}
	b = le.AppendUint32(le.AppendUint32(b, n.UID), n.GID)
	b = le.AppendUint32(le.AppendUint64(b, n.Caps), c.Quota)
	b = le.AppendUint64(b, c.Algorithms)
	b = append(append(b, byte(len(n.Name))), n.Name...)
	b = append(b, byte(len(c.Addresses)))
	for _, a := range c.Addresses {
		b = append(append(b, byte(len(a.Provider))), a.Provider...)
		b = append(le.AppendUint16(b, uint16(len(a.Blob))), a.Blob...)
	}
	for _, why := range [...]string{c.Enclosed, c.NoShm, c.Adapter} {
		why = why[:min(len(why), maxEnclosed)]
		b = append(append(b, byte(len(why))), why...)
	}
	return append(le.AppendUint16(b, uint16(len(c.Cores))), c.Cores...)
}

func flag(on bool) byte {
	if on {
		return 1
	}
	return 0
}

var errCard = errors.New("route: not the card of a process")

// DecodeCard reads the result of Encode. The card refers to b.
func DecodeCard(b []byte) (Card, error) {
	if len(b) > 0 && b[0] != cardVersion {
		return Card{}, fmt.Errorf("%w of this version, %d but %d: start all ranks from one build", errCard, cardVersion, b[0])
	}
	r := reader{rest: b}
	r.uint(1)
	var c Card
	n := &c.Node
	c.Allowed, n.Hidden, c.Debug = Set(r.uint(1)), r.uint(1) != 0, r.uint(1) != 0
	copy(n.Boot[:], r.bytes(len(n.Boot)))
	n.PIDs, n.Users, n.Net = r.uint(8), r.uint(8), r.uint(8)
	n.UID, n.GID = uint32(r.uint(4)), uint32(r.uint(4))
	n.Caps, c.Quota, c.Algorithms = r.uint(8), uint32(r.uint(4)), r.uint(8)
	n.Name = string(r.counted(1, maxName))
	count := r.uint(1)
	if count > maxAddresses {
		return Card{}, errCard
	}
	for range count {
		c.Addresses = append(c.Addresses, Address{string(r.counted(1, maxProvider)), r.counted(2, maxBlob)})
	}
	c.Enclosed = string(r.counted(1, maxEnclosed))
	c.NoShm = string(r.counted(1, maxEnclosed))
	c.Adapter = string(r.counted(1, maxEnclosed))
	c.Cores = r.counted(2, maxCores)
	if r.short || len(r.rest) != 0 || c.Allowed&^All != 0 {
		return Card{}, errCard
	}
	return c, nil
}

// reader decodes a message; short: it ended too early or exceeded a bound.
type reader struct {
	rest  []byte
	short bool
}

func (r *reader) bytes(n int) []byte {
	if n > len(r.rest) {
		r.short, r.rest = true, nil
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}

// uint reads a number of n bytes.
func (r *reader) uint(n int) (v uint64) {
	for i, b := range r.bytes(n) {
		v |= uint64(b) << (8 * i)
	}
	return v
}

// counted reads a length of n bytes, and that many bytes.
func (r *reader) counted(n, most int) []byte {
	length := r.uint(n)
	if length > uint64(most) {
		r.short, r.rest = true, nil
		return nil
	}
	return r.bytes(int(length))
}

// uvarint reads a number of any length that fits in an int32.
func (r *reader) uvarint() int {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 || v > math.MaxInt32 {
		r.short, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[n:]
	return int(v)
}
