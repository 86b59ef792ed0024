package drill

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/internal/netns"
	"github.com/banyan-hpc/banyan/launch"
)

// roleEnv makes the test binary be a rank of the plan with that seed, or the
// launcher's proxy on a host.
const (
	roleEnv   = "BANYAN_TEST_DRILL"
	proxyRole = "proxy"
)

// codeMissing is the exit code of a rank that has found the start failed.
const codeMissing = 4

func TestMain(m *testing.M) {
	role := os.Getenv(roleEnv)
	if role == "" {
		os.Setenv("BANYAN_TUNING", "none") // the tests are of the library, not of this machine's settings
		os.Setenv("BANYAN_EXITS", "off")   // nor of an agent that may run on it
		os.Exit(m.Run())
	}
	if err := play(role); err != nil {
		fmt.Fprintf(os.Stderr, "drill: %v\n", err)
		if errors.Is(err, errMissing) {
			os.Exit(codeMissing)
		}
		os.Exit(3)
	}
}

func play(role string) error {
	if role == proxyRole {
		return launch.Proxy(os.Stdin, os.Stdout, nil)
	}
	seed, err := strconv.ParseUint(role, 10, 64)
	if err != nil {
		return err
	}
	p := newPlan(seed)
	rank, err := strconv.Atoi(os.Getenv("PMI_RANK"))
	if err != nil {
		return err
	}
	os.Setenv("BANYAN_FABRIC", p.words[rank])
	return runRank(p)
}

// The time that the runs of one test take together, and after which one hangs.
const (
	usualTime = 8 * time.Second
	shortTime = 3 * time.Second
	longTime  = 20 * time.Minute
	patience  = time.Minute
)

// TestDrill carries out as many plans as there is time for.
func TestDrill(t *testing.T) {
	d := &driver{nets: map[int]*netns.Net{}}
	defer d.close(t)
	if seed, err := strconv.ParseUint(os.Getenv("BANYAN_SEED"), 10, 64); err == nil {
		d.run(t, seed)
		return
	}
	limit := usualTime
	switch {
	case testing.Short():
		limit = shortTime
	case os.Getenv("BANYAN_LONG") != "":
		limit = longTime
	}
	begun := time.Now()
	first := uint64(begun.UnixNano()) / 1e6
	runs := 0
	for ; runs == 0 || time.Since(begun) < limit; runs++ {
		d.run(t, first+uint64(runs))
	}
	t.Logf("%d runs: %d ranks, %d of them killed; %d operations, %d ended with an error", runs, d.ranks, d.killed, d.ops, d.failed)
	require.NotZero(t, d.killed, "nobody was killed")
}

// driver carries out plans and counts.
type driver struct {
	nets                       map[int]*netns.Net // by their number of hosts
	ranks, killed, ops, failed int
}

func (d *driver) close(t *testing.T) {
	for _, n := range d.nets {
		require.NoError(t, n.Close())
	}
}

// run carries out the plan of a seed and checks what it leaves.
func (d *driver) run(t *testing.T, seed uint64) {
	p := newPlan(seed)
	if p.hosts > 0 && os.Getenv("BANYAN_NO_NETNS") == "1" {
		fmt.Fprintf(os.Stderr, "NOT TESTED: %s: BANYAN_NO_NETNS=1 leaves seed %d out\n", t.Name(), seed)
		return
	}
	dir := t.TempDir()
	exe, err := os.Executable()
	require.NoError(t, err)
	signals := make(chan os.Signal, 2)
	var errs bytes.Buffer
	words := &reader{p: p, pids: map[int]int{}}
	spec := launch.Spec{
		N: p.n, Argv: []string{exe}, OnFailure: launch.Continue, Signals: signals,
		Export: []string{roleEnv + "=" + strconv.FormatUint(seed, 10), "TMPDIR=" + dir, "BANYAN_TUNING=none"},
		Stdout: words, Stderr: &errs,
	}
	d.spread(t, p, &spec, exe)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	watch := watchdog(signals, cancel)
	result, err := launch.Run(ctx, spec)
	watch()
	words.stop()
	story := func() string {
		return fmt.Sprintf("BANYAN_SEED=%d runs it again: %d ranks, fabric %s, doomed %+v\n%s%s", seed, p.n, p.fabric, p.doomed, words.text.String(), errs.String())
	}
	require.NoError(t, err, "%s", story())
	require.NoError(t, d.judge(p, result, words), "%s", story())
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left, "files: %s", story())
	for rank, pid := range words.pids {
		require.ErrorIs(t, unix.Kill(pid, 0), unix.ESRCH, "the process of rank %d is left\n%s", rank, story())
	}
}

// spread puts the ranks on the hosts of the plan, if there are any.
func (d *driver) spread(t *testing.T, p *plan, spec *launch.Spec, exe string) {
	if p.hosts == 0 {
		return
	}
	net := d.nets[p.hosts]
	if net == nil {
		var err error
		net, err = netns.Open(netns.Config{Hosts: p.hosts})
		require.NoError(t, err, "BANYAN_NO_NETNS=1 leaves this out")
		d.nets[p.hosts] = net
	}
	number := map[string]int{}
	for i := range p.hosts {
		name, slots := net.Name(i), p.n/p.hosts
		if i < p.n%p.hosts {
			slots++
		}
		number[name] = i
		spec.Hosts = append(spec.Hosts, launch.Host{Name: name, Slots: slots, Env: []string{"BANYAN_NODE=" + name}})
	}
	spec.Proxy = []string{exe}
	spec.Shell = func(host string, cmd *exec.Cmd) error {
		cmd.Env = append(os.Environ(), roleEnv+"="+proxyRole)
		return net.Start(number[host], cmd)
	}
}

