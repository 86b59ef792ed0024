package launch

import (
	"bufio"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// bareHost is a host without listener.
func bareHost(size int) *host {
	return &host{
		meeting: at("1", 0, size, time.Hour), srv: newServer("k", size, time.Hour),
		unproved: newUnproved(size), claimed: make([]bool, size),
	}
}

// newcomer greets a connection as accept does.
func (h *host) newcomer(conn net.Conn) (rank int, ok bool) {
	h.unproved.add(conn)
	defer h.unproved.remove(conn)
	return h.greet(conn)
}

// FuzzStranger lets anything connect to a host: only a line that says exactly
// what a guest says is taken in, and rank 0 by nobody.
func FuzzStranger(f *testing.F) {
	f.Add([]byte(hello{1, 3, "", ""}.line()))
	f.Add([]byte(hello{0, 3, "", ""}.line()))
	f.Add([]byte("cmd=hello banyan=2 rank=2 size=3 rank=1\n"))
	f.Add([]byte("cmd=hello banyan=9\n"))
	f.Add([]byte("GET / HTTP/1.0\r\n\r\n"))
	f.Fuzz(func(t *testing.T, said []byte) {
		h := bareHost(3)
		h.claimed[0] = true
		ours, theirs := net.Pipe()
		heard := make(chan string, 1)
		go func() {
			_, _ = ours.Write(said)
			if len(said) == 0 || said[len(said)-1] != '\n' {
				ours.Close() // more will not come
			}
			line, _ := readLine(bufio.NewReaderSize(ours, helloMax))
			heard <- line
		}()
		rank, ok := h.newcomer(theirs)
		theirs.Close()
		line := <-heard
		ours.Close()
		w, answered := parseWelcome(line)
		if !ok {
			require.Equal(t, []bool{true, false, false}, h.claimed)
			require.False(t, answered && w.why == nil, "%q is told that it is welcome", said)
			return
		}
		require.True(t, rank == 1 || rank == 2)
		first, _, _ := strings.Cut(string(said), "\n")
		who, err := parseHello(strings.TrimSuffix(first, "\r"))
		require.NoError(t, err)
		require.Equal(t, hello{rank, 3, "", ""}, who)
		require.True(t, h.claimed[rank])
	})
}

// FuzzWelcome lets anything answer a guest.
func FuzzWelcome(f *testing.F) {
	f.Add(strings.TrimSpace(welcome{why: nil}.line()))
	f.Add(strings.TrimSpace(welcome{why: errStranger}.line()))
	f.Add("HTTP/1.1 400 Bad Request")
	f.Fuzz(func(t *testing.T, line string) {
		w, ok := parseWelcome(line)
		if w.why != nil {
			require.True(t, ok)
			require.LessOrEqual(t, len(w.why.Error()), answerMax)
		}
		if ok && w.why == nil {
			require.Contains(t, line, "cmd=welcome")
			require.Contains(t, line, "rc=0")
		}
	})
}
