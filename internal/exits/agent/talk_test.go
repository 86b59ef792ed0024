package agent

import (
	"net"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/internal/exits"
)

// A client that sends anything but Hello gets the reason, and is registered nowhere. It needs no
// privileges: no hook is opened for it.
func FuzzTalk(f *testing.F) {
	f.Add([]byte("hello"))
	f.Add([]byte(nil))
	f.Add([]byte(exits.Hello + "\x00"))
	f.Add([]byte(strings.Repeat("x", 2*exits.TextMax)))
	f.Fuzz(func(t *testing.T, text []byte) {
		if string(text) == exits.Hello || len(text) > 4*exits.TextMax {
			return
		}
		var events []Event
		a := &agent{report: func(e Event) { events = append(events, e) }}
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		require.NoError(t, err)
		defer unix.Close(pair[1])
		file := os.NewFile(uintptr(pair[0]), "agent")
		c, err := net.FileConn(file)
		require.NoError(t, err)
		require.NoError(t, file.Close())
		_, err = unix.Write(pair[1], text)
		require.NoError(t, err)
		a.talk(c.(*net.UnixConn), os.Getuid())
		require.Len(t, events, 1)
		require.Equal(t, os.Getpid(), events[0].PID)
		require.Error(t, events[0].Err)
		answer := make([]byte, 2*exits.TextMax)
		n, err := unix.Read(pair[1], answer)
		require.NoError(t, err)
		require.Contains(t, string(answer[:n]), map[bool]string{true: "one build", false: "EOF"}[len(text) > 0])
		n, err = unix.Read(pair[1], answer)
		require.NoError(t, err)
		require.Zero(t, n, "it has hung up")
	})
}
