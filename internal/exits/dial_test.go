package exits

import (
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The ranks of a node come all at once, and wait for their turn where the agent's queue is
// full.
func TestManyAtOnce(t *testing.T) {
	address := filepath.Join(t.TempDir(), "agent")
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	require.NoError(t, unix.Bind(fd, &unix.SockaddrUnix{Name: address}))
	require.NoError(t, unix.Listen(fd, 0)) // one waits, no more
	f := os.NewFile(uintptr(fd), address)
	l, err := net.FileListener(f)
	require.NoError(t, err)
	require.NoError(t, f.Close())

	const ranks = 50
	errs := make([]error, ranks)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { _, errs[i] = Dial(address) })
	}
	go func() { all.Wait(); l.Close() }() // failed clients will not come
	for range ranks {
		conn, err := l.Accept()
		require.NoError(t, err, "%v", errs)
		text := make([]byte, TextMax)
		n, err := conn.Read(text)
		require.NoError(t, err)
		require.Equal(t, Hello, string(text[:n]))
		_, err = conn.Write([]byte("it was your turn"))
		require.NoError(t, err)
		require.NoError(t, conn.Close())
	}
	all.Wait()
	for _, err := range errs {
		require.ErrorContains(t, err, "it was your turn")
	}
}
