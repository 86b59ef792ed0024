package netns

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestHostsReachEachOther(t *testing.T) {
	t.Parallel()
	n := open(t, Config{Hosts: 3, IPv6: true})
	if n == nil {
		return
	}
	require.Equal(t, 3, n.Hosts())
	for from := range 3 {
		for to := range 3 { // itself too
			for _, addr := range []netip.Addr{n.Addr(to), n.Addr6(to)} {
				here, there := connectTo(t, n, from, to, addr)
				talk(t, here, there)
			}
		}
		for _, lo := range []string{"127.0.0.1", "::1"} {
			here, there := connectTo(t, n, from, from, netip.MustParseAddr(lo))
			talk(t, here, there)
		}
	}
}

// A host takes its addresses for its own as soon as Open and LinkUp return: many times, for the
// kernel is late only now and then.
func TestAddressesAreLocalAtOnce(t *testing.T) {
	t.Parallel()
	for range 8 {
		n := open(t, Config{Hosts: 2, IPv6: true})
		if n == nil {
			return
		}
		requireLocal(t, n)
		require.NoError(t, n.LinkDown(1))
		require.NoError(t, n.LinkUp(1))
		requireLocal(t, n)
	}
}

// requireLocal asks the kernel, once, which way it sends to each host's own addresses.
func requireLocal(t *testing.T, n *Net) {
	t.Helper()
	for host, s := range n.hosts {
		for _, p := range n.addresses(host) {
			routes, err := s.route.RouteGet(p.Addr().AsSlice())
			require.NoError(t, err, p)
			require.Len(t, routes, 1, p)
			require.Equal(t, unix.RTN_LOCAL, routes[0].Type, p)
		}
	}
}

func TestHostsAreApart(t *testing.T) {
	t.Parallel()
	a, b := open(t, Config{Hosts: 2}), open(t, Config{Hosts: 1})
	if a == nil || b == nil {
		return
	}
	require.NotEqual(t, a.Addr(0), b.Addr(0))
	require.NotEqual(t, a.Name(0), b.Name(0))
	require.False(t, a.Addr6(0).IsValid())

	// A listener on one host's loopback is on no other's.
	l := listen(t, a, 0, netip.MustParseAddr("127.0.0.1"))
	_, err := dialFor(a, 1, l.Addr(), patience)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)

	// The other network is nowhere.
	l = listen(t, a, 0, a.Addr(0))
	_, err = dialFor(b, 0, l.Addr(), patience)
	require.ErrorIs(t, err, syscall.ENETUNREACH)
}

func TestMachineStaysAsItIs(t *testing.T) {
	before, err := net.Interfaces()
	require.NoError(t, err)
	n := open(t, Config{Hosts: 2, IPv6: true})
	if n == nil {
		return
	}
	require.NoError(t, n.Cut(0, 1))
	after, err := net.Interfaces()
	require.NoError(t, err)
	require.Equal(t, before, after)
}

func TestThreadComesBack(t *testing.T) {
	t.Parallel()
	n := open(t, Config{Hosts: 2})
	if n == nil {
		return
	}
	onThread(t)
	home := threadSpace(t)
	seen := map[string]bool{home: true}
	for h := range 2 {
		require.NoError(t, n.Do(h, func() error { seen[threadSpace(t)] = true; return nil }))
		require.Equal(t, home, threadSpace(t))
	}
	require.Len(t, seen, 3)
	require.ErrorIs(t, n.Do(0, func() error { return io.ErrNoProgress }), io.ErrNoProgress)
	require.Panics(t, func() { _ = n.Do(0, func() error { panic("in fn") }) })
	require.Equal(t, home, threadSpace(t))
	require.ErrorContains(t, n.Do(2, nil), "host 2 is not within 0…1")
	require.ErrorContains(t, n.Do(-1, nil), "host -1")
}

