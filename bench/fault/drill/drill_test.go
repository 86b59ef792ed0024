package drill

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/intrusion"
	"github.com/banyan-hpc/banyan/internal/launch"
	"github.com/banyan-hpc/banyan/internal/launch/hosts"
	"github.com/banyan-hpc/banyan/internal/netns"
)

// proxyEnv makes the test binary be the launcher's proxy on a host.
const proxyEnv = "BANYAN_TEST_DRILL_PROXY"

func TestMain(m *testing.M) {
	var err error
	switch {
	case os.Getenv(Env) != "":
		err = Rank(os.Stdout)
	case os.Getenv(proxyEnv) != "":
		os.Unsetenv(proxyEnv)
		err = hosts.Proxy(os.Stdin, os.Stdout, nil)
	default:
		os.Setenv("BANYAN_TUNING", "none") // the tests are of the library, not of this machine's settings
		os.Setenv("BANYAN_EXITS", "off")   // nor of an agent that may run on it
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "drill: %v\n", err)
		if errors.Is(err, ErrMissing) {
			os.Exit(CodeMissing)
		}
		os.Exit(3)
	}
}

// The time that the runs of the test take together.
const (
	usualTime = 6 * time.Second
	shortTime = 3 * time.Second
	longTime  = 20 * time.Minute
)

// everything is the configuration from which all runs are drawn.
func everything() Config {
	return Config{Min: 2, Max: 32, Fabrics: Fabrics(), Profiles: []banyan.Profile{banyan.ULFM, banyan.RTS}}
}

// driver makes the test binary's own; its resources are closed when the test ends.
func driver(t *testing.T, cfg Config) *Driver {
	t.Helper()
	if hosts := slices.Index(cfg.Fabrics, Hosts); hosts >= 0 && os.Getenv("BANYAN_NO_NETNS") == "1" {
		fmt.Fprintf(os.Stderr, "NOT TESTED: %s: BANYAN_NO_NETNS=1 leaves hosts out\n", t.Name())
		cfg.Fabrics = slices.Delete(slices.Clone(cfg.Fabrics), hosts, hosts+1)
	}
	exe, err := os.Executable()
	require.NoError(t, err)
	t.Setenv("TMPDIR", t.TempDir())
	nets := map[int]*netns.Net{} // by their number of hosts
	t.Cleanup(func() {
		for _, n := range nets {
			require.NoError(t, n.Close())
		}
	})
	return &Driver{
		Config: cfg, Argv: []string{exe},
		Prepare: func(spec *launch.Spec, hosts int) error {
			if hosts == 0 {
				return nil
			}
			if nets[hosts] == nil {
				if nets[hosts], err = netns.Open(netns.Config{Hosts: hosts}); err != nil {
					return fmt.Errorf("%w (BANYAN_NO_NETNS=1 leaves this out)", err)
				}
			}
			spread(spec, nets[hosts], hosts, exe)
			return nil
		},
		Flood: func(ctx context.Context, to netip.AddrPort) error {
			_, err := intrusion.Run(ctx, intrusion.Config{To: to, Rate: 100, Stay: 20 * time.Millisecond})
			return err
		},
	}
}

// spread puts ranks on hosts.
func spread(spec *launch.Spec, net *netns.Net, hosts int, exe string) {
	number := map[string]int{}
	for i := range hosts {
		name, slots := net.Name(i), spec.N/hosts
		if i < spec.N%hosts {
			slots++
		}
		number[name] = i
		spec.Hosts = append(spec.Hosts, launch.Host{Name: name, Slots: slots, Env: []string{"BANYAN_NODE=" + name}})
	}
	spec.Proxy = []string{exe}
	spec.Shell = func(host string, cmd *exec.Cmd) error {
		cmd.Env = append(os.Environ(), proxyEnv+"=1")
		return net.Start(number[host], cmd)
	}
}

