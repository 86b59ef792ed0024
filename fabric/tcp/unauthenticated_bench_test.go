package tcp

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/fabric"
)

// BenchmarkUnauthenticated measures the cost of an unauthenticated connection for the process, from
// accept to close: ns/stranger. It excludes the work of the other side and the polls that find
// nothing.
func BenchmarkUnauthenticated(b *testing.B) {
	p, err := Open(Config{MaxProcs: 2, Secret: []byte("the secret of these two"), Inet: true,
		Networks: []string{"127.0.0.0/8"}})
	require.NoError(b, err)
	defer func() { require.NoError(b, p.Close()) }()
	f, err := Forge(p.Address())
	require.NoError(b, err)
	noise := make([]byte, 500)
	for _, k := range []struct {
		name  string
		words []byte
	}{{"leaving", nil}, {"noisy", noise}, {"forging", f.Words}, {"silent", nil}, {"slow", f.Words[:10]}} {
		b.Run(k.name, func(b *testing.B) {
			var busy time.Duration
			stays := k.name == "silent" || k.name == "slow"
			for b.Loop() {
				busy += visit(b, p, k.words, stays)
			}
			b.ReportMetric(float64(busy.Nanoseconds())/float64(b.N), "ns/stranger")
		})
	}
}

// visit makes an unauthenticated connection, and closes it after it has been handled if it stays.
func visit(b *testing.B, p *Provider, words []byte, stays bool) (busy time.Duration) {
	domain, sa := sockaddr(p.self.addrs[0])
	fd, err := unix.Socket(domain, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(b, err)
	require.NoError(b, unix.Connect(fd, sa))
	before := p.Stats().Refused()
	_, errno := sendBytes(fd, words)
	require.Zero(b, errno)
	end := func() {
		require.NoError(b, unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}))
		require.NoError(b, unix.Close(fd))
	}
	if words == nil && !stays {
		end()
	}
	var none fabric.Sink
	for looked := false; p.Stats().Refused() == before; {
		begin := time.Now()
		n := p.Poll(&none)
		if n > 0 {
			busy += time.Since(begin)
		}
		if looked = looked || n > 0; looked && stays && n == 0 {
			end()
			stays = false
		}
	}
	if words != nil && !stays {
		_ = unix.Close(fd)
	}
	return busy
}