// A command runs on its host, and one with Pdeathsig lives on after Start: its
// parent thread is the caller's.
func TestStart(t *testing.T) {
	t.Parallel()
	n := open(t, Config{Hosts: 2, IPv6: true})
	if n == nil {
		return
	}
	onThread(t)
	for h := range 2 {
		a := newActor(t, "tell")
		a.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		require.NoError(t, n.Start(h, a.Cmd))
		var space unix.Stat_t
		require.NoError(t, unix.Stat(filepath.Join(runDir, n.Name(h)), &space))
		for range 2 {
			_, err := io.WriteString(a.in, "\n")
			require.NoError(t, err)
			told := a.line(t)
			require.Contains(t, told, fmt.Sprintf("net:[%d]", space.Ino))
			for _, addr := range []string{"127.0.0.1/8", n.Addr(h).String() + "/24", n.Addr6(h).String() + "/64"} {
				require.Contains(t, told, addr)
			}
		}
		require.NoError(t, a.in.Close())
		require.NoError(t, a.Wait())
	}
}

func TestClose(t *testing.T) {
	if !privilegedTest(t) {
		return
	}
	open := func() int {
		fds, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		return len(fds)
	}
	before := open()
	n, err := Open(Config{Hosts: 3, Prefix: testPrefix, IPv6: true, RateMbit: 1000})
	require.NoError(t, err)
	names := []string{n.bridge.name, n.Name(0), n.Name(1), n.Name(2)}
	for _, name := range names {
		var fs unix.Statfs_t // iproute2 recognizes a namespace by it
		require.NoError(t, unix.Statfs(filepath.Join(runDir, name), &fs))
		require.EqualValues(t, unix.NSFS_MAGIC, fs.Type)
	}
	require.NoError(t, n.Isolate(0))
	_, err = n.KillConnections(0)
	require.NoError(t, err)
	require.NoError(t, n.Close())
	requireGone(t, names)
	require.Equal(t, before, open())

	require.NoError(t, n.Close())
	require.ErrorIs(t, n.Do(0, func() error { return nil }), os.ErrClosed)
	require.ErrorIs(t, n.Cut(0, 1), os.ErrClosed)
	require.ErrorIs(t, n.LinkUp(0), os.ErrClosed)
	require.ErrorIs(t, n.Heal(), os.ErrClosed)
	_, err = n.KillConnections(0)
	require.ErrorIs(t, err, os.ErrClosed)
	require.NotEmpty(t, n.Name(0)) // the name stays
}

// requireGone: neither files nor mounts are left of namespaces.
func requireGone(t *testing.T, names []string) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(t, err)
	for _, name := range names {
		require.NoFileExists(t, filepath.Join(runDir, name))
		require.NotContains(t, string(mounts), name)
	}
}

// A rate bounds the data that one host sends, and those that many send to one.
func TestRate(t *testing.T) {
	t.Parallel()
	const mbit, size = 40, 1 << 20
	n := open(t, Config{Hosts: 3, RateMbit: mbit})
	if n == nil {
		return
	}
	_, port := connectTo(t, n, 0, 1, n.Addr(1)) // so that the links are known to work
	_ = port.Close()
	for _, senders := range [][]int{{0, 0}, {0, 2}} {
		var done sync.WaitGroup
		begin := time.Now()
		for _, from := range senders {
			here, there := connectTo(t, n, from, 1, n.Addr(1))
			done.Go(func() {
				_, _ = here.Write(make([]byte, size))
				_ = here.Close()
			})
			done.Go(func() {
				if got, err := io.Copy(io.Discard, there); err != nil || got != size {
					t.Errorf("received %d bytes: %v", got, err)
				}
			})
		}
		done.Wait()
		least := time.Duration(len(senders)*size) * 8 * time.Second / (mbit * 1e6)
		took := time.Since(begin)
		t.Logf("from %v: %v, at %d Mbit/s at least %v", senders, took, mbit, least)
		require.Greater(t, took, least*9/10)
	}
}

