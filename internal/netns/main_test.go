package netns

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	// testPrefix keeps the tests' namespaces apart from those of programs.
	testPrefix = "banyantest"
	// without set to 1 lets tests pass that lack the privileges.
	without = "BANYAN_NO_NETNS"
	// role makes a process of this binary do one thing instead of the tests.
	role = "BANYAN_NETNS_TEST_ROLE"
)

func TestMain(m *testing.M) {
	does := os.Getenv(role)
	if does == "" {
		os.Exit(m.Run())
	}
	if err := os.Unsetenv(role); err != nil {
		panic(err)
	}
	play := map[string]func() error{"own": playOwn, "tell": playTell}[does]
	if err := play(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// playOwn opens a network, prints its names and lives until its input ends.
func playOwn() error {
	n, err := Open(Config{Hosts: 2, Prefix: testPrefix})
	if err != nil {
		return err
	}
	fmt.Println(n.bridge.name, n.Name(0), n.Name(1))
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// playTell prints the namespace and the addresses of this process, again for
// each line of input.
func playTell() error {
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		space, err := os.Readlink("/proc/self/ns/net")
		if err != nil {
			return err
		}
		addrs, err := net.InterfaceAddrs()
		if err != nil {
			return err
		}
		fmt.Println(space, addrs)
	}
	return nil
}

// actor is a command that plays a role, with its input and output.
type actor struct {
	*exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func newActor(t *testing.T, does string) *actor {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	a := &actor{Cmd: exec.Command(exe)}
	a.Env = append(os.Environ(), role+"="+does)
	a.Stderr = os.Stderr
	a.in, err = a.StdinPipe()
	require.NoError(t, err)
	out, err := a.StdoutPipe()
	require.NoError(t, err)
	a.out = bufio.NewReader(out)
	return a
}

func (a *actor) line(t *testing.T) string {
	t.Helper()
	s, err := a.out.ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSpace(s)
}

// open makes a network for a test. Without the privileges the test fails, or
// gets nil and returns where the user has asked for that.
func open(t *testing.T, cfg Config) *Net {
	t.Helper()
	if !privilegedTest(t) {
		return nil
	}
	cfg.Prefix = testPrefix
	n, err := Open(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Close()) })
	return n
}

func privilegedTest(t *testing.T) bool {
	t.Helper()
	err := Check()
	if err == nil {
		return true
	}
	if os.Getenv(without) != "1" {
		t.Fatalf("%v\n(%s=1 leaves these tests out)", err, without)
	}
	fmt.Fprintf(os.Stderr, "NOT TESTED: %s: %s=1 and %v\n", t.Name(), without, err)
	return false
}

// patience bounds the wait for expected events: only a test that fails waits so long.
const patience = 30 * time.Second

func listen(t *testing.T, n *Net, host int, addr netip.Addr) *net.TCPListener {
	t.Helper()
	var l *net.TCPListener
	require.NoError(t, n.Do(host, func() (err error) {
		l, err = net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(addr, 0)))
		return err
	}))
	t.Cleanup(func() { _ = l.Close() })
	require.NoError(t, l.SetDeadline(time.Now().Add(patience)))
	return l
}

func dialFor(n *Net, host int, to net.Addr, limit time.Duration) (c net.Conn, err error) {
	err = n.Do(host, func() (err error) {
		c, err = net.DialTimeout("tcp", to.String(), limit)
		return err
	})
	return c, err
}

// connectTo makes a connection from a host to an address of another. An
// unspecified one is listened on and reached by IPv4.
func connectTo(t *testing.T, n *Net, from, to int, addr netip.Addr) (here, there net.Conn) {
	t.Helper()
	l := listen(t, n, to, addr)
	target := l.Addr().(*net.TCPAddr)
	if target.IP.IsUnspecified() {
		target = &net.TCPAddr{IP: n.Addr(to).AsSlice(), Port: target.Port}
	}
	here, err := dialFor(n, from, target, patience)
	require.NoError(t, err)
	there, err = l.Accept()
	require.NoError(t, err)
	for _, c := range []net.Conn{here, there} {
		t.Cleanup(func() { _ = c.Close() })
		require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
	}
	return here, there
}

// talk sends a word each way.
func talk(t *testing.T, a, b net.Conn) {
	t.Helper()
	hear(t, a, b, "there")
	hear(t, b, a, "back")
}

func hear(t *testing.T, from, to net.Conn, word string) {
	t.Helper()
	_, err := io.WriteString(from, word)
	require.NoError(t, err)
	got := make([]byte, len(word))
	_, err = io.ReadFull(to, got)
	require.NoError(t, err)
	require.Equal(t, word, string(got))
}

// threadSpace names the network namespace of the calling thread.
func threadSpace(t *testing.T) string {
	t.Helper()
	s, err := os.Readlink("/proc/thread-self/ns/net")
	require.NoError(t, err)
	return s
}

// timedOut distinguishes silence from an answer.
func timedOut(err error) bool {
	var e net.Error
	return errors.As(err, &e) && e.Timeout()
}

// onThread locks the test to its thread, so that it sees changes of it.
func onThread(t *testing.T) {
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
}
