package intrusion_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/exits/agent"
	"github.com/banyan-hpc/banyan/internal/exits/hook"
	"github.com/banyan-hpc/banyan/internal/intrusion"
)

const (
	roleEnv = "BANYAN_INTRUSION_TEST_ROLE"
	// noBPF closes out the tests of the agent where it cannot run.
	noBPF = "BANYAN_NO_BPF"
	// ranks and crowd are those of the bound: a job of eight, a thousand intrusion.
	ranks = 8
	crowd = 1000
)

func TestMain(m *testing.M) {
	roles := map[string]func() error{"rank": playRank, "flood": playFlood}
	if role := os.Getenv(roleEnv); role != "" {
		if err := roles[role](); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", role, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// playRank joins the job, passes a barrier, and reports it.
func playRank() error {
	w, err := banyan.Init()
	if err != nil {
		return err
	}
	if err := w.Comm().Barrier(); err != nil {
		return err
	}
	fmt.Println("ready")
	return w.Finalize()
}

// playFlood floods the port of a Config that it reads, or all ports of the user in PORTS_OF, until its
// input ends.
func playFlood() error {
	in := bufio.NewReader(os.Stdin)
	var c intrusion.Config
	line, err := in.ReadBytes('\n')
	if err != nil {
		return err
	}
	if err := json.Unmarshal(line, &c); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, in)
		stop()
	}()
	fmt.Println("here")
	if user := os.Getenv("PORTS_OF"); user != "" {
		return floodPorts(ctx, c, user)
	}
	_, err = intrusion.Run(ctx, c)
	return err
}

// floodPorts finds the ports on which a user listens as they are opened, and divides the crowd
// among the ranks'.
func floodPorts(ctx context.Context, c intrusion.Config, user string) error {
	c.Held /= ranks
	c.Rate /= ranks
	var floods sync.WaitGroup
	defer floods.Wait()
	looks := time.NewTicker(2 * time.Millisecond)
	defer looks.Stop()
	for known := map[uint16]bool{}; ctx.Err() == nil; <-looks.C {
		table, err := os.ReadFile("/proc/net/tcp")
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(table)) {
			f := strings.Fields(line)
			if len(f) < 10 || f[3] != "0A" || f[7] != user {
				continue
			}
			var ip uint32
			var port uint16
			if _, err := fmt.Sscanf(f[1], "%08X:%04X", &ip, &port); err != nil {
				return err
			}
			if known[port] {
				continue
			}
			known[port] = true
			at := c
			at.To = netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port)
			floods.Go(func() { _, _ = intrusion.Run(ctx, at) }) // the Config has been checked
		}
	}
	return nil
}

// user gives a process another uid than the test's, where the test may.
func user(id uint32) *syscall.SysProcAttr {
	if os.Geteuid() != 0 {
		return nil
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: id, Gid: id}}
}

const (
	ranksUser = 65533
	floodUser = 65534
)

// actor is a process of this program in a role.
type actor struct {
	*exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	errs strings.Builder
}

func begin(t testing.TB, role string, who uint32, env ...string) *actor {
	t.Helper()
	a := &actor{Cmd: exec.Command("/proc/self/exe")}
	a.Env = append(os.Environ(), append([]string{roleEnv + "=" + role, "HOME=/"}, env...)...)
	a.SysProcAttr, a.Stderr = user(who), &a.errs
	var err error
	a.in, err = a.StdinPipe()
	require.NoError(t, err)
	out, err := a.StdoutPipe()
	require.NoError(t, err)
	a.out = bufio.NewReader(out)
	require.NoError(t, a.Start())
	t.Cleanup(func() {
		if a.ProcessState == nil {
			_ = a.Process.Kill()
			_ = a.Wait()
		}
	})
	return a
}

func (a *actor) expect(t testing.TB, want string) {
	t.Helper()
	said, err := a.out.ReadString('\n')
	if err != nil {
		_ = a.Wait()
	}
	require.NoError(t, err, a.errs.String())
	require.Equal(t, want+"\n", said)
}

// end waits for a process that ends well.
func (a *actor) end(t testing.TB) {
	t.Helper()
	a.in.Close()
	require.NoError(t, a.Wait(), a.errs.String())
}

// target is where the connections are made.
type target struct {
	name string
	kind intrusion.Kind
	to   func(t testing.TB, c *intrusion.Config, port uint16) (env []string)
	job  []string           // more of the ranks' environment
	done func(t testing.TB) // checks the target when the job has started
}

func atMaster(_ testing.TB, c *intrusion.Config, port uint16) []string {
	c.To = netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port)
	return nil
}

func atRanks(testing.TB, *intrusion.Config, uint16) []string {
	return []string{fmt.Sprintf("PORTS_OF=%d", ranksUser)}
}

// targets are all of them. a is an agent, or nil.
func targets(a *keeper) (all []target) {
	kinds := []intrusion.Kind{intrusion.Silent, intrusion.Slow, intrusion.Babbling}
	for _, k := range kinds {
		all = append(all,
			target{"master/" + k.String(), k, atMaster, nil, nil},
			target{"ranks/" + k.String(), k, atRanks, []string{"BANYAN_FABRIC=tcp"}, nil})
		if a != nil {
			atAgent := func(_ testing.TB, c *intrusion.Config, _ uint16) []string { c.Path = a.path; return nil }
			all = append(all, target{"agent/" + k.String(), k, atAgent, []string{"BANYAN_EXITS=" + a.path}, a.served})
		}
	}
	return all
}