// TestDrill carries out as many runs as there is time for, then aims at the operations
// within which no rank was killed yet: in the end there is none. Except in the long form it aims at a third of them,
// each time at others.
func TestDrill(t *testing.T) {
	d := driver(t, everything())
	if seed, err := strconv.ParseUint(os.Getenv("BANYAN_SEED"), 10, 64); err == nil {
		aim, err := ParseKind(os.Getenv("BANYAN_AIM"))
		require.NoError(t, err)
		require.NoError(t, d.Aim(t.Context(), seed, aim))
		return
	}
	limit, share := usualTime, uint64(3)
	switch {
	case testing.Short():
		limit = shortTime
	case os.Getenv("BANYAN_LONG") != "":
		limit, share = longTime, 1
	}
	start := time.Now()
	seed := uint64(start.UnixNano()) / 1e6
	for d.Report.Runs == 0 || time.Since(start) < limit {
		require.NoError(t, d.Run(t.Context(), seed), "BANYAN_SEED=%d runs it again", seed)
		seed++
	}
	all := d.Config
	d.Config = Config{Min: 2, Max: 4, Fabrics: []string{"shm", "unix", "tcp", "mixed"}, Profiles: all.Profiles}
	first := seed
	missed := func() []Kind {
		return slices.DeleteFunc(d.Report.Missed(), func(k Kind) bool { return uint64(slices.Index(Kinds(), k))%share != first%share })
	}
	const tries = 100
	aimed := 0
	for range tries {
		for _, k := range missed() {
			require.NoError(t, d.Aim(t.Context(), seed, k), "seed %d, aim %v", seed, k)
			seed++
			aimed++
		}
	}
	var table strings.Builder
	require.NoError(t, d.Report.Write(&table))
	t.Logf("%v, %d runs aimed\n%s", time.Since(start).Round(time.Second), aimed, table.String())
	require.Empty(t, missed(), "no rank was killed within\n%s", table.String())
}

// TestDrillSimulated carries out runs in the simulator, and then kills ranks within each operation that
// waits for others.
func TestDrillSimulated(t *testing.T) {
	d := &Driver{Config: everything()}
	d.Max = 12
	if seed, err := strconv.ParseUint(os.Getenv("BANYAN_SEED"), 10, 64); err == nil {
		aim, err := ParseKind(os.Getenv("BANYAN_AIM"))
		require.NoError(t, err)
		require.NoError(t, d.Simulate(seed, aim))
		return
	}
	runs := uint64(100)
	switch {
	case testing.Short():
		runs = 20
	case os.Getenv("BANYAN_LONG") != "":
		runs = 20_000
	}
	for seed := range runs {
		require.NoError(t, d.Simulate(seed, noKind), "BANYAN_SEED=%d runs it again", seed)
	}
	var table strings.Builder
	require.NoError(t, d.Report.Write(&table))
	t.Log(table.String())
}

// A plan that fails is made as small as possible.
func TestSmaller(t *testing.T) {
	p := newPlan(script{Config: everything(), Seed: 5, Aim: noKind})
	p.phases[1].repair = p.drawRepair(rand.New(rand.NewPCG(1, 2)))
	p.doomed[1] = doom{aim: noKind, op: 3, in: 1}
	size := len(p.phases)
	q := p.smaller(func(q *plan) bool {
		return q.doomed[1].op == 3 && slices.ContainsFunc(q.phases, func(ph phase) bool { return ph.repair != nil })
	})
	require.Len(t, q.phases, 1)
	require.Empty(t, q.phases[0].transfers)
	require.Nil(t, q.phases[0].validation)
	require.Len(t, q.doomed, 1)
	require.Zero(t, q.doomed[1].in)
	require.Len(t, p.phases, size, "the plan itself is unchanged")
	require.Contains(t, q.String(), "rank 1 dies")
}

