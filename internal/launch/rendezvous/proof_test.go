package rendezvous

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/banyan-hpc/banyan/internal/launch/pmi"
	"github.com/stretchr/testify/require"
)

func keyOf(content byte) *[SecretLen]byte {
	key := [SecretLen]byte(bytes.Repeat([]byte{content}, SecretLen))
	return &key
}

// keyed gives a rank a secret; 0 is none.
func keyed(p *Config, content byte) *Config {
	if content != 0 {
		p.key = keyOf(content)
	}
	return p
}

// lockedServer is bareServer with a secret and rank 0.
func lockedServer(size int, content byte) *Server {
	h := bareServer(size)
	keyed(h.Config, content)
	h.admitted[0] = true
	return h
}

// wire is a connection that records the written data.
type wire struct {
	net.Conn
	mu    sync.Mutex
	wrote []string
}

func (w *wire) Write(b []byte) (int, error) {
	w.mu.Lock()
	w.wrote = append(w.wrote, string(b))
	w.mu.Unlock()
	return w.Conn.Write(b)
}

// encounter connects a client to a server, and returns the data of each, in order.
func encounter(h *Server, client *Config) (id string, admitted bool, clients, hosts []string, err error) {
	a, b := net.Pipe()
	ours, theirs := &wire{Conn: a}, &wire{Conn: b}
	done := make(chan bool)
	go func() {
		_, ok := h.newcomer(theirs)
		theirs.Close()
		done <- ok
	}()
	id, err = handshake(ours, client)
	ours.Close()
	return id, <-done, ours.wrote, theirs.wrote, err
}

func TestProofs(t *testing.T) {
	for _, c := range []struct {
		host, client byte
		want         string // why the client is refused
	}{
		{0, 0, ""},
		{1, 1, ""},
		{1, 2, "RANK=1 has another secret than rank 0: give all ranks the same file (BANYAN_SECRET_FILE)"},
		{1, 0, "RANK=1 has no BANYAN_SECRET_FILE, rank 0 has"},
		{0, 1, "RANK=1 has BANYAN_SECRET_FILE, rank 0 has not"},
	} {
		h := lockedServer(3, c.host)
		id, admitted, _, _, err := encounter(h, keyed(at("1", 1, 3, time.Minute), c.client))
		require.Equal(t, c.want == "", admitted)
		require.Equal(t, admitted, h.admitted[1], "a rank that is not let in leaves room for the real one")
		if c.want != "" {
			require.ErrorIs(t, err, pmi.ErrRefused)
			require.ErrorContains(t, err, c.want)
			require.Empty(t, id)
			continue
		}
		require.NoError(t, err)
		if c.host != 0 {
			require.Equal(t, "k", id)
		}
	}
}

// A client without the secret learns only that there is a job, also if more is wrong.
func TestRefusalLeaksNothing(t *testing.T) {
	h := lockedServer(3, 1)
	h.token = "0011223344556677"
	for _, client := range []*Config{
		at("1", 1, 3, time.Minute), at("1", 1, 4, time.Minute), at("1", 0, 3, time.Minute), at("1", 7, 3, time.Minute),
	} {
		for _, content := range []byte{0, 2} {
			_, admitted, _, hosts, err := encounter(h, keyed(client, content))
			require.False(t, admitted)
			require.Regexp(t, `^launch: rank 0 at 127\.0\.0\.1:1: the launcher refused: RANK=\d has (no BANYAN_SECRET_FILE, rank 0 has: set it for all ranks or for none|another secret than rank 0: give all ranks the same file \(BANYAN_SECRET_FILE\))$`, err.Error())
			for _, line := range hosts {
				require.NotContains(t, line, "job=")
				require.NotContains(t, line, "mac=")
			}
		}
	}
	// With the secret the usual reasons are sent.
	_, _, _, _, err := encounter(h, keyed(at("1", 1, 4, time.Minute), 1))
	require.ErrorContains(t, err, "RANK=1 has WORLD_SIZE=4, rank 0 has 3")
}

