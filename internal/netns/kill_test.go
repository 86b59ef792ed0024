package netns

import (
	"net"
	"net/netip"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestKillConnections(t *testing.T) {
	t.Parallel()
	n := open(t, Config{Hosts: 3, IPv6: true})
	if n == nil {
		return
	}
	l := listen(t, n, 0, n.Addr(0))
	a4, b4 := connectTo(t, n, 0, 1, n.Addr(1))
	a6, b6 := connectTo(t, n, 1, 0, n.Addr6(0))              // the other end began
	am, bm := connectTo(t, n, 1, 0, netip.IPv6Unspecified()) // IPv4 on a socket of IPv6
	other, its := connectTo(t, n, 0, 2, n.Addr(2))
	lo, los := connectTo(t, n, 0, 0, netip.MustParseAddr("127.0.0.1"))

	killed, err := n.KillConnectionsTo(0, 1)
	require.NoError(t, err)
	require.Equal(t, 3, killed)
	for mine, theirs := range map[net.Conn]net.Conn{a4: b4, b6: a6, bm: am} {
		requireBroken(t, mine, syscall.ECONNABORTED)
		requireBroken(t, theirs, syscall.ECONNRESET)
	}
	talk(t, other, its)
	talk(t, lo, los)

	killed, err = n.KillConnections(0)
	require.NoError(t, err)
	require.Contains(t, []int{2, 3}, killed) // of lo's one end, or both before its reset arrived
	requireBroken(t, other, syscall.ECONNABORTED)
	requireBroken(t, its, syscall.ECONNRESET)
	for _, c := range []net.Conn{lo, los} {
		_, err := c.Read(make([]byte, 1))
		require.Error(t, err)
		require.False(t, timedOut(err), "read: %v", err)
	}

	here, err := dialFor(n, 2, l.Addr(), patience)
	require.NoError(t, err)
	there, err := l.Accept()
	require.NoError(t, err)
	talk(t, here, there)
	_, err = n.KillConnectionsTo(0, 3)
	require.ErrorContains(t, err, "host 3")
}

func requireBroken(t *testing.T, c net.Conn, want syscall.Errno) {
	t.Helper()
	_, err := c.Read(make([]byte, 1))
	require.ErrorIs(t, err, want)
}
