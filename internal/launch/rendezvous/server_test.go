package rendezvous

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/banyan-hpc/banyan/internal/launch/pmi"
	"github.com/stretchr/testify/require"
)

// bareServer is a host without listener.
func bareServer(size int) *Server {
	return &Server{
		Config: at("1", 0, size, time.Hour), srv: pmi.NewServer("k", size, time.Hour),
		unauthenticated: newUnauthenticated(size), admitted: make([]bool, size),
	}
}

// newcomer greets a connection as accept does.
func (h *Server) newcomer(conn net.Conn) (rank int, ok bool) {
	h.unauthenticated.add(conn)
	defer h.unauthenticated.remove(conn)
	return h.handshake(conn)
}

// FuzzClient lets anything connect to a server: only the exact line of a client is admitted, and
// rank 0 never.
func FuzzClient(f *testing.F) {
	f.Add([]byte(hello{1, 3, "", ""}.line()))
	f.Add([]byte(hello{0, 3, "", ""}.line()))
	f.Add([]byte("cmd=hello banyan=3 rank=2 size=3 rank=1\n"))
	f.Add([]byte("cmd=hello banyan=9\n"))
	f.Add([]byte("GET / HTTP/1.0\r\n\r\n"))
	f.Fuzz(func(t *testing.T, sent []byte) {
		h := bareServer(3)
		h.admitted[0] = true
		ours, theirs := net.Pipe()
		heard := make(chan string, 1)
		go func() {
			_, _ = ours.Write(sent)
			if len(sent) == 0 || sent[len(sent)-1] != '\n' {
				ours.Close() // more will not come
			}
			line, _ := pmi.ReadLine(bufio.NewReaderSize(ours, helloMax))
			heard <- line
		}()
		rank, ok := h.newcomer(theirs)
		theirs.Close()
		line := <-heard
		ours.Close()
		w, answered := parseVerdict(line)
		if !ok {
			require.Equal(t, []bool{true, false, false}, h.admitted)
			require.False(t, answered && w.refusal == nil, "%q is welcome", sent)
			return
		}
		require.True(t, rank == 1 || rank == 2)
		first, _, _ := strings.Cut(string(sent), "\n")
		who, err := parseHello(strings.TrimSuffix(first, "\r"))
		require.NoError(t, err)
		require.Equal(t, hello{rank, 3, "", ""}, who)
		require.True(t, h.admitted[rank])
	})
}

// FuzzVerdict lets anything answer a client.
func FuzzVerdict(f *testing.F) {
	f.Add(strings.TrimSpace(verdict{refusal: nil}.line()))
	f.Add(strings.TrimSpace(verdict{refusal: errNotRank}.line()))
	f.Add("HTTP/1.1 400 Bad Request")
	f.Add("cmd=welcome rc=1 why=" + base64.RawURLEncoding.EncodeToString(bytes.Repeat([]byte{0xff}, refusalMax)))
	f.Fuzz(func(t *testing.T, line string) {
		w, ok := parseVerdict(line)
		if w.refusal != nil {
			require.True(t, ok)
			require.LessOrEqual(t, len(w.refusal.Error()), refusalMax)
		}
		if ok && w.refusal == nil {
			require.Contains(t, line, "cmd=welcome")
			require.Contains(t, line, "rc=0")
		}
	})
}
