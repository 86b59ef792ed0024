package agent

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/internal/exits"
)

// An agent without a free descriptor for a client reports that, and serves the client when there is
// one again.
func TestWantOfDescriptors(t *testing.T) {
	if !privileged(t) {
		return
	}
	address := filepath.Join(t.TempDir(), "agent")
	a := start(t, "agent", address, nil)
	require.Equal(t, "ready", a.line(t))
	free := 0 // the first number that is
	for ; ; free++ {
		if _, err := os.Lstat(fmt.Sprintf("/proc/%d/fd/%d", a.Process.Pid, free)); err != nil {
			break
		}
	}
	var usual unix.Rlimit
	require.NoError(t, unix.Prlimit(a.Process.Pid, unix.RLIMIT_NOFILE, nil, &usual))
	none := unix.Rlimit{Cur: uint64(free), Max: usual.Max}
	require.NoError(t, unix.Prlimit(a.Process.Pid, unix.RLIMIT_NOFILE, &none, nil))

	conn, err := net.Dial("unixpacket", address)
	require.NoError(t, err)
	defer conn.Close()
	require.Contains(t, a.line(t), "too many open files")
	require.NoError(t, unix.Prlimit(a.Process.Pid, unix.RLIMIT_NOFILE, &usual, nil))
	_, err = conn.Write([]byte("nonsense"))
	require.NoError(t, err)
	text := make([]byte, exits.TextMax)
	n, err := conn.Read(text)
	require.NoError(t, err)
	require.Contains(t, string(text[:n]), "another version")
}

// A process that the agent cannot see gets an answer.
func TestOutsideOfTheNamespace(t *testing.T) {
	if !privileged(t) {
		return
	}
	address := filepath.Join(t.TempDir(), "agent")
	a := start(t, "agent", address, &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID})
	require.Equal(t, "ready", a.line(t))
	_, err := exits.Dial(address)
	require.ErrorContains(t, err, "run the agent in the same one")
}

// An agent without privileges over limits may have no more descriptors in unread answers than open. It reports an
// answer that it cannot send.
func TestUnreadAnswers(t *testing.T) {
	if !privileged(t) {
		return
	}
	const most = 100
	t.Setenv(files, strconv.Itoa(most))
	address := "@" + t.Name() + strconv.Itoa(os.Getpid())
	a := start(t, "agent", address, &syscall.SysProcAttr{
		Credential:  &syscall.Credential{Uid: 65532, Gid: 65532},
		AmbientCaps: []uintptr{unix.CAP_BPF, unix.CAP_PERFMON},
	})
	require.Equal(t, "ready", a.line(t))
	for answered := true; answered; { // each answer has descriptors
		conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: address, Net: "unixpacket"})
		require.NoError(t, err)
		defer conn.Close()
		_, err = conn.Write([]byte(exits.Hello))
		require.NoError(t, err)
		raw, err := conn.SyscallConn()
		require.NoError(t, err)
		require.NoError(t, raw.Read(func(fd uintptr) bool {
			n, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK)
			answered = n > 0
			return !errors.Is(err, unix.EAGAIN)
		}))
	}
	require.Regexp(t, fmt.Sprintf("process %d of user 0: the answer: .*too many references", os.Getpid()), a.line(t))
}
