package rendezvous

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/banyan-hpc/banyan/internal/launch/pmi"
	"github.com/stretchr/testify/require"
)

// at describes a rank for tests within this process.
func at(port string, rank, size int, timeout time.Duration) *Config {
	return &Config{Rank: rank, Size: size, Addr: "127.0.0.1:" + port, timeout: timeout}
}

func TestPortThatCannotBeUsed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	closed := make(chan struct{})
	go func() { // another program, which closes every connection
		defer close(closed)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	defer func() { l.Close(); <-closed }()
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	p := at(port, 0, 2, time.Minute)
	_, _, err = newServer(context.Background(), p)
	require.ErrorIs(t, err, pmi.ErrEnvironment)
	require.ErrorContains(t, err, "MASTER_PORT is taken by another program")
	p.agent = true
	_, _, err = newServer(context.Background(), p)
	require.ErrorContains(t, err, "agent of torchrun")
	p.Addr = "192.0.2.1:" + port // reserved for documentation
	_, _, err = newServer(context.Background(), p)
	require.ErrorContains(t, err, "MASTER_ADDR is no address of the machine")
	p.Addr = "127.0.0.1:port"
	_, _, err = newServer(context.Background(), p)
	require.ErrorContains(t, err, "cannot listen")
}

func TestOtherServerAtThePort(t *testing.T) {
	for said, want := range map[string]string{
		"HTTP/1.1 400 Bad Request\r\n\r\n":                   `it sent "HTTP/1.1 400 Bad Request"`,
		strings.Repeat("x", helloMax+1):                      "longer than",
		hello{1, 2, "", ""}.line():                           "cmd=hello",
		verdict{}.line() + "x":                               "cmd=welcome",
		"cmd=challenge nonce=AAAAAAAAAAAAAAAAAAAAAA\n":       "cmd=challenge",
		"cmd=welcome\n":                                      "cmd=welcome",
		"cmd=welcome rc=1 why=!\n":                           "why=!",
		verdict{refusal: fmt.Errorf("no room today")}.line(): "the launcher refused: no room today",
	} {
		ours, theirs := net.Pipe()
		heard := make(chan struct{})
		go func() {
			defer close(heard)
			_, _ = pmi.ReadLine(bufio.NewReader(theirs))
			_, _ = theirs.Write([]byte(said))
		}()
		_, err := handshake(ours, at("1", 1, 2, time.Minute))
		require.ErrorContains(t, err, want)
		ours.Close()
		<-heard
		theirs.Close()
	}
}

// ports numbers those that have been tried, from anywhere on.
var ports = sync.OnceValue(func() *atomic.Int32 {
	var n atomic.Int32
	n.Store(rand.Int32N(2000))
	return &n
})

// freePort finds a port without a listener, below those that the kernel assigns by itself. Other
// packages' tests have other ranges.
func freePort(t testing.TB) string {
	for range 100 {
		port := strconv.Itoa(17000 + int(ports().Add(1))%2000)
		if l, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			require.NoError(t, l.Close())
			return port
		}
	}
	t.Fatal("no free port")
	return ""
}

func TestRankZeroThatNeverListens(t *testing.T) {
	_, _, err := dial(context.Background(), at(freePort(t), 1, 2, time.Nanosecond))
	var missing *pmi.MissingError
	require.ErrorAs(t, err, &missing)
	require.Zero(t, missing.Lost[0].Rank)
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	_, _, err = dial(gone, at(freePort(t), 1, 2, time.Minute))
	require.ErrorIs(t, err, context.Canceled)
}