// watchdog asks the ranks of a job that does not end what they wait for, then for their
// stacks, and ends it. The function returned calls it off.
func watchdog(signals chan<- os.Signal, cancel context.CancelCauseFunc) (off func()) {
	timers := []*time.Timer{
		time.AfterFunc(patience, func() { signals <- syscall.SIGUSR1 }),
		time.AfterFunc(patience+2*time.Second, func() { signals <- syscall.SIGQUIT }),
		time.AfterFunc(patience+5*time.Second, func() { cancel(errors.New("ranks hang")) }),
	}
	return func() {
		for _, timer := range timers {
			timer.Stop()
		}
	}
}

// judge checks how the ranks ended, and that whoever was blamed is dead.
func (d *driver) judge(p *plan, result *launch.Result, words *reader) error {
	for rank, end := range result.Ends {
		_, doomed := p.doomed[rank]
		switch {
		case doomed && end.Signal == unix.SIGKILL:
			d.killed++
		case end.Code == codeMissing:
		case end.Failed():
			return fmt.Errorf("rank %d %v", rank, end)
		case words.ends[rank] == nil:
			return fmt.Errorf("rank %d ended without a word", rank)
		}
	}
	for rank, end := range words.ends {
		d.ops += end.ops
		d.failed += end.failed
		for _, blamed := range end.blamed {
			if end := result.Ends[blamed]; end.Signal != unix.SIGKILL && end.Code != codeMissing {
				return fmt.Errorf("rank %d blames rank %d, which %v", rank, blamed, result.Ends[blamed])
			}
		}
	}
	d.ranks += p.n
	return nil
}

// reader is the ranks' standard output: it kills those who are doomed.
type reader struct {
	p    *plan
	pids map[int]int // by rank
	ends map[int]*lastWords
	text strings.Builder

	mu     sync.Mutex
	over   bool
	timers []*time.Timer
	victim []*os.Process
}

// lastWords are what a rank says when it ends well.
type lastWords struct {
	ops, failed int
	blamed      []int
}

// Write implements io.Writer; the launcher writes whole lines.
func (r *reader) Write(b []byte) (int, error) {
	for line := range strings.Lines(string(b)) {
		r.text.WriteString(line)
		var rank, pid int
		if _, err := fmt.Sscanf(line, beginFormat, &rank, &pid); err == nil {
			r.pids[rank] = pid
			if err := r.arm(rank, pid); err != nil {
				return 0, err
			}
			continue
		}
		if err := r.last(line); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

// arm has a rank killed in its time. The process is held by a descriptor, so that
// nobody else is killed who has its number later.
func (r *reader) arm(rank, pid int) error {
	d, doomed := r.p.doomed[rank]
	if !doomed || d.op > 0 || d.last || d.first {
		return nil
	}
	victim, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.victim = append(r.victim, victim)
	r.timers = append(r.timers, time.AfterFunc(d.delay, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !r.over {
			_ = victim.Kill() // it may have ended before
		}
	}))
	return nil
}

// last reads what a rank says at its end.
func (r *reader) last(line string) error {
	head, names, ok := strings.Cut(strings.TrimSuffix(line, "]\n"), " [")
	if !ok {
		return fmt.Errorf("not a rank's word: %q", line)
	}
	var rank int
	end := &lastWords{}
	if _, err := fmt.Sscanf(head, strings.TrimSuffix(endFormat, " %v\n"), &rank, &end.ops, &end.failed); err != nil {
		return fmt.Errorf("%q: %w", line, err)
	}
	for name := range strings.FieldsSeq(names) {
		blamed, err := strconv.Atoi(name)
		if err != nil {
			return err
		}
		end.blamed = append(end.blamed, blamed)
	}
	if r.ends == nil {
		r.ends = map[int]*lastWords{}
	}
	r.ends[rank] = end
	return nil
}

// stop kills nobody any more.
func (r *reader) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	for _, timer := range r.timers {
		timer.Stop()
	}
	for _, victim := range r.victim {
		_ = victim.Release() // it has been killed, or has ended
	}
}

// held lists what this process has open. What Go's runtime keeps is open from then on.
func held() (map[string]int, error) {
	a, b, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	if err := errors.Join(a.Close(), b.Close()); err != nil {
		return nil, err
	}
	const dir = "/proc/self/fd"
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	open := map[string]int{}
	for _, e := range entries {
		if what, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil { // else it was the directory's own
			open[what]++
		}
	}
	return open, nil
}

// leaks says what a rank that has finalized has open beyond what it had before, and
// what it still maps.
func leaks(before map[string]int) error {
	after, err := held()
	if err != nil {
		return err
	}
	for what, n := range after {
		if n > before[what] {
			return fmt.Errorf("%s is open %d times, %d before", what, n, before[what])
		}
	}
	f, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(f)) {
		if strings.Contains(line, "memfd:") || strings.Contains(line, "/dev/shm") {
			return fmt.Errorf("a mapping is left: %s", line)
		}
	}
	return nil
}