// Silent ranks are a finding, and are ended.
func TestHangIsFound(t *testing.T) {
	d := driver(t, Config{Min: 2, Max: 2, Fabrics: []string{"shm"}, Profiles: []banyan.Profile{banyan.ULFM}})
	signal.Ignore(syscall.SIGUSR1, syscall.SIGQUIT) // and so do the ranks, from the beginning
	defer signal.Reset(syscall.SIGUSR1, syscall.SIGQUIT)
	d.Argv = []string{"sleep", "1000"}
	d.Patience = 50 * time.Millisecond
	var found *Finding
	require.ErrorAs(t, d.Run(t.Context(), 7), &found)
	require.ErrorIs(t, found, errHang)
	require.EqualValues(t, 7, found.Seed)
	require.Contains(t, found.Story, "2 ranks, fabric shm, profile ULFM")
	require.Zero(t, d.Report.Runs)
}

// A file that a rank leaves behind is a finding.
func TestFileThatIsLeftIsFound(t *testing.T) {
	d := driver(t, Config{Min: 2, Max: 2, Fabrics: []string{"shm"}, Profiles: []banyan.Profile{banyan.ULFM}})
	d.Argv = append([]string{"sh", "-c", `touch "$TMPDIR/left"; exec "$0"`}, d.Argv...)
	require.ErrorContains(t, d.Run(t.Context(), 7), "a file is left: ")
}

// Survivors with different agreements are a finding.
func TestDisagreementIsFound(t *testing.T) {
	r := newReader(nil)
	same := note{Kind: shrink, Value: 1<<63 | 5, Failed: 1 << 40}
	write := func(rank int, notes ...note) {
		require.NoError(t, report{Rank: rank, End: &endReport{Notes: notes}}.write(r))
	}
	write(0, note{Kind: agree, Value: 7}, same)
	write(2, note{Kind: agree, Value: 7}, same)
	require.NoError(t, r.compare())
	write(3)
	require.ErrorContains(t, r.compare(), "rank 3 has 0 agreements and shrinks, rank 0 2")
	write(3, note{Kind: agree, Value: 7, Failed: 3}, same)
	require.ErrorContains(t, r.compare(), "rank 3: 0: Agree gave 0x7, failed 0x3; rank 0: Agree gave 0x7, failed 0x0")
	_, err := r.Write([]byte("no report\n"))
	require.ErrorContains(t, err, "not a rank's report")
}

// The same script is the same plan.
func TestPlan(t *testing.T) {
	for seed := range uint64(200) {
		s := script{Config: everything(), Seed: seed, Aim: Kind(seed % uint64(kinds))}
		p := newPlan(s)
		require.Equal(t, p, newPlan(s))
		require.GreaterOrEqual(t, p.n, 2)
		require.LessOrEqual(t, p.n, 32)
		require.NotEmpty(t, p.doomed)
		for _, ph := range p.phases {
			for i, m := range ph.transfers {
				require.True(t, m.send <= lastNonblocking || m.recv <= lastPosted, "%+v: both may block", m)
				require.False(t, m.exchanged() && !m.back && !ph.transfers[i+1].back, "%+v comes alone", m)
				for _, o := range ph.transfers {
					relies := m.send > lastNonblocking && m.recv == irecvAny
					require.False(t, relies && o.dst == m.dst && o.recv == recvAny, "%+v: %+v may take its receive", m, o)
				}
			}
		}
	}
}

func TestConfigCheck(t *testing.T) {
	good := everything()
	require.NoError(t, good.Check())
	for name, spoil := range map[string]func(*Config){
		"min": func(c *Config) { c.Min = 1 }, "order": func(c *Config) { c.Max = 1 },
		"max":    func(c *Config) { c.Max = MaxRanks + 1 },
		"fabric": func(c *Config) { c.Fabrics = []string{"pigeon"} }, "none": func(c *Config) { c.Fabrics = nil },
		"profile": func(c *Config) { c.Profiles = nil },
	} {
		c := everything()
		spoil(&c)
		require.ErrorContains(t, c.Check(), "fault drill: ", name)
	}
}
