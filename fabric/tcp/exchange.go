package tcp

import (
	"errors"
	"fmt"
	"io"
	"net/netip"

	"golang.org/x/sys/unix"
)

// exchange is one side of a handshake: messages of known lengths, and the transcript, which the
// proofs cover.
type exchange struct {
	fd         int
	key        int32
	got        int // bytes of the next message
	transcript []byte
	// said is the transcript, and behind it the message that is being read.
	said [helloBytes + challengeBytes + proofBytes + verdictBytes]byte
}

// next is where the first n bytes of the next message are.
func (t *exchange) next(n int) []byte { return t.said[len(t.transcript):][:n] }

// readMessage reads a message of n bytes: nil until it is complete.
func (t *exchange) readMessage(n int) ([]byte, error) {
	for t.got < n {
		got, errno := recvBytes(t.fd, t.next(n)[t.got:])
		switch {
		case errno == unix.EAGAIN:
			return nil, nil
		case errno == unix.EINTR:
			continue
		case errno != 0:
			return nil, errno
		case got == 0:
			return nil, io.EOF
		}
		t.got += got
	}
	t.got = 0
	return t.next(n), nil
}

var errShortWrite = errors.New("the socket did not take a whole message of the handshake")

// writeMessage writes a message. A fresh socket takes it whole.
func (t *exchange) writeMessage(b []byte) error {
	n, errno := sendBytes(t.fd, b)
	switch {
	case errno != 0:
		return errno
	case n < len(b):
		return errShortWrite
	}
	return nil
}

// record adds a message to the transcript.
func (t *exchange) record(b []byte) {
	if t.transcript == nil {
		t.transcript = t.said[:0]
	}
	t.transcript = append(t.transcript, b...)
}

// path is how two processes are connected.
type path struct {
	unix        bool
	local       bool           // within one network namespace
	here, there netip.AddrPort // TCP; there is a listener's if this side dialled
}

// String returns, for example, "tcp 10.0.0.1:4711 > 10.0.0.2:4712".
func (w path) String() string {
	if w.unix {
		return "unix"
	}
	return fmt.Sprintf("tcp %v > %v", w.here, w.there)
}

// peerName names the other end in messages.
func (w path) peerName() string {
	if w.unix {
		return "a process of this machine"
	}
	return w.there.String()
}

// sameInterface reports whether two paths lead to one interface.
func (w path) sameInterface(o path) bool { return w.unix == o.unix && w.there.Addr() == o.there.Addr() }
