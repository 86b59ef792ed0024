package launch

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/banyan-hpc/banyan/internal/launch/hosts"
	"github.com/banyan-hpc/banyan/internal/launch/spawn"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// roleProxy is the function of ftbench proxy.
func roleProxy() error { return hosts.Proxy(os.Stdin, os.Stdout, nil) }

// hostsEnv names the host of a rank; for a launcher it means that there are hosts.
const hostsEnv = "BANYAN_TEST_HOST"

// localShell is a remote shell that stays here.
const localShell = "env " + roleEnv + "=proxy " + hostsEnv + "={host}"

// onHosts spreads a job over two hosts, a and b, with so many slots each.
func onHosts(s Spec, slots int) (Spec, error) {
	self, err := os.Executable()
	if err != nil {
		return s, err
	}
	s.Hosts = []hosts.Host{{Name: "a", Slots: slots}, {Name: "b", Slots: slots}}
	s.Proxy = []string{self}
	s.Shell, err = hosts.ParseShell(localShell)
	return s, err
}

// spread is onHosts for tests.
func spread(t *testing.T, s Spec) Spec {
	s, err := onHosts(s, (s.N+1)/2)
	require.NoError(t, err)
	return s
}

// shellOf makes a shell script with arguments host and command… a remote shell.
func shellOf(t *testing.T, text string) hosts.Shell {
	path := filepath.Join(t.TempDir(), "rsh")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\nhost=$1; shift\nexport "+roleEnv+"=proxy "+hostsEnv+"=$host\n"+text+"\n"), 0o755))
	shell, err := hosts.ParseShell(path)
	require.NoError(t, err)
	return shell
}

func TestHostsExchange(t *testing.T) {
	res, out, err := run(t, spread(t, ranks(t, "exchange", 4)))
	require.Empty(t, err)
	require.Zero(t, res.Code)
	for r, end := range res.Ends {
		local, host := "[0 1]", "a"
		if r > 1 {
			local, host = "[2 3]", "b"
		}
		require.Contains(t, out, fmt.Sprintf("rank %d of 4 in %s, local %s\n", r, res.Job, local))
		require.True(t, end.Joined && end.Finalized && !end.Failed())
		require.Equal(t, host, end.Host)
		require.Equal(t, r, end.Rank)
		require.NotZero(t, end.PID)
	}
}

func TestManyHosts(t *testing.T) {
	t.Parallel()
	s := spread(t, ranks(t, "exchange", 2))
	s.Hosts = nil
	for i := range 40 { // more than are started at once
		s.Hosts = append(s.Hosts, hosts.Host{Name: fmt.Sprint("n", i), Slots: 1})
	}
	s.N = 40
	res, out, err := run(t, s)
	require.Empty(t, err)
	require.Zero(t, res.Code)
	require.Equal(t, 40, strings.Count(out, " of 40 in "))
}

func TestHostsEnvironment(t *testing.T) {
	s := spread(t, script(3, `echo "$PMI_RANK of $PMI_SIZE on $BANYAN_TEST_HOST: $BANYAN_LOCAL_RANK/$BANYAN_LOCAL_SIZE,`+
		` $GOGC $BANYAN_X $SECRET $SAID $NODE $BANYAN_NODE $(pwd) $PWD"`))
	s.Env = cleanEnv("GOGC=77", "BANYAN_X=x", "SECRET=no", "SAID=said", "BANYAN_NODE=here")
	s.Export = []string{"SAID", "NODE=given"}
	s.Hosts[1].Env = []string{"BANYAN_NODE=b"}
	s.Dir = t.TempDir()
	res, out, err := run(t, s)
	require.Empty(t, err)
	require.Zero(t, res.Code)
	for _, want := range []string{"0 of 3 on a: 0/2, 77 x said given " + s.Dir, "1 of 3 on a: 1/2, ", "2 of 3 on b: 0/1, 77 x said given b " + s.Dir} {
		require.Contains(t, strings.ReplaceAll(out, "  ", " "), want)
	}
	s.Export = []string{"NOT_SET"}
	_, rerr := Run(context.Background(), s)
	require.ErrorContains(t, rerr, "NOT_SET is to be passed on and is not set")
}