// play sends recorded lines, one after each line of the other side, and returns the lines of the
// other side.
func play(conn net.Conn, first bool, lines []string) (heard []string) {
	r := bufio.NewReaderSize(conn, helloMax)
	for _, line := range lines {
		if !first {
			said, err := pmi.ReadLine(r)
			if err != nil {
				return heard
			}
			heard = append(heard, said)
		}
		first = false
		if _, err := io.WriteString(conn, line); err != nil {
			return heard
		}
	}
	if said, err := pmi.ReadLine(r); err == nil {
		heard = append(heard, said)
	}
	return heard
}

func TestReplayedClient(t *testing.T) {
	client := keyed(at("1", 1, 3, time.Minute), 1)
	_, admitted, said, _, err := encounter(lockedServer(3, 1), client)
	require.NoError(t, err)
	require.True(t, admitted)
	require.Len(t, said, 2)
	for name, lines := range map[string][]string{
		"as it was":    said,
		"another rank": {strings.Replace(said[0], "rank=1", "rank=2", 1), said[1]},
		"no proof":     {said[0], response("")},
		"half a proof": {said[0], said[1][:len(said[1])-8] + "\n"},
	} {
		h := lockedServer(3, 1)
		ours, theirs := net.Pipe()
		done := make(chan bool)
		go func() { _, ok := h.newcomer(theirs); theirs.Close(); done <- ok }()
		heard := play(ours, true, lines)
		ours.Close()
		require.False(t, <-done, name)
		require.Equal(t, []bool{true, false, false}, h.admitted)
		require.Len(t, heard, 2)
		w, ok := parseVerdict(heard[1])
		require.True(t, ok)
		require.ErrorContains(t, w.refusal, "another secret")
	}
}

func TestReplayedServer(t *testing.T) {
	client := keyed(at("1", 1, 3, time.Minute), 1)
	_, _, said, answers, err := encounter(lockedServer(3, 1), client)
	require.NoError(t, err)
	require.Len(t, answers, 2)
	mac, _ := parseResponse(strings.TrimSuffix(said[1], "\n"))
	for name, lines := range map[string][]string{
		"as it was":              answers,
		"without a challenge":    {answers[1]},
		"no proof at all":        {verdict{}.line()},
		"challenge, no proof":    {answers[0], verdict{}.line()},
		"the client's own proof": {answers[0], verdict{id: "k", mac: mac}.line()},
		"the proof of other job": {answers[0], strings.Replace(answers[1], "job=k", "job=l", 1)},
	} {
		ours, theirs := net.Pipe()
		done := make(chan struct{})
		go func() { defer close(done); play(theirs, false, lines); theirs.Close() }()
		id, err := handshake(ours, client)
		ours.Close()
		<-done
		require.ErrorIs(t, err, pmi.ErrProtocol, name)
		require.ErrorContains(t, err, "does not know the secret in the file of BANYAN_SECRET_FILE")
		require.Empty(t, id)
	}
}

// An attacker that changes messages under way keeps the two apart, no more.
func TestChangedMessages(t *testing.T) {
	for name, change := range map[string]func(string) string{
		"rank":  func(s string) string { return strings.Replace(s, "rank=1", "rank=2", 1) },
		"size":  func(s string) string { return strings.Replace(s, "size=3", "size=2", 1) },
		"token": func(s string) string { return strings.Replace(s, "token=", "token=ff", 1) },
		"client's nonce": func(s string) string {
			return strings.Replace(s, "size=3 token= nonce=", "size=3 token= nonce="+newNonce()+" x=", 1)
		},
		"host's nonce": func(s string) string {
			return strings.Replace(s, "challenge nonce=", "challenge nonce="+newNonce()+" x=", 1)
		},
		"job": func(s string) string { return strings.Replace(s, "job=k", "job=l", 1) },
	} {
		h := lockedServer(3, 1)
		a, b := net.Pipe()
		c, d := net.Pipe()
		var work sync.WaitGroup
		for _, way := range [][2]net.Conn{{b, c}, {c, b}} {
			work.Go(func() {
				r := bufio.NewReader(way[0])
				for {
					line, err := r.ReadString('\n')
					if _, werr := io.WriteString(way[1], change(line)); err != nil || werr != nil {
						way[1].Close()
						return
					}
				}
			})
		}
		work.Go(func() { h.newcomer(d); d.Close() })
		_, err := handshake(a, keyed(at("1", 1, 3, time.Minute), 1))
		a.Close()
		work.Wait()
		require.Error(t, err, name)
		if name != "job" { // the server has admitted a rank that it knows; the client leaves
			require.Equal(t, []bool{true, false, false}, h.admitted, name)
		}
	}
}