// Either the delay is there, or the error names the missing feature of the kernel and everything
// made by then has been removed.
func TestDelay(t *testing.T) {
	if !privilegedTest(t) {
		return
	}
	const delay = 20 * time.Millisecond
	n, err := Open(Config{Hosts: 2, Prefix: testPrefix, DelayUs: int(delay / time.Microsecond)})
	if err != nil {
		require.ErrorIs(t, err, ErrKernel)
		require.ErrorContains(t, err, "CONFIG_NET_SCH_NETEM")
		requireNoneOfPid(t, os.Getpid())
		return
	}
	defer func() { require.NoError(t, n.Close()) }()
	here, there := connectTo(t, n, 0, 1, n.Addr(1))
	begin := time.Now()
	talk(t, here, there)
	require.GreaterOrEqual(t, time.Since(begin), 2*delay)
}

func requireNoneOfPid(t *testing.T, pid int) {
	t.Helper()
	found, err := labels()
	require.NoError(t, err)
	for _, l := range found {
		require.NotEqual(t, pid, l.pid, "%s is left", l)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(t, err)
	require.NotContains(t, string(mounts), fmt.Sprintf("%s-%d-", testPrefix, pid))
}

func TestConfigIsChecked(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{}, "Hosts is 0"},
		{Config{Hosts: MaxHosts + 1}, "Hosts is 251"},
		{Config{Hosts: 1, RateMbit: -1}, "RateMbit is -1"},
		{Config{Hosts: 1, DelayUs: MaxDelayUs + 1}, "DelayUs is"},
		{Config{Hosts: 1, MTU: 576}, "MTU is 576"},
		{Config{Hosts: 1, Prefix: "a-b"}, `prefix "a-b"`},
		{Config{Hosts: 1, Prefix: "../x"}, `prefix "../x"`},
	} {
		_, err := Open(c.cfg)
		require.ErrorContains(t, err, c.want)
	}
}

// The error names a missing privilege, and the way to get it.
func TestCheckNamesTheCure(t *testing.T) {
	for name, dropped := range map[string]uint{"CAP_SYS_ADMIN": unix.CAP_SYS_ADMIN, "CAP_NET_ADMIN": unix.CAP_NET_ADMIN} {
		answer := make(chan error, 1)
		go func() {
			runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
			have := [2]unix.CapUserData{}
			header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
			err := unix.Capget(&header, &have[0])
			have[0].Effective = have[0].Permitted &^ (1 << dropped)
			if err = errors.Join(err, unix.Capset(&header, &have[0])); err != nil {
				answer <- err
				return
			}
			_, err = Open(Config{Hosts: 1, Prefix: testPrefix})
			answer <- err
		}()
		err := <-answer
		require.ErrorIs(t, err, ErrPrivilege)
		require.ErrorContains(t, err, "unshare -Urnm")
		if os.Geteuid() == 0 {
			require.ErrorContains(t, err, "no "+name)
		}
	}
}

// Everything at once, for the race detector; afterwards all is whole.
func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	const hosts = 4
	n := open(t, Config{Hosts: hosts, IPv6: true})
	if n == nil {
		return
	}
	var all sync.WaitGroup
	for h := range hosts {
		peer := (h + 1) % hosts
		for _, call := range []func() error{
			func() error { return n.Cut(h, peer) },
			func() error { return n.Isolate(h) },
			func() error { return n.LinkDown(h) },
			func() error { return n.LinkUp(h) },
			n.Heal,
			func() error { _, err := n.KillConnections(h); return err },
			func() error {
				return n.Do(h, func() error {
					addrs, err := net.InterfaceAddrs()
					if !strings.Contains(fmt.Sprint(addrs), n.Addr(h).String()) {
						t.Errorf("host %d has %v", h, addrs)
					}
					return err
				})
			},
		} {
			all.Go(func() {
				for range 10 {
					if err := call(); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	all.Wait()
	require.NoError(t, n.Heal())
	here, there := connectTo(t, n, 0, hosts-1, n.Addr6(hosts-1))
	talk(t, here, there)
}