func TestHostsOutput(t *testing.T) {
	s := spread(t, script(4, `seq 20000; printf 'err\n' >&2; printf tail`))
	s.TagOutput = true
	res, out, err := run(t, s)
	for r := range 4 {
		own := regexp.MustCompile(fmt.Sprintf(`(?m)^\[%d\] .*$`, r)).FindAllString(out, -1)
		require.Equal(t, 20001, len(own), "rank %d, %+v, %s, last %q", r, res.Ends, err, own[max(0, len(own)-3):])
		require.Equal(t, fmt.Sprintf("[%d] 20000", r), own[19999])
		require.Equal(t, fmt.Sprintf("[%d] tail", r), own[20000])
		require.Contains(t, err, fmt.Sprintf("[%d] err\n", r))
	}
}

func TestHostsPrompt(t *testing.T) {
	s := spread(t, script(2, `[ $PMI_RANK = 1 ] && exit; printf Name:; read x; echo hello $x; cat; read y; echo over`))
	in, answer, err := os.Pipe()
	require.NoError(t, err)
	defer in.Close()
	var out buffer
	s.Stdin = in
	s.Stdout = writerFunc(func(p []byte) {
		_, _ = out.Write(p)
		if strings.HasSuffix(out.String(), "Name:") {
			_, _ = answer.WriteString("Ada\nmore\n")
			answer.Close()
		}
	})
	res, rerr := Run(context.Background(), s)
	require.NoError(t, rerr)
	require.Zero(t, res.Code)
	require.Equal(t, "Name:hello Ada\nmore\nover\n", out.String())

	// Input that a rank leaves unread holds nothing up.
	s = spread(t, script(2, `[ $PMI_RANK = 0 ] && head -c 5`))
	s.Stdin = strings.NewReader(strings.Repeat("input", 1<<18))
	_, text, _ := run(t, s)
	require.Equal(t, "input", text)
}

func TestHostsEnds(t *testing.T) {
	res, _, err := run(t, spread(t, script(4, "exit $((PMI_RANK * 3 % 5))"))) // 0, 3, 1, 4
	require.Contains(t, []int{3, 1, 4}, res.Code)
	require.Contains(t, err, "rank 1 on a exited with code 3 after ")
	require.Contains(t, err, "rank 3 on b exited with code 4 after ")

	res, out, err := run(t, spread(t, ranks(t, "die", 4)))
	require.Equal(t, 6, strings.Count(out, "fence: launch: rank 2 on b was killed by SIGKILL\n"), out)
	require.Regexp(t, `^banyan: rank 2 on b was killed by SIGKILL after [0-9.]+m?s\n$`, err)
	require.Equal(t, 137, res.Code)

	res, out, _ = run(t, spread(t, ranks(t, "early", 4)))
	require.Equal(t, 3, strings.Count(out, "start-up: launch: rank 2 on b exited with code 127 before it joined\n"), out)
	require.Equal(t, 127, res.Code)

	s := spread(t, ranks(t, "silent", 4))
	s.OnFailure = spawn.Abort
	res, _, err = run(t, s)
	require.Contains(t, err, "banyan: ending the other ranks\n")
	require.Equal(t, 7, res.Code)
	for r, end := range res.Ends {
		require.Equal(t, r != victim, end.Stopped)
	}
}

func TestHostsRanksThatNeverJoin(t *testing.T) {
	t.Parallel() // it waits for the time-out
	s := spread(t, ranks(t, "late", 3))
	s.InitTimeout = 5 * time.Second
	res, out, err := run(t, s)
	require.Equal(t, "start-up: launch: rank 1 on a has not joined within 5s; rank 2 on b has not joined within 5s\n", out)
	require.Contains(t, err, "the start-up has failed, ending the ranks that never joined")
	require.Equal(t, 1, res.Code)
}