// FuzzClientWithoutSecret sends any two lines to a server with a secret: it admits none, and its
// answers prove nothing.
func FuzzClientWithoutSecret(f *testing.F) {
	nonce := "AAAAAAAAAAAAAAAAAAAAAA"
	f.Add([]byte(hello{1, 3, "", nonce}.line()), []byte(response(strings.Repeat("A", 43))))
	f.Add([]byte(hello{1, 3, "", ""}.line()), []byte(""))
	f.Add([]byte(hello{1, 3, "", nonce}.line()), []byte("cmd=response\n"))
	f.Add([]byte(hello{1, 3, "", nonce}.line()), []byte(challenge(nonce)))
	f.Add([]byte("GET / HTTP/1.0\r\n\r\n"), []byte("cmd=init\n"))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		h := lockedServer(3, 1)
		ours, theirs := net.Pipe()
		heard := make(chan []string, 1)
		go func() {
			heard <- play(ours, true, []string{string(first), string(second)})
			ours.Close()
		}()
		_ = theirs.SetDeadline(time.Now().Add(helloGrace))
		_, ok := h.newcomer(shortLived{theirs})
		theirs.Close()
		require.False(t, ok)
		require.Equal(t, []bool{true, false, false}, h.admitted)
		for _, line := range <-heard {
			if _, ok := parseChallenge(line); ok {
				continue
			}
			w, ok := parseVerdict(line)
			require.True(t, ok, line)
			require.Error(t, w.refusal)
			require.NotContains(t, line, "mac=")
		}
	})
}

// shortLived ends the reading of a server when a client has sent all without ending the line.
type shortLived struct{ net.Conn }

func (c shortLived) SetDeadline(time.Time) error {
	return c.Conn.SetDeadline(time.Now().Add(20 * time.Millisecond))
}

// FuzzRankZero lets anything answer a client that has a secret: the client accepts none of it.
func FuzzRankZero(f *testing.F) {
	nonce := "AAAAAAAAAAAAAAAAAAAAAA"
	f.Add([]byte(challenge(nonce)), []byte(verdict{id: "k", mac: strings.Repeat("A", 43)}.line()))
	f.Add([]byte(verdict{}.line()), []byte(""))
	f.Add([]byte(verdict{refusal: fmt.Errorf("no\x1b[2J")}.line()), []byte(""))
	f.Add([]byte(challenge(nonce)+challenge(nonce)), []byte("x\n"))
	client := keyed(at("1", 1, 3, time.Minute), 1)
	f.Fuzz(func(t *testing.T, first, second []byte) {
		ours, theirs := net.Pipe()
		heard := make(chan []string, 1)
		go func() {
			heard <- play(theirs, false, []string{string(first), string(second)})
			theirs.Close()
		}()
		require.NoError(t, ours.SetDeadline(time.Now().Add(20*time.Millisecond)))
		id, err := handshake(ours, client)
		ours.Close()
		<-heard
		require.Error(t, err)
		require.Empty(t, id)
		require.NotContains(t, err.Error(), "\x1b")
	})
}
