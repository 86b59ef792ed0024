package peers

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The test binary is its own peer.
const roleEnv = "BANYAN_PEERS_TEST_ROLE"

func TestMain(m *testing.M) {
	role := os.Getenv(roleEnv)
	if role == "" {
		os.Exit(m.Run())
	}
	rank, err := strconv.Atoi(os.Args[2])
	switch {
	case err != nil:
	case role == "control":
		err = ServeControl(os.Args[1], rank)
	case role == "fake":
		err = Serve(os.Args[1], rank, "a fake", func(j Job) (time.Duration, error) {
			switch j.Size {
			case 1:
				return 0, errors.New("no")
			case 2:
				os.Exit(3)
			}
			return time.Duration(j.Iters) * time.Microsecond, nil
		}, Answers{"colour": func() string { return "dark green" }})
	case role == "mute":
		fmt.Println("I have nothing to say")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// self starts this test binary in a role.
func self(role string) func(dir string) []Command {
	return func(dir string) []Command {
		var out []Command
		for rank := range 2 {
			out = append(out, Command{Argv: []string{os.Args[0], dir, strconv.Itoa(rank)},
				Env: []string{roleEnv + "=" + role}, CPU: -1})
		}
		return out
	}
}

func TestServer(t *testing.T) {
	s, err := Start(t.Context(), "fake", self("fake"))
	require.NoError(t, err)
	require.Equal(t, "a fake", s.Words)
	j := Job{Test: Latency, Size: 8, Window: 1, Warmup: 1, Iters: 7}
	for range 3 {
		d, err := s.Run(t.Context(), j)
		require.NoError(t, err)
		require.Equal(t, 7*time.Microsecond, d)
	}
	_, err = s.Run(t.Context(), Job{Test: "dance"})
	require.ErrorContains(t, err, "not a job")
	colour, err := s.Ask(t.Context(), "colour")
	require.NoError(t, err)
	require.Equal(t, "dark green", colour)

	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	j.Size = 2
	_, err = s.Run(cancelled, j)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, s.Close())
	require.NoDirExists(t, s.dir)
}

func TestServerThatFails(t *testing.T) {
	s, err := Start(t.Context(), "fake", self("fake"))
	require.NoError(t, err)
	defer s.Close()
	_, err = s.Run(t.Context(), Job{Test: Latency, Size: 1, Window: 1, Iters: 1})
	require.ErrorContains(t, err, "answered: no")
	require.True(t, s.Broken())
	_, err = s.Run(t.Context(), Job{Test: Latency, Size: 8, Window: 1, Iters: 1})
	require.ErrorContains(t, err, "has failed before")
	_, err = s.Ask(t.Context(), "colour")
	require.ErrorContains(t, err, "has failed before")

	s2, err := Start(t.Context(), "fake", self("fake"))
	require.NoError(t, err)
	defer s2.Close()
	_, err = s2.Ask(t.Context(), "the way")
	require.ErrorContains(t, err, "no process here knows")

	for _, role := range []string{"mute", "fake"} {
		s, err := Start(t.Context(), "x", self(role))
		if role == "mute" {
			require.ErrorContains(t, err, "I have nothing to say")
			continue
		}
		require.NoError(t, err)
		_, err = s.Run(t.Context(), Job{Test: Latency, Size: 2, Window: 1, Iters: 1})
		require.ErrorContains(t, err, "a process has ended")
		require.NoError(t, s.Close())
	}

	_, err = Start(t.Context(), "x", func(string) []Command {
		return []Command{{Argv: []string{"/no/such/program"},
			CPU: -1}}
	})
	require.ErrorContains(t, err, "/no/such/program")
}

func TestControl(t *testing.T) {
	t.Setenv(roleEnv, "control")
	cpus, err := CPUs()
	if err != nil {
		require.ErrorContains(t, err, "two CPUs", "a machine with one CPU is told so")
		return
	}
	c, err := StartControl(t.Context(), cpus,
		func(dir string, rank int) []string { return []string{os.Args[0], dir, strconv.Itoa(rank)} })
	require.NoError(t, err)
	defer c.Close()
	require.Contains(t, c.server.Words, "pinned true")
	for range 4 {
		one, err := c.Measure(t.Context())
		require.NoError(t, err)
		require.Positive(t, one)
		bare, err := c.Run(t.Context(), Job{Test: Bare, Size: 8, Window: 1, Warmup: 100, Iters: 5000})
		require.NoError(t, err)
		t.Logf("control %.3f µs, bare %.3f µs", 1e6*one, 1e6*bare.Seconds()/1e4)
	}
}

// Without the compilers the error names the cure; with them the benchmark runs.
func TestMPI(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	cpus, err := CPUs()
	if err != nil {
		cpus = [2]int{}
	}
	for _, m := range []MPI{OpenMPI, MPICH} {
		t.Run(m.Name, func(t *testing.T) {
			s, err := m.Start(t.Context(), cpus)
			for _, tool := range []string{m.Compiler, m.Launcher} {
				if _, missing := exec.LookPath(tool); missing != nil {
					var e *NotInstalledError
					require.ErrorAs(t, err, &e)
					require.Contains(t, err.Error(), "apt-get install "+m.Packages)
					return
				}
			}
			require.NoError(t, err)
			defer s.Close()
			t.Log(s.Words)
			for _, j := range []Job{
				{Test: Latency, Size: 8, Window: 1, Warmup: 10, Iters: 1000},
				{Test: Bandwidth, Size: 1 << 20, Window: 64, Warmup: 1, Iters: 2},
				{Test: Bandwidth, Size: 0, Window: 1, Iters: 1},
				{Test: Posted, Size: MatchBatch, Window: 1, Iters: 1},
				{Test: Posted, Size: 2000, Window: 1, Warmup: 2, Iters: 20},
				{Test: Unexpected, Size: MatchBatch, Window: 1, Iters: 1},
				{Test: Unexpected, Size: 2000, Window: 1, Warmup: 2, Iters: 20},
				{Test: Latency, Size: 8, Window: 1, Iters: 10},
				{Test: Put, Size: 8, Window: 1, Warmup: 10, Iters: 1000},
				{Test: Get, Size: 0, Window: 1, Iters: 1},
				{Test: Get, Size: 8, Window: 1, Warmup: 10, Iters: 1000},
				{Test: FetchAdd, Size: 8, Window: 1, Warmup: 10, Iters: 1000},
				{Test: LockShared, Window: 1, Warmup: 10, Iters: 1000},
				{Test: LockExclusive, Window: 1, Iters: 10},
				{Test: PutBandwidth, Size: 1 << 20, Window: 64, Warmup: 1, Iters: 2},
				{Test: PutBandwidth, Size: MaxSize, Window: 9, Iters: 1},
				{Test: Latency, Size: 8, Window: 1, Iters: 10},
			} {
				d, err := s.Run(t.Context(), j)
				require.NoError(t, err)
				t.Logf("%s: %.3f µs", j, 1e6*d.Seconds()/j.Messages())
			}
		})
	}
}

func TestMPINotInstalled(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := OpenMPI.Start(t.Context(), [2]int{})
	require.EqualError(t, err, "peers: openmpi is not installed (no mpicc.openmpi in PATH): apt-get install "+
		"openmpi-bin libopenmpi-dev gcc, or make peers")
	_, err = NewUCX([2]int{})
	require.ErrorContains(t, err, "apt-get install ucx-utils")
}

func TestUCX(t *testing.T) {
	cpus, err := CPUs()
	if err != nil {
		cpus = [2]int{}
	}
	u, err := NewUCX(cpus)
	if _, missing := exec.LookPath("ucx_perftest"); missing != nil {
		require.ErrorContains(t, err, "ucx-utils")
		return
	}
	require.NoError(t, err)
	t.Log(u.Words(t.Context()))
	for _, j := range []Job{
		{Test: Latency, Size: 8, Window: 1, Warmup: 10, Iters: 1000},
		{Test: Bandwidth, Size: 4096, Window: 64, Warmup: 1, Iters: 20},
	} {
		d, err := u.Run(t.Context(), j)
		require.NoError(t, err)
		require.Positive(t, d)
		t.Logf("%s: %.3f µs", j, 1e6*d.Seconds()/j.Messages())
	}
}

// two is a Runner whose iterations take a time that a test sets.
type two struct {
	each time.Duration
	jobs []Job
}

func (r *two) Run(_ context.Context, j Job) (time.Duration, error) {
	r.jobs = append(r.jobs, j)
	return time.Duration(j.Iters) * r.each, nil
}

func TestSamplerFindsAndAdapts(t *testing.T) {
	r := &two{each: 100 * time.Nanosecond}
	s := Sampler{Runner: r, Job: Job{Test: Latency, Size: 8, Window: 1}, Target: 20 * time.Millisecond}
	got, err := s.Sample(t.Context())
	require.NoError(t, err)
	require.InDelta(t, 50e-9, got, 1e-12)
	last := r.jobs[len(r.jobs)-1]
	require.InDelta(t, 200_000, last.Iters, 110_000)
	require.Equal(t, last.Iters/10, last.Warmup)

	r.each *= 10 // the distance has changed: this sample is long, the next is not
	got, err = s.Sample(t.Context())
	require.NoError(t, err)
	require.InDelta(t, 500e-9, got, 1e-12)
	_, err = s.Sample(t.Context())
	require.NoError(t, err)
	require.InDelta(t, 20_000, r.jobs[len(r.jobs)-1].Iters, 11_000)

	r.each = 10 * time.Second
	s.Job.Iters = 0
	_, err = s.Sample(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, s.Job.Iters)
	require.Equal(t, 1, r.jobs[len(r.jobs)-1].Warmup, "a window of few is warmed up")

	s.Target, s.Job.Iters = firstIters*r.each, 0 // what is tried first fits
	_, err = s.Sample(t.Context())
	require.NoError(t, err)
	last = r.jobs[len(r.jobs)-1]
	require.Equal(t, []int{firstIters, 1}, []int{last.Iters, last.Warmup})
}

// A rank that starts after the end of the driver ends.
func TestServeWithoutDriver(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"cmd.0", "cmd.1", "reply"} {
		require.NoError(t, unix.Mkfifo(filepath.Join(dir, name), 0o600))
	}
	require.NoError(t, Serve(dir, 1, "late", nil, nil))
	require.ErrorIs(t, Serve(dir, 0, "late", nil, nil), unix.ENXIO)
}

// The command by which Open MPI starts its daemons enters the namespace of an address.
func TestAgentText(t *testing.T) {
	text := agentText([]Host{{"a", netip.MustParseAddr("10.0.0.1")}, {"b", netip.MustParseAddr("10.0.0.2")}})
	agent := filepath.Join(t.TempDir(), "agent")
	require.NoError(t, os.WriteFile(agent, []byte(text), 0o700))
	bin := t.TempDir() // in place of nsenter
	require.NoError(t, os.WriteFile(filepath.Join(bin, "nsenter"), []byte("#!/bin/sh\nfor w; do echo \"$w\"; done\n"), 0o700))
	cmd := exec.Command(agent, "10.0.0.2", "orted", "-x", "1 2")
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	out, err := cmd.Output()
	require.NoError(t, err)
	require.Equal(t, "--net=/run/netns/b\nunshare\n--uts\nsh\n-c\nhostname b; orted -x 1 2\n", string(out))
	out, err = exec.Command(agent, "10.0.0.3", "orted").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "there is no host 10.0.0.3")
}