func TestHostsPMI(t *testing.T) {
	_, out, err := run(t, spread(t, ranks(t, "garbage", 4)))
	require.Equal(t, 6, strings.Count(out, "fence: launch: rank 2 on b was cut off for a wrong message to the launcher\n"), out)
	require.Contains(t, out, "after garbage: true\n")
	require.Contains(t, err, `rank 2 on b was cut off from the launcher: not PMI-1: "GET" is not key=value`)

	s := spread(t, ranks(t, "abort", 4))
	s.Env = append(s.Env, codeEnv+"=42")
	res, _, err := run(t, s)
	require.Contains(t, err, "banyan: rank 2 on b ends the job with code 42: cannot_go_on\n")
	require.Equal(t, 42, res.Code)
}

func TestHostsSignals(t *testing.T) {
	sigs := make(chan os.Signal)
	s := spread(t, ranks(t, "stubborn", 2))
	s.Signals = sigs
	printed, done := start(s)
	require.Equal(t, "ready", <-printed)
	require.Equal(t, "ready", <-printed)
	sigs <- unix.SIGTERM
	require.Equal(t, "got terminated", <-printed)
	require.Equal(t, "got terminated", <-printed)
	sigs <- unix.SIGINT // the second
	res := <-done
	require.Equal(t, 130, res.Code)
	for _, end := range res.Ends {
		require.Equal(t, unix.SIGKILL, end.Signal)
		require.True(t, end.Stopped)
	}
}

// A proxy that answers nothing does not keep a user from ending the job.
func TestHostsThatHangAreGivenUp(t *testing.T) {
	t.Parallel() // it waits for killGrace
	sigs := make(chan os.Signal)
	var said buffer
	s := spread(t, script(2, `echo $PPID; exec sleep 1000`))
	s.OnFailure, s.Signals, s.Stderr = spawn.Abort, sigs, &said
	printed, done := start(s)
	proxy, err := strconv.Atoi(<-printed)
	require.NoError(t, err)
	<-printed
	require.NoError(t, unix.Kill(proxy, unix.SIGSTOP))
	// Until its last thread has stopped it may still report an end.
	for unix.Waitid(unix.P_PID, proxy, nil, unix.WSTOPPED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	sigs <- unix.SIGINT
	sigs <- unix.SIGINT
	res := <-done
	require.Equal(t, 130, res.Code)
	lost := 0
	for _, end := range res.Ends {
		if end.Lost {
			lost++
		} else {
			require.NotZero(t, end.Signal)
		}
	}
	require.Equal(t, 1, lost)
	require.Regexp(t, "host [ab] is lost: it has not reported within 5s that its ranks are dead .*ends with it", said.String())
}

// The output of a rank on one host is not read; ends and signals pass.
func TestHostsStuckOutput(t *testing.T) {
	t.Parallel()
	out, sigs := newStuck(t), make(chan os.Signal)
	said := make(chan string, 8)
	s := spread(t, script(2, "[ $PMI_RANK = 0 ] && exec yes; read x; exit 3"))
	s.Stdout, s.Signals = out, sigs
	s.Stderr = writerFunc(func(p []byte) { said <- string(p) })
	done := make(chan *Result, 1)
	go func() {
		res, _ := Run(context.Background(), s)
		done <- res
	}()
	<-out.entered
	require.Regexp(t, "rank 1 on b exited with code 3 after ", <-said)
	sigs <- unix.SIGTERM
	sigs <- unix.SIGTERM
	res := <-done
	require.Equal(t, 3, res.Code)
	require.NotZero(t, res.Ends[0].Signal)
	require.Empty(t, said)
}

func TestHostsLauncherKilledContinue(t *testing.T) {
	for _, c := range killLauncher(t, "continue", hostsEnv+"=yes") {
		_, err := c.Write([]byte("go on\n"))
		require.NoError(t, err)
		said := readAll(t, c)
		require.Equal(t, "print: false\nfence: true\nfinalize: <nil>\n", said, "the proxy reads on")
	}
}

func TestHostsLauncherKilledAbort(t *testing.T) {
	for _, c := range killLauncher(t, "abort", hostsEnv+"=yes") {
		require.Empty(t, readAll(t, c)) // ends when the rank does
	}
}

func readAll(t *testing.T, c net.Conn) string {
	var all strings.Builder
	_, err := bufio.NewReader(c).WriteTo(&all)
	if err != nil {
		require.ErrorIs(t, err, unix.ECONNRESET) // a rank that dies with unread words
	}
	return all.String()
}

// killProxy runs a rank on each of two hosts, kills the proxy of the first, and
// returns the ranks' connections, by rank, with how the job ends.
func killProxy(t *testing.T, policy spawn.Policy) (conns [2]net.Conn, said *buffer, done <-chan *Result) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	defer l.Close()
	s := spread(t, ranks(t, "outlive", 2))
	s.Env = append(s.Env, socketEnv+"="+path)
	said = &buffer{}
	lost := make(chan struct{}, 8)
	s.OnFailure, s.Stderr = policy, writerFunc(func(p []byte) { _, _ = said.Write(p); lost <- struct{}{} })
	printed, done := start(s)
	go func() {
		for range printed {
		}
	}()
	var proxy int
	for range 2 {
		c, err := l.Accept()
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		line, err := bufio.NewReader(c).ReadString('\n')
		require.NoError(t, err)
		var rank, parent int
		_, err = fmt.Sscan(line, &rank, &parent)
		require.NoError(t, err)
		if conns[rank] = c; rank == 0 {
			proxy = parent
		}
	}
	require.NotEqual(t, os.Getpid(), proxy)
	require.NoError(t, unix.Kill(proxy, unix.SIGKILL))
	<-lost
	return conns, said, done
}

