package exits

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The conversation with an agent, over a socket of packets: the client says
// Hello, the agent answers Welcome with the descriptors or a line that says
// why not, and the connection ends. Who the client is the kernel says.
const (
	Hello   = "banyan exits 2"
	Welcome = "ok"
	// TextMax bounds the packets of both.
	TextMax = 512
)

// patience is how long an agent may take to answer; it loads a program for the
// first process of a user.
const patience = 15 * time.Second

// A full queue of the agent is tried again so often, so far apart: for 200 ms. The agent empties it as
// fast as processes come; so it is full for longer only where somebody fills it, at an
// address that anybody may have taken. Tries are counted and not time: on a busy machine both sides get less of it.
const (
	queueTries = 40
	queuePause = 5 * time.Millisecond
)

// Dial registers this process with the agent at an address, "@name" for an
// abstract socket or a path, and makes the table from what it hands out. An
// agent is believed that runs as root or as this process's user.
func Dial(address string) (*Table, error) {
	conn, err := connect(address)
	if err != nil {
		if errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, unix.ENOENT) {
			return nil, fmt.Errorf("exits: no agent at %s (ftbench agent): %w", address, ErrNone)
		}
		return nil, fmt.Errorf("exits: the agent at %s: %w", address, err)
	}
	defer conn.Close()
	fds, err := ask(conn.(*net.UnixConn))
	if err != nil {
		return nil, fmt.Errorf("exits: the agent at %s: %w", address, err)
	}
	t, err := New(fds)
	if err != nil {
		return nil, err
	}
	if !t.Watched(os.Getpid()) {
		return nil, errors.Join(fmt.Errorf("exits: the agent at %s cannot see the pid namespace of process %d: let it run with CAP_SYS_PTRACE", address, os.Getpid()), t.Close())
	}
	return t, nil
}

// connect waits a little while the agent's queue is full: the kernel does not, on such a socket.
func connect(address string) (conn net.Conn, err error) {
	for range queueTries {
		if conn, err = net.DialTimeout("unixpacket", address, patience); !errors.Is(err, unix.EAGAIN) {
			return conn, err
		}
		time.Sleep(queuePause)
	}
	return nil, fmt.Errorf("its queue is full: %w", err)
}

func ask(conn *net.UnixConn) ([]int, error) {
	peer, err := Peer(conn)
	if err != nil {
		return nil, err
	}
	if peer.Uid != 0 && int(peer.Uid) != os.Geteuid() {
		return nil, fmt.Errorf("runs as user %d: only one of root or of user %d is believed", peer.Uid, os.Geteuid())
	}
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	if _, err := conn.Write([]byte(Hello)); err != nil {
		return nil, err
	}
	text, rights, err := hear(conn)
	if err != nil {
		return nil, err
	}
	fds, err := passed(rights)
	switch {
	case err != nil:
	case len(text) == 0:
		err = io.ErrUnexpectedEOF
	case string(text) != Welcome:
		err = errors.New(strings.ToValidUTF8(string(text), "?"))
	case len(fds) > MaxFiles: // room for a number of them is rounded up
		err = fmt.Errorf("%d descriptors came, at most %d do", len(fds), MaxFiles)
	}
	if err != nil {
		return nil, errors.Join(err, closeFDs(fds))
	}
	return fds, nil
}

// Peer gives the credentials of the process at the other end: of a client those that it had when
// it connected, of an agent those that it had when it began to listen.
func Peer(conn *net.UnixConn) (peer *unix.Ucred, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	var inner error
	err = raw.Control(func(fd uintptr) {
		peer, inner = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	return peer, errors.Join(err, inner)
}

// passed are the descriptors in a control message.
func passed(rights []byte) ([]int, error) {
	if len(rights) == 0 {
		return nil, nil
	}
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return nil, err
	}
	var fds []int
	for _, m := range messages {
		more, err := unix.ParseUnixRights(&m)
		if err != nil {
			return fds, err
		}
		fds = append(fds, more...)
	}
	return fds, nil
}

// hear reads the agent's packet, which is empty if it has hung up without one. The descriptors in it are open.
func hear(conn *net.UnixConn) (text, rights []byte, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, nil, err
	}
	text, rights = make([]byte, TextMax), make([]byte, unix.CmsgSpace(4*MaxFiles))
	var n, m int
	var failed error
	err = raw.Read(func(fd uintptr) bool {
		look := func() (int, int, error) {
			n, m, _, _, err := unix.Recvmsg(int(fd), text, rights, unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
			return n, m, err
		}
		if n, m, failed = look(); failed == nil && n == 0 && m == 0 {
			// An empty packet or the end. Of the end Linux tells a reader that does not wait also if an answer
			// and the end come between two looks of its own, at the queue and at the state: that answer can be
			// read now.
			if again, more, err := look(); err == nil {
				n, m = again, more
			}
		}
		return !errors.Is(failed, unix.EAGAIN)
	})
	return text[:max(n, 0)], rights[:max(m, 0)], errors.Join(err, failed)
}
