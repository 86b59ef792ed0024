package netns

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"
)

var native = binary.NativeEndian

// message is one netlink message that is being built: the 16 bytes of header,
// the fixed part of its kind, attributes.
type message struct{ b []byte }

// request begins a message of a kind. NLM_F_REQUEST is added to flags.
func request(kind, flags uint16, fixed []byte) *message {
	m := &message{make([]byte, unix.SizeofNlMsghdr, 256)}
	native.PutUint16(m.b[4:], kind)
	native.PutUint16(m.b[6:], flags|unix.NLM_F_REQUEST)
	m.b = append(m.b, fixed...)
	m.pad()
	return m
}

func (m *message) pad() {
	for len(m.b)%unix.NLA_ALIGNTO != 0 {
		m.b = append(m.b, 0)
	}
}

func (m *message) put(attr uint16, data []byte) {
	m.b = native.AppendUint16(m.b, uint16(unix.SizeofNlAttr+len(data)))
	m.b = native.AppendUint16(m.b, attr)
	m.b = append(m.b, data...)
	m.pad()
}

func (m *message) putU32(attr uint16, v uint32) { m.put(attr, native.AppendUint32(nil, v)) }
func (m *message) putU64(attr uint16, v uint64) { m.put(attr, native.AppendUint64(nil, v)) }

// putBE32 is for nftables, whose numbers travel in network order.
func (m *message) putBE32(attr uint16, v uint32) {
	m.put(attr, binary.BigEndian.AppendUint32(nil, v))
}

func (m *message) putString(attr uint16, s string) { m.put(attr, append([]byte(s), 0)) }

// nest puts an attribute that holds what fill puts. Its length has 16 bits.
func (m *message) nest(attr uint16, fill func()) {
	start := len(m.b)
	m.put(attr|unix.NLA_F_NESTED, nil)
	fill()
	native.PutUint16(m.b[start:], uint16(len(m.b)-start))
}

// talker is a netlink socket. It stays in the namespace in which it was opened,
// whichever thread uses it. One caller at a time.
type talker struct {
	fd  int
	seq uint32
}

// dial opens a netlink socket in the namespace of the calling thread.
func dial(protocol int) (*talker, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return nil, fmt.Errorf("open a netlink socket: %w", err)
	}
	// The kernel answers while it takes the request; the limit is against a kernel
	// that does not answer at all.
	limit := unix.Timeval{Sec: 10}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit); err != nil {
		return nil, errors.Join(fmt.Errorf("limit the wait of a netlink socket: %w", err), unix.Close(fd))
	}
	// Errors come with the kernel's own explanation where it has one, and without
	// a copy of the request. Kernels before 4.12 know neither: then without.
	_ = unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_EXT_ACK, 1)
	_ = unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_CAP_ACK, 1)
	return &talker{fd: fd}, nil
}

func (t *talker) close() error { return unix.Close(t.fd) }

// roomFor makes the socket send n bytes at once. Without the privilege for it
// the default of some 200 kB stays, and a larger batch is refused by send.
func (t *talker) roomFor(n int) {
	if n > 100<<10 {
		_ = unix.SetsockoptInt(t.fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, 2*n)
	}
}

// send numbers the messages and sends them in one datagram. It returns the
// numbers of the first and of the last.
func (t *talker) send(msgs ...*message) (first, last uint32, err error) {
	var all []byte
	first = t.seq + 1
	for _, m := range msgs {
		t.seq++
		native.PutUint32(m.b, uint32(len(m.b)))
		native.PutUint32(m.b[8:], t.seq)
		all = append(all, m.b...)
	}
	t.roomFor(len(all))
	return first, t.seq, unix.Sendto(t.fd, all, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
}

// ask sends one request and waits for the kernel's yes or no.
func (t *talker) ask(m *message) error {
	flags := native.Uint16(m.b[6:])
	native.PutUint16(m.b[6:], flags|unix.NLM_F_ACK)
	first, last, err := t.send(m)
	if err != nil {
		return err
	}
	return t.answers(first, last, func([]byte) {})
}

// dump sends a request with many answers and gives each, without its header.
func (t *talker) dump(m *message, each func(body []byte)) error {
	first, last, err := t.send(m)
	if err != nil {
		return err
	}
	return t.answers(first, last, each)
}

// answers reads until the message with number last is acknowledged or its dump
// is done, or any from first on is refused. Older messages are what an earlier
// refusal left over.
func (t *talker) answers(first, last uint32, each func(body []byte)) error {
	buf := make([]byte, 1<<16)
	for {
		n, err := unix.Read(t.fd, buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read the kernel's answer: %w", err)
		}
		if n == 0 {
			return fmt.Errorf("read the kernel's answer: %w", io.ErrUnexpectedEOF)
		}
		for b := buf[:n]; len(b) > 0; {
			kind, seq, body, rest, err := split(b)
			if err != nil {
				return err
			}
			b = rest
			if int32(seq-first) < 0 || int32(last-seq) < 0 {
				continue
			}
			switch kind {
			case unix.NLMSG_ERROR:
				if err := refusal(body); err != nil || seq == last {
					return err
				}
			case unix.NLMSG_DONE:
				return refusal(body)
			default:
				each(body)
			}
		}
	}
}

// split takes the first message off a datagram.
func split(b []byte) (kind uint16, seq uint32, body, rest []byte, err error) {
	if len(b) < unix.SizeofNlMsghdr {
		return 0, 0, nil, nil, fmt.Errorf("netlink answer: %w", io.ErrUnexpectedEOF)
	}
	size := int(native.Uint32(b))
	if size < unix.SizeofNlMsghdr || size > len(b) {
		return 0, 0, nil, nil, fmt.Errorf("netlink answer of %d bytes in %d: %w", size, len(b), io.ErrUnexpectedEOF)
	}
	padded := min((size+unix.NLMSG_ALIGNTO-1)&^(unix.NLMSG_ALIGNTO-1), len(b))
	return native.Uint16(b[4:]), native.Uint32(b[8:]), b[unix.SizeofNlMsghdr:size], b[padded:], nil
}

// refusal is the error in the body of NLMSG_ERROR or NLMSG_DONE, nil for none.
func refusal(body []byte) error {
	if len(body) < 4 {
		return nil
	}
	code := int32(native.Uint32(body))
	if code >= 0 {
		return nil
	}
	errno := unix.Errno(-code)
	// What follows is the refused message's header and then attributes.
	if why := explanation(body[min(4+unix.SizeofNlMsghdr, len(body)):]); why != "" {
		return fmt.Errorf("%w (%s)", errno, why)
	}
	return errno
}

// explanation finds the kernel's text among the attributes of a refusal.
func explanation(b []byte) string {
	for len(b) >= unix.SizeofNlAttr {
		size := int(native.Uint16(b))
		if size < unix.SizeofNlAttr || size > len(b) {
			return ""
		}
		if native.Uint16(b[2:]) == unix.NLMSGERR_ATTR_MSG {
			return unix.ByteSliceToString(b[unix.SizeofNlAttr:size])
		}
		b = b[min((size+unix.NLA_ALIGNTO-1)&^(unix.NLA_ALIGNTO-1), len(b)):]
	}
	return ""
}
