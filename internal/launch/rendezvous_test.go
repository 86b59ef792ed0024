package launch

import (
	"bufio"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/banyan-hpc/banyan/internal/launch/pmi"
	"github.com/banyan-hpc/banyan/internal/launch/rendezvous"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// rendezvousNames are the variables of a start without launcher.
var rendezvousNames = []string{
	"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
	"TORCHELASTIC_RUN_ID", "TORCHELASTIC_USE_AGENT_STORE", pmi.InitTimeoutEnv, rendezvous.SecretFileEnv,
}

// single is one process that the test starts as a rank, without launcher.
type single struct {
	*exec.Cmd
	t   *testing.T
	out buffer
}

// setOut starts a rank in a role. Later variables win.
func setOut(t *testing.T, role, port string, rank, size int, extra ...string) *single {
	self, err := os.Executable()
	require.NoError(t, err)
	s := &single{Cmd: exec.Command(self), t: t}
	s.Env = append(cleanEnv(roleEnv+"="+role, fmt.Sprintf("RANK=%d", rank), fmt.Sprintf("WORLD_SIZE=%d", size),
		"MASTER_PORT="+port), extra...)
	s.Stdout, s.Stderr = &s.out, &s.out
	require.NoError(t, s.Start())
	t.Cleanup(func() { _ = s.Process.Kill() })
	return s
}

// end waits for the process and returns its output, without the notice of a wait: on a busy machine
// it may have to.
func (s *single) end(code int) string {
	s.t.Helper()
	_ = s.Wait() // the state has the code
	require.Equal(s.t, code, s.ProcessState.ExitCode(), s.out.String())
	return regexp.MustCompile(`(?m)^banyan: rank \d+ waits for .*\n`).ReplaceAllString(s.out.String(), "")
}

// The protocol of the rendezvous, as a program of another make speaks it.
const (
	lineMost = 512
	welcomed = "cmd=welcome rc=0 job= mac=\n"
)

// helloLine is the first line of a client.
func helloLine(rank, size int, token string) string {
	return fmt.Sprintf("cmd=hello banyan=3 rank=%d size=%d token=%s nonce=\n", rank, size, token)
}

// ask writes to the port of rank 0 and returns its answer: "" for none, or why it refuses.
func ask(t *testing.T, port, text string) string {
	conn, err := net.Dial("tcp", "127.0.0.1:"+port)
	if err != nil {
		return ""
	}
	defer conn.Close()
	_, _ = conn.Write([]byte(text)) // rank 0 may have closed the connection by now
	line, _ := bufio.NewReader(conn).ReadString('\n')
	_, coded, _ := strings.Cut(strings.TrimSpace(line), "why=")
	why, err := base64.RawURLEncoding.DecodeString(coded)
	require.NoError(t, err, line)
	return string(why)
}

// awaitServer returns when rank 0 listens: it refuses a rank of another job.
func awaitServer(t *testing.T, port string) {
	for {
		if why := ask(t, port, helloLine(7, 99, "")); why != "" {
			require.Contains(t, why, "RANK=7 has WORLD_SIZE=99, rank 0 has ")
			return
		}
		<-time.After(time.Millisecond)
	}
}

func TestRendezvous(t *testing.T) {
	for _, n := range []int{2, 5} {
		for name, from := range map[string]int{"rank 0 first": 0, "rank 0 last": 1} {
			t.Run(fmt.Sprintf("%d, %s", n, name), func(t *testing.T) {
				port := somePort(t)
				ranks := make([]*single, n)
				for i := range n {
					r := (i + from) % n
					ranks[r] = setOut(t, "exchange", port, r, n)
				}
				var id string
				for r, s := range ranks {
					out := s.end(0)
					require.Regexp(t, fmt.Sprintf(`^rank %d of %d in banyan-[0-9a-f]{10}, local \[\]\n$`, r, n), out)
					_, of, _ := strings.Cut(out, " of ")
					if r > 0 {
						require.Equal(t, id, of, "one job, one name")
					}
					id = of
				}
			})
		}
	}
}

func TestRendezvousKnowsTheNodes(t *testing.T) {
	port := somePort(t)
	var ranks []*single
	for r := range 4 {
		ranks = append(ranks, setOut(t, "exchange", port, r, 4,
			fmt.Sprintf("LOCAL_RANK=%d", r%2), "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=localhost", "TORCHELASTIC_RUN_ID=a run"))
	}
	for r, s := range ranks {
		require.Contains(t, s.end(0), fmt.Sprintf("local [%d %d]\n", r/2*2, r/2*2+1))
	}
}

func TestLauncherPrecedesRankAndWorldSize(t *testing.T) {
	s := ranks(t, "exchange", 2)
	s.Env = append(s.Env, "RANK=5", "WORLD_SIZE=9")
	res, out, err := run(t, s)
	require.Zero(t, res.Code, err)
	require.Contains(t, out, "rank 1 of 2")
}

func TestRendezvousMissesARank(t *testing.T) {
	t.Parallel() // it waits for the time-out
	port := somePort(t)
	client := setOut(t, "start-up", port, 1, 3)
	host := setOut(t, "start-up", port, 0, 3, pmi.InitTimeoutEnv+"=4s")
	for _, s := range []*single{host, client} {
		require.Equal(t, "joining\nstart-up: launch: rank 2 has not joined within 4s\n", s.end(0))
	}
}

// Rank 0 admits a client and does not answer then.
func TestSilentRankZero(t *testing.T) {
	t.Parallel() // the client waits for the time-out
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	client := setOut(t, "join", port, 1, 2, pmi.InitTimeoutEnv+"=4")
	conn, err := l.Accept()
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Write([]byte(welcomed))
	require.NoError(t, err)
	require.Contains(t, client.end(9), "rank 0 at 127.0.0.1:"+port+" has not answered within 4s")
}

func TestNoRankZero(t *testing.T) {
	t.Parallel() // the client waits for the time-out
	out := setOut(t, "join", somePort(t), 1, 2, pmi.InitTimeoutEnv+"=2").end(9)
	require.Regexp(t, `^join: launch: rank 0 has not answered at 127\.0\.0\.1:\d+ within 2s: .*connection refused\n$`, out)
}

func TestRendezvousLosesARank(t *testing.T) {
	port := somePort(t)
	var ranks []*single
	for r := range 4 {
		ranks = append(ranks, setOut(t, "die", port, r, 4))
	}
	_ = ranks[victim].Wait()
	for _, r := range []int{0, 1, 3} {
		require.Equal(t, strings.Repeat("fence: launch: rank 2 lost its connection to rank 0\n", 2), ranks[r].end(0))
	}
}

func TestRendezvousCutsOffGarbage(t *testing.T) {
	port := somePort(t)
	var ranks []*single
	for r := range 4 {
		ranks = append(ranks, setOut(t, "garbage", port, r, 4))
	}
	require.Equal(t, "after garbage: true\n", ranks[victim].end(0))
	for _, r := range []int{0, 1, 3} {
		require.Equal(t, strings.Repeat("fence: launch: rank 2 was cut off for a wrong message to rank 0\n", 2), ranks[r].end(0))
	}
}

func TestRankZeroKilledAfterStartUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	defer l.Close()
	port := somePort(t)
	var ranks []*single
	for r := range 3 {
		ranks = append(ranks, setOut(t, "survive", port, r, 3, socketEnv+"="+path))
	}
	conns := map[string]net.Conn{}
	for range ranks {
		c, err := l.Accept()
		require.NoError(t, err)
		defer c.Close()
		said, err := bufio.NewReader(c).ReadString('\n')
		require.NoError(t, err)
		conns[said] = c
	}
	require.NoError(t, ranks[0].Process.Signal(unix.SIGKILL))
	_ = ranks[0].Wait()
	for r := 1; r < 3; r++ {
		c := conns[fmt.Sprintf("%d\n", r)]
		_, err = c.Write([]byte("go on\n"))
		require.NoError(t, err)
		said, err := io.ReadAll(c)
		require.NoError(t, err)
		require.Equal(t, "get: true\nfence: true\nabort: true\nfinalize: <nil>\n", string(said))
		ranks[r].end(0)
	}
}

