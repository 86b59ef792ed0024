package agent

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/internal/exits"
	"github.com/banyan-hpc/banyan/internal/exits/hook"
)

const (
	without = "BANYAN_NO_BPF"
	role    = "BANYAN_AGENT_TEST_ROLE"
	where   = "BANYAN_AGENT_TEST_ADDRESS"
	files   = "BANYAN_AGENT_TEST_FILES" // the limit of the agent's open files, if it is set
	// patienceMs bounds the wait for expected events: only a test that fails waits so long.
	patienceMs = 30_000
)

func TestMain(m *testing.M) {
	does := os.Getenv(role)
	if does == "" {
		os.Exit(m.Run())
	}
	if err := os.Unsetenv(role); err != nil {
		panic(err)
	}
	if err := map[string]func() error{"rank": playRank, "agent": playAgent, "parent": playParent, "impostor": playImpostor, "full": playFull, "idle": playIdle}[does](); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// playRank registers itself, prints its pid as it knows it, and then how others
// have ended whose pids it reads.
func playRank() error {
	tab, err := exits.Dial(os.Getenv(where))
	if err != nil {
		return err
	}
	fmt.Println(os.Getpid(), tab.Watched(os.Getpid()))
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		pid, err := strconv.Atoi(in.Text())
		if err != nil {
			return err
		}
		fmt.Println(await(tab, pid))
	}
	return tab.Close()
}

// playParent starts a rank below itself, kills it, and prints the entries of the log, all in the
// pid namespace whose first process it is.
func playParent() error {
	tab, err := exits.Dial(os.Getenv(where))
	if err != nil {
		return err
	}
	child := exec.Command("/proc/self/exe")
	child.Env = append(os.Environ(), role+"=rank")
	in, err := child.StdinPipe()
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := child.StdoutPipe()
	if err != nil {
		return err
	}
	if err := child.Start(); err != nil {
		return err
	}
	said, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return err
	}
	if !strings.HasPrefix(said, strconv.Itoa(child.Process.Pid)+" ") {
		return fmt.Errorf("child %d says %q", child.Process.Pid, said)
	}
	if _, ended := tab.Ended(child.Process.Pid); ended {
		return errors.New("the child has ended too early")
	}
	if err := child.Process.Kill(); err != nil {
		return err
	}
	fmt.Println(os.Getpid(), await(tab, child.Process.Pid))
	return nil
}

func playAgent() error {
	if most, err := strconv.ParseUint(os.Getenv(files), 10, 64); err == nil {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: most, Max: most}); err != nil {
			return err
		}
	}
	l, err := Listen(os.Getenv(where))
	if err != nil {
		return err
	}
	return Serve(context.Background(), l, func() { fmt.Println("ready") }, func(e Event) {
		if e.Err != nil {
			fmt.Println(e)
		}
	})
}

// playImpostor listens as an agent does.
func playImpostor() error {
	l, err := Listen(os.Getenv(where))
	if err != nil {
		return err
	}
	fmt.Println("listening")
	_, err = l.Accept()
	return err
}

// playFull listens as an agent does, and has its queue full.
func playFull() error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	to := &unix.SockaddrUnix{Name: os.Getenv(where)}
	if err := errors.Join(unix.Bind(fd, to), unix.Listen(fd, 0)); err != nil {
		return err
	}
	if _, err := net.Dial("unixpacket", to.Name); err != nil {
		return err
	}
	fmt.Println("listening")
	_, err = os.Stdin.Read(make([]byte, 1))
	return err
}

// playIdle has as many connections as it gets and sends nothing on them.
func playIdle() error {
	const many = 800
	for range many {
		if _, err := net.Dial("unixpacket", os.Getenv(where)); err != nil {
			return err
		}
	}
	fmt.Println("idle")
	_, err := os.Stdin.Read(make([]byte, 1))
	return err
}

// await is the word about an end.
func await(tab *exits.Table, pid int) string {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return err.Error()
	}
	defer unix.Close(epoll)
	if err := unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, tab.FD(), &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET}); err != nil {
		return err.Error()
	}
	for {
		if cause, ended := tab.Ended(pid); ended {
			return cause.String()
		}
		n, err := unix.EpollWait(epoll, make([]unix.EpollEvent, 1), patienceMs)
		if n == 0 || err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Sprintf("nothing is told: %v", err)
		}
	}
}

// privileged reports whether agents can run. If not, the test fails, or returns
// where the user has asked for that.
func privileged(t *testing.T) bool {
	t.Helper()
	ok, why := hook.Available()
	if !ok && os.Getenv(without) == "1" {
		fmt.Fprintf(os.Stderr, "NOT TESTED: %s: %s=1 and %s\n", t.Name(), without, why)
		return false
	}
	require.True(t, ok, "%s\n(%s=1 leaves these tests out)", why, without)
	return true
}

// serve runs an agent in this process.
func serve(t *testing.T) (address string, events <-chan Event) {
	t.Helper()
	address = "@" + t.Name() + strconv.Itoa(os.Getpid())
	l, err := Listen(address)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ready, done, happened := make(chan struct{}), make(chan error, 1), make(chan Event, 1000)
	go func() {
		done <- Serve(ctx, l, func() { close(ready) }, func(e Event) { happened <- e })
	}()
	<-ready
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-done)
	})
	return address, happened
}