// start starts a job and returns the time from rank 0 at its port to the end of the first barrier. A
// flood is there first, or comes as the ports are opened.
func (s *target) start(t testing.TB, secret string, flooded bool) time.Duration {
	port := freePort(t)
	job := append([]string{
		fmt.Sprintf("WORLD_SIZE=%d", ranks), fmt.Sprintf("MASTER_PORT=%d", port), "MASTER_ADDR=127.0.0.1",
		"BANYAN_INIT_TIMEOUT=25s", "BANYAN_SECRET_FILE=" + secret,
	}, s.job...)
	var flooder *actor
	all := []*actor{begin(t, "rank", ranksUser, append(job, "RANK=0")...)}
	awaitListener(t, port)
	if flooded {
		c := intrusion.Config{Kinds: []intrusion.Kind{s.kind}, Held: crowd, Rate: crowd, ByteEvery: time.Second}
		env := s.to(t, &c, port)
		flooder = begin(t, "flood", floodUser, env...)
		require.NoError(t, json.NewEncoder(flooder.in).Encode(c))
		flooder.expect(t, "here")
		if c.To.IsValid() {
			awaitCrowd(t, port)
		}
	}
	from := time.Now()
	for r := 1; r < ranks; r++ {
		all = append(all, begin(t, "rank", ranksUser, append(job, "RANK="+strconv.Itoa(r))...))
	}
	for _, a := range all {
		a.expect(t, "ready")
	}
	took := time.Since(from)
	if s.done != nil {
		s.done(t)
	}
	for _, a := range all {
		a.end(t)
	}
	if flooder != nil {
		flooder.end(t)
	}
	return took
}

func freePort(t testing.TB) uint16 {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return uint16(l.Addr().(*net.TCPAddr).Port)
}

// rows are the entries of the kernel's table of TCP sockets for a local port on the loopback, in a
// state.
func rows(t testing.TB, port uint16, state string) (n int) {
	table, err := os.ReadFile("/proc/net/tcp")
	require.NoError(t, err)
	local := fmt.Sprintf("0100007F:%04X", port)
	for line := range strings.Lines(string(table)) {
		if f := strings.Fields(line); len(f) > 3 && f[1] == local && f[3] == state {
			n++
		}
	}
	return n
}

func awaitListener(t testing.TB, port uint16) {
	require.Eventually(t, func() bool { return rows(t, port, "0A") > 0 }, time.Minute, time.Millisecond)
}

// awaitCrowd waits for a hundred connections. All may never be open at once: the oldest are dropped.
func awaitCrowd(t testing.TB, port uint16) {
	require.Eventually(t, func() bool { return rows(t, port, "01") >= 100 }, time.Minute, time.Millisecond)
}

// secretFile makes one that the ranks may read.
func secretFile(t testing.TB) string {
	dir, err := os.MkdirTemp("", "intrusion")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	name := filepath.Join(dir, "secret")
	require.NoError(t, os.WriteFile(name, []byte("thirty-two bytes that no one else\n"), 0o600))
	if os.Geteuid() == 0 {
		require.NoError(t, os.Chmod(dir, 0o755))
		require.NoError(t, os.Chown(name, ranksUser, ranksUser))
	}
	return name
}

// keeper is an agent at a socket.
type keeper struct {
	path       string
	registered atomic.Int32 // processes of the ranks' user, since the last job
}

// served requires that the agent has registered all ranks of a job.
func (k *keeper) served(t testing.TB) { require.EqualValues(t, ranks, k.registered.Swap(0)) }

// serveAgent runs an agent until the test ends; nil where the kernel does not let it.
func serveAgent(t testing.TB) *keeper {
	if ok, why := hook.Available(); !ok {
		if os.Getenv(noBPF) == "" {
			require.Fail(t, "no agent can run", "%s\n(%s=1 closes it out)", why, noBPF)
		}
		return nil
	}
	dir, err := os.MkdirTemp("", "agent")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	k := &keeper{path: filepath.Join(dir, "agent")}
	l, err := agent.Listen(k.path)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- agent.Serve(ctx, l, func() { close(ready) }, func(e agent.Event) {
			if e.Err == nil && (os.Geteuid() != 0 || e.User == ranksUser) {
				k.registered.Add(1)
			}
		})
	}()
	<-ready
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-done)
		require.NoError(t, os.RemoveAll(dir))
	})
	return k
}

// A job starts while its ports, or the agent of its node, hold a thousand connections of another user,
// silent, slow or babbling. Only a job that does not start fails here; BenchmarkStart measures.
func TestStart(t *testing.T) {
	secret := secretFile(t)
	for _, s := range targets(serveAgent(t)) {
		t.Run(s.name, func(t *testing.T) { s.start(t, secret, true) })
	}
}

// BenchmarkStart is the time of a start during a flood over that without one, the median of b.N pairs:
//
//	go test -run '^$' -bench Start -benchtime 9x ./internal/intrusion
func BenchmarkStart(b *testing.B) {
	secret := secretFile(b)
	for _, s := range targets(serveAgent(b)) {
		b.Run(s.name, func(b *testing.B) {
			var ratios, usual []float64
			for range b.N {
				without := s.start(b, secret, false)
				with := s.start(b, secret, true)
				ratios = append(ratios, with.Seconds()/without.Seconds())
				usual = append(usual, 1e3*without.Seconds())
			}
			slices.Sort(ratios)
			slices.Sort(usual)
			b.ReportMetric(ratios[len(ratios)/2], "x")
			b.ReportMetric(ratios[len(ratios)-1], "x-max")
			b.ReportMetric(usual[len(usual)/2], "usual-ms")
			b.ReportMetric(0, "ns/op")
		})
	}
}