func TestSameRankTwice(t *testing.T) {
	t.Parallel() // it waits for the time-out
	port := somePort(t)
	var ones []*single
	for range 2 {
		ones = append(ones, setOut(t, "start-up", port, 1, 3))
	}
	host := setOut(t, "start-up", port, 0, 3, pmi.InitTimeoutEnv+"=4s")
	const refused = "RANK=1 has come twice: two processes have it, or two jobs share MASTER_PORT"
	missing := "start-up: launch: rank 2 has not joined within 4s (refused: " + refused + ")\n"
	require.Equal(t, "joining\n"+missing, host.end(0))
	var texts []string
	for _, s := range ones {
		_ = s.Wait()
		texts = append(texts, s.out.String())
	}
	both := strings.Join(texts, "")
	require.Equal(t, 1, strings.Count(both, "start-up: launch: rank 0 at 127.0.0.1:"+port+": the launcher refused: "+refused), both)
	require.Equal(t, 1, strings.Count(both, missing), both)
}

func TestRankZeroTwice(t *testing.T) {
	port := somePort(t)
	host := setOut(t, "join", port, 0, 2)
	awaitServer(t, port)
	out := setOut(t, "join", port, 0, 2).end(9)
	require.Contains(t, out, "MASTER_PORT is taken by another process with RANK=0")
	require.Contains(t, out, "RANK=0 has come twice")
	setOut(t, "join", port, 1, 2).end(0)
	host.end(0)
}

