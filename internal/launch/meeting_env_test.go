package launch

import (
	"bufio"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func lookIn(text string) environment {
	vars := map[string]string{}
	for v := range strings.FieldsSeq(text) {
		name, value, _ := strings.Cut(v, "=")
		vars[name] = value
	}
	return func(n string) (string, bool) { v, ok := vars[n]; return v, ok }
}

func TestWrongMeetings(t *testing.T) {
	for env, want := range map[string]string{
		"RANK=1":                                                             "WORLD_SIZE is not set",
		"RANK=1 WORLD_SIZE=4":                                                "MASTER_PORT is not",
		"WORLD_SIZE=4":                                                       "neither RANK nor PMI_FD",
		"RANK=4 WORLD_SIZE=4 MASTER_PORT=1":                                  "RANK=4 is not below WORLD_SIZE=4",
		"RANK=-1 WORLD_SIZE=4 MASTER_PORT=1":                                 `RANK="-1"`,
		"RANK=x WORLD_SIZE=4 MASTER_PORT=1":                                  `RANK="x"`,
		"RANK= WORLD_SIZE=4 MASTER_PORT=1":                                   `RANK=""`,
		"RANK=0 WORLD_SIZE=0 MASTER_PORT=1":                                  `WORLD_SIZE="0"`,
		"RANK=0 WORLD_SIZE=99999999 MASTER_PORT=1":                           `WORLD_SIZE="99999999"`,
		"RANK=1 WORLD_SIZE=1 MASTER_PORT=1":                                  "not below",
		"RANK=0 WORLD_SIZE=2 MASTER_PORT=0":                                  `MASTER_PORT="0"`,
		"RANK=0 WORLD_SIZE=2 MASTER_PORT=65536":                              `MASTER_PORT="65536"`,
		"RANK=0 WORLD_SIZE=2 MASTER_PORT=http":                               `MASTER_PORT="http"`,
		"RANK=0 WORLD_SIZE=2 MASTER_PORT=1 MASTER_ADDR=node7:29500":          "MASTER_ADDR=node7:29500 is neither",
		"RANK=0 WORLD_SIZE=2 MASTER_PORT=1 MASTER_ADDR=tcp://node7":          "the port goes into MASTER_PORT",
		"RANK=0 WORLD_SIZE=2 MASTER_PORT=1 LOCAL_RANK=2 LOCAL_WORLD_SIZE=2":  `LOCAL_RANK="2"`,
		"RANK=0 WORLD_SIZE=2 MASTER_PORT=1 LOCAL_RANK=0 LOCAL_WORLD_SIZE=3":  `LOCAL_WORLD_SIZE="3"`,
		"RANK=0 WORLD_SIZE=2 MASTER_PORT=1 BANYAN_INIT_TIMEOUT=soon":         `BANYAN_INIT_TIMEOUT="soon"`,
		"PMI_FD=3 PMI_RANK=0 RANK=0 WORLD_SIZE=2 MASTER_PORT=1 MASTER_ADDR=": "PMI_SIZE is not",
	} {
		_, ok, err := findPlace(lookIn(env))
		require.False(t, ok, env)
		require.ErrorContains(t, err, want, env)
		if !strings.Contains(env, InitTimeoutEnv) {
			require.ErrorIs(t, err, ErrEnvironment)
		}
	}
	for _, env := range []string{"", "RANK=0", "RANK=colonel", "WORLD_SIZE=1", "RANK=0 WORLD_SIZE=1", "LOCAL_RANK=3"} {
		_, ok, err := findPlace(lookIn(env))
		require.False(t, ok, env)
		require.NoError(t, err, env)
	}
}

func TestMeetingPlace(t *testing.T) {
	const base = "RANK=3 WORLD_SIZE=6 MASTER_PORT=29500 "
	for env, want := range map[string]meeting{
		"":                                   {addr: "127.0.0.1:29500"},
		"MASTER_ADDR=":                       {addr: "127.0.0.1:29500"},
		"MASTER_ADDR=::1":                    {addr: "[::1]:29500"},
		"MASTER_ADDR=[fd00::7]":              {addr: "[fd00::7]:29500"},
		"MASTER_ADDR=fe80::7%eth0":           {addr: "[fe80::7%eth0]:29500"},
		"MASTER_ADDR=node7":                  {addr: "node7:29500"},
		"LOCAL_RANK=1 LOCAL_WORLD_SIZE=2":    {addr: "127.0.0.1:29500", nodes: mapping{{0, 3, 2}}},
		"LOCAL_RANK=3 LOCAL_WORLD_SIZE=6":    {addr: "127.0.0.1:29500", nodes: mapping{{0, 1, 6}}},
		"LOCAL_RANK=0 LOCAL_WORLD_SIZE=2":    {addr: "127.0.0.1:29500"}, // another order of ranks
		"LOCAL_RANK=3 LOCAL_WORLD_SIZE=4":    {addr: "127.0.0.1:29500"}, // nodes differ
		"LOCAL_RANK=0":                       {addr: "127.0.0.1:29500"},
		"TORCHELASTIC_USE_AGENT_STORE=True":  {addr: "127.0.0.1:29500", agent: true},
		"TORCHELASTIC_USE_AGENT_STORE=False": {addr: "127.0.0.1:29500"},
	} {
		p, ok, err := findPlace(lookIn(base + env))
		require.NoError(t, err)
		require.True(t, ok)
		want.timeout = DefaultInitTimeout
		require.Equal(t, place{rank: 3, size: 6, at: &want}, p, env)
	}
	one, _, _ := findPlace(lookIn(base + "TORCHELASTIC_RUN_ID=one"))
	two, _, _ := findPlace(lookIn(base + "TORCHELASTIC_RUN_ID=two"))
	require.NotEqual(t, one.at.token, two.at.token)
	require.Len(t, one.at.token, 16)
}

// bareHost is a host without listener.
func bareHost(size int) *host {
	return &host{
		place: at("1", 0, size, time.Hour), srv: newServer("k", size, time.Hour),
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
