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

// The conversation with an agent, over a socket of packets: the client sends Hello, the agent
// answers Welcome with the descriptors, or a line with the reason, and the connection ends. The
// kernel identifies the client.
const (
	Hello   = "banyan exits 2"
	Welcome = "ok"
	// TextMax bounds the packets of both.
	TextMax = 512
)

// patience is how long an agent may take to answer; it loads a program for the
// first process of a user.
const patience = 15 * time.Second

// The number of attempts at a full queue of the agent, and the time between them: 200 ms in all. The agent empties
// the queue as fast as processes come, so it is full for longer only if a process fills it, at an address that any
// process may have taken. The limit is a number and not a time: on a busy machine both sides get less of it.
const (
	queueTries = 40
	queuePause = 5 * time.Millisecond
)

// Dial registers this process with the agent at an address, "@name" for an abstract socket or a
// path, and makes the table from the agent's descriptors. It accepts only an agent that runs as
// root or as this process's user.
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

// Peer returns the credentials of the process at the other end: those of a client at the time of
// its connect, those of an agent at the time of its listen.
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

// hear reads the agent's packet, which is empty if it has closed without one. The descriptors in it are open.
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
			// An empty packet or the end. Linux reports the end to a non-blocking reader also if an answer and
			// the end arrive between its own checks of the queue and of the state: that answer can be read
			// now.
			if again, more, err := look(); err == nil {
				n, m = again, more
			}
		}
		return !errors.Is(failed, unix.EAGAIN)
	})
	return text[:max(n, 0)], rights[:max(m, 0)], errors.Join(err, failed)
}