// With any other connections to the port, the job starts as usual.
func TestOtherConnectionsDoNoHarm(t *testing.T) {
	port := somePort(t)
	host := setOut(t, "exchange", port, 0, 3)
	awaitServer(t, port)
	for _, c := range []struct{ says, hears string }{
		{"GET / HTTP/1.1\r\nHost: x\r\n\r\n", ""},
		{"\x00\x16\x03\x01 not text\n", ""},
		{strings.Repeat("x", 3*lineMost), ""},
		{strings.Repeat("x", 3*lineMost) + "\n", ""},
		{"cmd=init pmi_version=1 pmi_subversion=1\n", ""},
		{"cmd=hello\n", ""},
		{helloLine(1, 3, "") + "cmd=init", ""},
		{"cmd=hello banyan=1 rank=1 size=3\n", "start all ranks from one build"},
		{"cmd=hello banyan=3 rank=one size=3\n", "no number"},
		{"cmd=hello banyan=3 rank=1\n", "no number"},
		{helloLine(3, 3, ""), "RANK=3 is not below WORLD_SIZE=3"},
		{helloLine(-1, 3, ""), "RANK=-1 is not below"},
		{helloLine(0, 3, ""), "RANK=0 has come twice"},
		{helloLine(1, 4, ""), "RANK=1 has WORLD_SIZE=4, rank 0 has 3"},
		{helloLine(1, 3, "other"), "another TORCHELASTIC_RUN_ID"},
	} {
		why := ask(t, port, c.says)
		require.Contains(t, why, c.hears, "%q", c.says)
		require.Equal(t, c.hears == "", why == "", "%q", c.says)
	}
	for range 5 { // silent, and there until the end
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		require.NoError(t, err)
		defer conn.Close()
	}
	for r := 1; r < 3; r++ {
		defer setOut(t, "exchange", port, r, 3).end(0)
	}
	require.Contains(t, host.end(0), "rank 0 of 3")
}

// Connections that prove nothing make way for others, the oldest first, so that they cannot keep a
// rank out: not while they are more than may be there, nor while rank 0 has no descriptor left.
func TestIdleConnectionsMakeWay(t *testing.T) {
	for _, few := range []bool{false, true} {
		port := somePort(t)
		host := setOut(t, "exchange", port, 0, 3)
		awaitServer(t, port)
		if few { // no more than it has, and four
			open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", host.Process.Pid))
			require.NoError(t, err)
			var limit unix.Rlimit
			require.NoError(t, unix.Prlimit(host.Process.Pid, unix.RLIMIT_NOFILE, nil, &limit))
			limit.Cur = uint64(len(open) + 4)
			require.NoError(t, unix.Prlimit(host.Process.Pid, unix.RLIMIT_NOFILE, &limit, nil))
		}
		var idle []net.Conn
		for range 512 + 3 + 1 {
			conn, err := net.Dial("tcp", "127.0.0.1:"+port)
			require.NoError(t, err)
			defer conn.Close()
			idle = append(idle, conn)
		}
		_ = idle[0].SetReadDeadline(time.Now().Add(2 * time.Second)) // fails only when closed
		_, err := idle[0].Read(make([]byte, 1))
		require.False(t, errors.Is(err, os.ErrDeadlineExceeded), "the oldest is dropped: %v", err)
		ranks := []*single{setOut(t, "exchange", port, 1, 3), setOut(t, "exchange", port, 2, 3)}
		require.Contains(t, host.end(0), "rank 0 of 3")
		for _, r := range ranks {
			r.end(0)
		}
	}
}

// port numbers those that have been tried, from anywhere on.
var port = sync.OnceValue(func() *atomic.Int32 {
	var n atomic.Int32
	n.Store(rand.Int32N(5000))
	return &n
})

// somePort finds a port without a listener, below those that the kernel assigns by itself. No two
// tests get the same, and other packages' tests have other ranges.
func somePort(t testing.TB) string {
	syscall.ForkLock.RLock() // a child that another test forks now would hold the port until it execs
	defer syscall.ForkLock.RUnlock()
	for range 100 {
		number := strconv.Itoa(20000 + int(port().Add(1))%5000)
		if l, err := net.Listen("tcp", "127.0.0.1:"+number); err == nil {
			require.NoError(t, l.Close())
			return number
		}
	}
	t.Fatal("no free port")
	return ""
}