func TestProxyKilledContinue(t *testing.T) {
	conns, said, done := killProxy(t, spawn.Continue)
	_, err := conns[0].Write([]byte("go on\n"))
	require.NoError(t, err)
	require.Equal(t, "print: true\nfence: true\nfinalize: <nil>\n", readAll(t, conns[0]), "it lives on without launcher")
	_, err = conns[1].Write([]byte("go on\n"))
	require.NoError(t, err)
	require.Equal(t, "print: false\nfence: false\nfinalize: <nil>\n", readAll(t, conns[1]), "it has its launcher")
	res := <-done
	require.Equal(t, 1, res.Code)
	require.True(t, res.Ends[0].Lost)
	require.False(t, res.Ends[1].Failed())
	require.Regexp(t, `^banyan: host a is lost: the remote shell was killed by SIGKILL \(.*\); rank 0, if still running, continues there, alone\n$`, said.String())
}

func TestProxyKilledAbort(t *testing.T) {
	conns, said, done := killProxy(t, spawn.Abort)
	require.Empty(t, readAll(t, conns[0]))
	require.Empty(t, readAll(t, conns[1]))
	res := <-done
	require.Equal(t, 1, res.Code)
	require.True(t, res.Ends[1].Stopped)
	require.Contains(t, said.String(), "host a is lost")
	require.Contains(t, said.String(), "banyan: ending the other ranks\n")
}

func TestHostsNoDescriptorLeaks(t *testing.T) {
	run(t, spread(t, ranks(t, "exchange", 2))) // opens everything that is opened once
	before := openFiles(t)
	for range 3 {
		run(t, spread(t, ranks(t, "die", 4)))
		s := spread(t, script(2, "cat"))
		null, err := os.Open(os.DevNull)
		require.NoError(t, err)
		s.Stdin = null
		run(t, s)
		null.Close()
		s.Shell = shellOf(t, "exit 1")
		_, err = Run(context.Background(), s)
		require.Error(t, err)
	}
	require.Equal(t, before, openFiles(t))
}

func TestHostsBinding(t *testing.T) {
	s := spread(t, ranks(t, "bound", 2))
	s.Bind, s.Hosts[1].FirstCPU = spawn.BindCore, 1
	_, out, _ := run(t, s)
	cpus := regexp.MustCompile(`rank (\d) on \[(\d+)\]`).FindAllStringSubmatch(out, -1)
	require.Len(t, cpus, 2)
	first, err := strconv.Atoi(cpus[0][2])
	require.NoError(t, err)
	second, err := strconv.Atoi(cpus[1][2])
	require.NoError(t, err)
	require.NotEqual(t, first, second, "this machine has two")
}
