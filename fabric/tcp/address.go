package tcp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	addressMagic = 0x31504354 // "TCP1"
	unixBytes    = 16
	// maxAddrs bounds the addresses of a process, so that the blob stays below 256 bytes.
	maxAddrs     = 8
	addressBytes = 4 + 4 + 8 + 8 + unixBytes + 1 + maxAddrs*(1+16+2)
)

// address contains everything that a peer needs to connect.
type address struct {
	born uint64
	// net identifies the network namespace: where both sides have the same, loopback and abstract
	// Unix sockets connect them.
	net uint64
	// unix is the name of the abstract socket; zero: there is none.
	unix  [unixBytes]byte
	addrs []netip.AddrPort
	// beside: the process has another path beside its sockets.
	beside bool
}

// besideBit is set in the number of addresses of such a process.
const besideBit = 0x80

func (a *address) encode() []byte {
	le := binary.LittleEndian
	b := le.AppendUint32(make([]byte, 0, addressBytes), addressMagic)
	b = le.AppendUint32(b, handshakeVersion)
	b = le.AppendUint64(b, a.born)
	b = le.AppendUint64(b, a.net)
	b = append(b, a.unix[:]...)
	n := byte(len(a.addrs))
	if a.beside {
		n |= besideBit
	}
	b = append(b, n)
	for _, ap := range a.addrs {
		ip := ap.Addr().AsSlice()
		b = append(b, byte(len(ip)))
		b = append(b, ip...)
		b = le.AppendUint16(b, ap.Port())
	}
	return b
}

var errNotAddress = errors.New("tcp: not the address of a tcp endpoint")

func decodeAddress(b []byte) (a address, err error) {
	le := binary.LittleEndian
	const fixed = 4 + 4 + 8 + 8 + unixBytes + 1
	if len(b) < fixed || len(b) > addressBytes || le.Uint32(b) != addressMagic {
		return a, errNotAddress
	}
	if v := le.Uint32(b[4:]); v != handshakeVersion {
		return a, fmt.Errorf("tcp: the peer speaks version %d, this process %d: start all processes from one build",
			v, handshakeVersion)
	}
	a.born, a.net = le.Uint64(b[8:]), le.Uint64(b[16:])
	copy(a.unix[:], b[24:])
	n := int(b[fixed-1] &^ besideBit)
	a.beside = b[fixed-1]&besideBit != 0
	if n > maxAddrs {
		return a, errNotAddress
	}
	a.addrs = slices.Grow(a.addrs, n)
	for b = b[fixed:]; n > 0; n-- {
		if len(b) < 1 || b[0] != 4 && b[0] != 16 || len(b) < 1+int(b[0])+2 {
			return a, errNotAddress
		}
		size := int(b[0])
		ip, _ := netip.AddrFromSlice(b[1 : 1+size])
		a.addrs = append(a.addrs, netip.AddrPortFrom(ip, le.Uint16(b[1+size:])))
		b = b[1+size+2:]
	}
	if len(b) != 0 || a.unix == [unixBytes]byte{} && len(a.addrs) == 0 {
		return a, errNotAddress
	}
	return a, nil
}

func unixName(name [unixBytes]byte) *unix.SockaddrUnix {
	return &unix.SockaddrUnix{Name: fmt.Sprintf("@banyan-%x", name)}
}

// netToken identifies network namespaces across machines: the boot and the namespace's inode.
func netToken() (uint64, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return 0, fmt.Errorf("tcp: which boot this is: %w", err)
	}
	var st unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/net", &st); err != nil {
		return 0, fmt.Errorf("tcp: which network namespace this is: %w", err)
	}
	h := fnv.New64a()
	h.Write([]byte(strings.TrimSpace(string(boot))))
	h.Write(binary.LittleEndian.AppendUint64(nil, st.Ino))
	return h.Sum64(), nil
}
