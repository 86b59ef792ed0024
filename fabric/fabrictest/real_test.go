package fabrictest

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// TestMain makes this test binary one that [Real] can start: each process is alone on a memNet of
// its own, which is enough for the driver's tests.
func TestMain(m *testing.M) {
	ownCases = driverCases
	Main(m, func(id proc.ID, n int) (fabric.Provider, fabric.Host, error) {
		net := &memNet{job: Job{N: n}, seen: make(map[signal]bool), deadlines: make(map[*fabric.Time]bool)}
		net.cond.L = &net.mu
		net.activities = 1
		for i := range n {
			net.procs = append(net.procs, &memProc{net: net, id: proc.ID(i), out: make(map[proc.ID]*memConn)})
		}
		return net.procs[id], memHost{net.procs[id]}, nil
	})
}

var driverCases = []Case{
	{Name: "fine", N: 3, Body: func(e *Env) {
		e.Control.Signal("here")
		e.Others(func(id proc.ID) { e.Control.Await(id, "here") })
		e.Record("seed", int64(e.Job.Seed), int64(e.Arg("count")))
	}},
	{Name: "all ends", N: 4, Body: func(e *Env) {
		e.Record("here")
		switch e.ID {
		case 0:
			e.Die()
		case 1:
			e.Exit(5)
		default:
			e.Control.Await(0, SignalEnded)
			e.Check(!e.Control.Seen(0, "never given"), "a signal from nowhere")
		}
	}},
	{Name: "dies against orders", N: 1, Body: func(e *Env) { e.Control.Die() }},
	{Name: "complains", N: 2, Body: func(e *Env) {
		if e.ID == 0 {
			e.Fail("the number %d is wrong", 7)
		}
		e.Control.Await(0, "what never comes")
		select {} // until the driver ends the job
	}},
	{Name: "panics", N: 1, Body: func(e *Env) { _ = []int{}[e.Arg("none")] }},
	{Name: "victim", N: 1, Victims: []proc.ID{0}, Body: func(e *Env) {
		e.Record("here")
		e.Control.Signal(SignalStarted)
		select {}
	}},
	{Name: "hangs", N: 2, Body: func(e *Env) {
		e.place.set(forCredit, 1-e.ID)
		e.Control.Await(1-e.ID, "what never comes")
	}},
	{Name: "leaks a descriptor", N: 1, Body: func(*Env) { _, _ = syscall.Dup(1) }},
	{Name: "leaks a goroutine", N: 1, Body: func(*Env) { go func() { select {} }() }},
	{Name: "leaks a mapping", N: 1, Body: func(*Env) {
		_, _ = syscall.Mmap(-1, 0, 4096, syscall.PROT_READ, syscall.MAP_ANON|syscall.MAP_SHARED)
	}},
	{Name: "leaks a file", N: 1, Body: func(*Env) { _ = os.WriteFile(leakedFile(), nil, 0o600) }},
}

// leakDir is named after the test binary, the parent of all the processes. It replaces /dev/shm,
// which other drivers' tests may read at the same time.
func leakDir() string {
	pid := os.Getpid()
	if IsChild() {
		pid = os.Getppid()
	}
	return filepath.Join(os.TempDir(), fmt.Sprint("banyan-fabrictest-", pid))
}

func leakedFile() string { return filepath.Join(leakDir(), "left") }

func runOwn(t *testing.T, name string) ([]Outcome, error) {
	t.Helper()
	c, err := findCase(name)
	require.NoError(t, err)
	job := Job{Case: name, N: c.N, Seed: 42, Victims: c.Victims, Args: map[string]int64{"count": 3}}
	outs, err := NewReal().Run(job)
	require.Len(t, outs, c.N)
	return outs, err
}

func TestRealRunsAndRecords(t *testing.T) {
	outs, err := runOwn(t, "fine")
	require.NoError(t, err)
	for i, o := range outs {
		require.Equal(t, proc.ID(i), o.ID)
		require.Equal(t, End{Kind: proc.Departed}, o.End, o.Stderr)
		require.Equal(t, []int64{42, 3}, o.Vals("seed"))
	}
}

func TestRealDistinguishesEnds(t *testing.T) {
	outs, err := runOwn(t, "all ends")
	require.NoError(t, err)
	ends := []End{killed, {proc.Exited, 5}, {Kind: proc.Departed}, {Kind: proc.Departed}}
	for i, o := range outs {
		require.Equal(t, ends[i], o.End)
		require.True(t, o.has("here"), "records of the dead are kept")
	}
	require.NoError(t, judge(Job{N: 4}, outs))
}

func TestRealKillsVictims(t *testing.T) {
	outs, err := runOwn(t, "victim")
	require.NoError(t, err)
	require.Equal(t, killed, outs[0].End)
	require.True(t, outs[0].has("here"))
}

// TestRealReportsFailures: the suite finds these failures in real processes, and reports them so.
func TestRealReportsFailures(t *testing.T) {
	t.Parallel() // the suite waits for leaked things to disappear
	require.NoError(t, os.Mkdir(leakDir(), 0o700))
	t.Cleanup(func() { os.RemoveAll(leakDir()) })
	driver := NewReal()
	driver.shm = leakDir()
	for name, want := range map[string]string{
		"dies against orders": "killed by SIGKILL, should have ended in order",
		"complains":           "process 0: the number 7 is wrong",
		"panics":              "index out of range",
		"leaks a descriptor":  "1 more: descriptor of",
		"leaks a mapping":     "1 more: mapping of /dev/zero",
		"leaks a goroutine":   "1 more goroutines",
		"leaks a file":        filepath.Base(leakedFile()),
	} {
		t.Run(name, func(t *testing.T) {
			if name != "leaks a file" { // which others would find as well
				t.Parallel()
			}
			c, err := findCase(name)
			require.NoError(t, err)
			require.ErrorContains(t, Verify(driver, c, Budget{}, 1), want)
		})
	}
}

func TestRealDiagnosesHangs(t *testing.T) {
	t.Parallel() // it waits for processes that do not answer
	r := NewReal()
	r.stall = 10 * time.Second // from the start of the processes, too
	_, err := r.Run(Job{Case: "hangs", N: 2})
	require.ErrorContains(t, err, "the job hangs")
	require.ErrorContains(t, err, "process 0: waits for credit from process 1")
	require.ErrorContains(t, err, "process 1: waits for credit from process 0")
	require.ErrorContains(t, err, "fabrictest.(*child).Await", "the stacks")
}

// TestRealLeavesNothing: neither processes nor descriptors nor goroutines.
func TestRealLeavesNothing(t *testing.T) {
	runtime.GC() // of descriptors that earlier tests' readers still hold
	before := countResources()
	for _, name := range []string{"fine", "complains", "victim"} {
		_, _ = runOwn(t, name)
	}
	require.Empty(t, before.compare())
	_, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
	require.ErrorIs(t, err, syscall.ECHILD)
}

// TestChildrenEndWithTheirDriver: the pipe alone is enough.
func TestChildrenEndWithTheirDriver(t *testing.T) {
	exe, err := os.Executable()
	require.NoError(t, err)
	events := make(chan event, 8)
	k, err := spawn(exe, 0, nil, events)
	require.NoError(t, err)
	require.NoError(t, k.control.Close())
	for ev := range events {
		if ev.what == ended {
			break
		}
	}
	k.noteExit()
	require.Equal(t, End{proc.Exited, exitOrphaned}, k.End)
}