// actor is a process with its input and output.
type actor struct {
	*exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func start(t *testing.T, does, address string, attr *syscall.SysProcAttr) *actor {
	t.Helper()
	a := &actor{Cmd: exec.Command("/proc/self/exe")}
	a.Env = append(os.Environ(), role+"="+does, where+"="+address)
	a.Stderr, a.SysProcAttr = os.Stderr, attr
	var err error
	a.in, err = a.StdinPipe()
	require.NoError(t, err)
	out, err := a.StdoutPipe()
	require.NoError(t, err)
	a.out = bufio.NewReader(out)
	require.NoError(t, a.Start())
	t.Cleanup(func() {
		_ = a.Process.Kill()
		_ = a.Wait()
	})
	return a
}

func (a *actor) line(t *testing.T) string {
	t.Helper()
	s, err := a.out.ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSpace(s)
}

func (a *actor) ask(t *testing.T, pid int) {
	t.Helper()
	_, err := a.in.Write([]byte(strconv.Itoa(pid) + "\n"))
	require.NoError(t, err)
}

var nobody = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}

func TestRanks(t *testing.T) {
	if !privileged(t) {
		return
	}
	address, events := serve(t)
	var ranks []*actor
	for range 3 {
		r := start(t, "rank", address, nobody)
		require.Equal(t, fmt.Sprint(r.Process.Pid, " true"), r.line(t))
		require.Equal(t, Event{PID: r.Process.Pid, User: 65534}, <-events)
		ranks = append(ranks, r)
	}
	for _, r := range ranks[1:] {
		r.ask(t, ranks[0].Process.Pid)
	}
	require.NoError(t, ranks[0].Process.Kill())
	for _, r := range ranks[1:] {
		require.Equal(t, "killed by SIGKILL", r.line(t))
	}
	ranks[1].ask(t, ranks[2].Process.Pid)
	require.NoError(t, ranks[2].in.Close())
	require.Equal(t, "exited with code 0 without finalizing", ranks[1].line(t))
}

// Ranks in a pid namespace of their own know each other by other pids than the
// agent does.
func TestRanksInNamespace(t *testing.T) {
	if !privileged(t) {
		return
	}
	address, _ := serve(t)
	p := start(t, "parent", address, &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID})
	require.Equal(t, "1 killed by SIGKILL", p.line(t))
}

// Ranks that have their descriptors do without the agent.
func TestAgentKilled(t *testing.T) {
	if !privileged(t) {
		return
	}
	address := filepath.Join(t.TempDir(), "agent")
	a := start(t, "agent", address, nil)
	require.Equal(t, "ready", a.line(t))
	x, y := start(t, "rank", address, nil), start(t, "rank", address, nil)
	for _, r := range []*actor{x, y} {
		require.Equal(t, fmt.Sprint(r.Process.Pid, " true"), r.line(t))
	}
	require.NoError(t, a.Process.Kill())
	require.NoError(t, unix.Waitid(unix.P_PID, a.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil))
	x.ask(t, y.Process.Pid)
	require.NoError(t, y.Process.Kill())
	require.Equal(t, "killed by SIGKILL", x.line(t))
	_, err := exits.Dial(address)
	require.ErrorIs(t, err, exits.ErrNone)

	// Its socket is left behind, and the next agent takes the place.
	b := start(t, "agent", address, nil)
	require.Equal(t, "ready", b.line(t))
	c := start(t, "agent", address, nil)
	require.Contains(t, c.line(t), "an agent runs already")
}

func TestStrangerIsRefused(t *testing.T) {
	if !privileged(t) {
		return
	}
	address, events := serve(t)
	conn, err := net.Dial("unixpacket", address)
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Write([]byte("hello"))
	require.NoError(t, err)
	require.ErrorContains(t, (<-events).Err, "another version")
	said := make([]byte, exits.TextMax)
	n, err := conn.Read(said)
	require.NoError(t, err)
	require.Contains(t, string(said[:n]), "one build")
}

// An agent of another user could send false data: it is not accepted.
func TestAgentOfAnotherUser(t *testing.T) {
	if !privileged(t) {
		return
	}
	address := "@" + t.Name() + strconv.Itoa(os.Getpid())
	a := start(t, "impostor", address, nobody)
	require.Equal(t, "listening", a.line(t))
	other := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65533, Gid: 65533}}
	require.Contains(t, start(t, "rank", address, other).line(t), "runs as user 65534: only one of root or of user 65533 is believed")
}

// Nor can it delay the processes of others by keeping its queue full: they do without. An agent that finds it in
// its place reports its user.
func TestFullQueueOfAnotherUser(t *testing.T) {
	if !privileged(t) {
		return
	}
	address := "@" + t.Name() + strconv.Itoa(os.Getpid())
	a := start(t, "full", address, nobody)
	require.Equal(t, "listening", a.line(t))
	require.Contains(t, start(t, "rank", address, nil).line(t), "its queue is full")
	_, err := Listen(address)
	require.ErrorContains(t, err, "is taken: by a process that takes no connections")

	address += "b"
	a = start(t, "impostor", address, nobody)
	require.Equal(t, "listening", a.line(t))
	_, err = Listen(address)
	require.ErrorContains(t, err, fmt.Sprintf("is taken: by process %d of user 65534, which no other user trusts", a.Process.Pid))
}

// A user's idle connections make way for each other, and do not keep other users out.
func TestIdleConnectionsOfAnotherUser(t *testing.T) {
	if !privileged(t) {
		return
	}
	address, events := serve(t)
	idle := start(t, "idle", address, nobody)
	require.Equal(t, "idle", idle.line(t))
	r := start(t, "rank", address, nil)
	require.Equal(t, fmt.Sprint(r.Process.Pid, " true"), r.line(t))
	require.Equal(t, Event{PID: r.Process.Pid}, <-events, "and there is no line for each that was dropped")
	own := start(t, "rank", address, nobody)
	require.Equal(t, fmt.Sprint(own.Process.Pid, " true"), own.line(t))
}
