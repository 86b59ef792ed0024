package suite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/banyan-hpc/banyan/bench/compare"
	"github.com/banyan-hpc/banyan/bench/peers"
	"github.com/banyan-hpc/banyan/internal/netns"
)

// The names of the implementations in results and bounds.
const (
	ours    = "banyan"
	unaware = "banyan-unaware"
	roomy   = "banyan-roomy" // keeps as many unexpected messages as come, as MPI does
	ucx     = "ucx"
	openmpi = "openmpi"
	mpich   = "mpich"
	// bare is the ping-pong of one cache line each way, without anything else.
	bare = "ping-pong"
	// nptcp is NetPIPE on bare sockets; nptcpName is its name among the absent.
	nptcp     = "nptcp"
	nptcpName = "NPtcp"
	// overTCP is Banyan over TCP; undisturbed is the same without a flood.
	overTCP     = "banyan-tcp"
	undisturbed = "undisturbed"
	// openmpiTCP is Open MPI without its shared memory.
	openmpiTCP = "openmpi-tcp"
	// ulfm is Open MPI with its fault tolerance.
	ulfm = "openmpi-ulfm"
	// The same in processes of their own, which have windows.
	oursRMA    = "banyan-rma"
	openmpiRMA = "openmpi-rma"
	mpichRMA   = "mpich-rma"
	// turns are processes of bare C that take turns, of no library.
	turns = peers.TurnsName
)

// implementations is the order in which [Comparison.Describe] lists them.
var implementations = []string{ours, unaware, roomy, overTCP, ucx, openmpi, mpich,
	peers.OpenMPI.NetPIPEName, peers.MPICH.NetPIPEName, nptcpName, starterName(peers.OpenMPI),
	starterName(peers.MPICH),
	collectiveName(peers.OpenMPI), collectiveName(peers.MPICH), messagesName(peers.OpenMPI),
	messagesName(peers.MPICH), ulfm, turns, oursRMA, openmpiRMA, mpichRMA,
	oursVerbs, sendLatency, writeLatency, writeAlone, readLatency, sendRate, writeRate, readRate}

// own are the implementations without which there is no comparison.
var own = []string{ours, unaware, roomy, overTCP, oursRMA, oursVerbs}

// Comparison holds the processes that take part and wait for commands. It is for one goroutine.
type Comparison struct {
	Options
	cpus    [2]int
	self    string
	control *peers.Control
	runners map[string]peers.Runner  // by name; UCX has no process in between
	servers map[string]*peers.Server // implementations that are processes

	netpipes map[string][]netpipeRun // by group; Banyan first
	jobs     map[string][]jobRun     // by kind; Banyan first
	net      *netns.Net              // of group hosts
	agent    string                  // the directory of the program that starts on its hosts
	words    map[string]string       // how each describes itself
	commands map[string]string       // how each was started
	absent   map[string]string       // why a peer does not take part
	busy     float64                 // share of the CPUs that others took before it began
}

// Open starts the control, Banyan and the peers that the groups need. Peers that are not installed
// or cannot start are left out; that is no error. Precondition: [Options.Check] found nothing. The
// caller calls [Comparison.Close].
func Open(ctx context.Context, o Options) (*Comparison, error) {
	c := &Comparison{
		Options: o, runners: map[string]peers.Runner{}, servers: map[string]*peers.Server{},
		netpipes: map[string][]netpipeRun{}, jobs: map[string][]jobRun{},
		words: map[string]string{}, commands: map[string]string{}, absent: map[string]string{},
	}
	if err := c.open(ctx, names(o.Groups)); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Comparison) open(ctx context.Context, names []string) (err error) {
	if c.self, err = os.Executable(); err != nil {
		return fmt.Errorf("cannot find this program: %w", err)
	}
	if c.cpus, err = peers.CPUs(); err != nil {
		return err
	}
	if c.control, err = StartControl(ctx, c.self, c.cpus); err != nil {
		return err
	}
	c.runners[bare] = c.control
	for _, name := range names {
		if err := c.present(ctx, name, c.add(ctx, name)); err != nil {
			return err
		}
	}
	c.busy, err = peers.Busy(ctx, c.cpus)
	return err
}

// present enters a peer that cannot be measured among the absent, be it not installed or broken:
// the others can still be compared with. Without Banyan there is no comparison, so its failure is
// an error.
func (c *Comparison) present(ctx context.Context, name string, err error) error {
	if err == nil || ctx.Err() != nil || !isPeer(name) {
		return err
	}
	c.absent[name] = err.Error()
	return nil
}

// isPeer reports whether a name is that of something not our own.
func isPeer(name string) bool {
	return slices.Contains(implementations, name) && !slices.Contains(own, name)
}

// add starts one implementation, or starts it again.
func (c *Comparison) add(ctx context.Context, name string) error {
	var s *peers.Server
	var err error
	if _, ok := perftests[name]; ok {
		return c.addPerftest(ctx, name)
	}
	switch name {
	case ucx:
		u, err := peers.NewUCX(c.cpus)
		if err != nil {
			return err
		}
		c.runners[name], c.words[name], c.commands[name] = u, u.Words(ctx), u.Command()
		return nil
	case groupNetpipe, groupTCP, groupUnix, groupMemory:
		return c.addNetpipes(ctx, netpipeGroups[name])
	case startups, collectives, recoveries, messages:
		return c.addJobs(ctx, name)
	case groupHosts:
		return c.addHosts(ctx)
	case openmpi, openmpiRMA:
		s, err = peers.OpenMPI.Start(ctx, c.cpus)
	case mpich, mpichRMA:
		s, err = peers.MPICH.Start(ctx, c.cpus)
	case ours, unaware, roomy, overTCP, oursRMA, oursVerbs:
		if name == oursVerbs {
			err = adapter()
		}
		if err == nil {
			s, err = peers.Start(ctx, name, c.banyan(name))
		}
	default:
		return fmt.Errorf("there is no implementation named %q", name)
	}
	if err != nil {
		return err
	}
	c.runners[name], c.servers[name], c.words[name], c.commands[name] = s, s, s.Words, s.Command
	return nil
}

// banyan returns the command that starts two ranks of this binary, on the same CPUs as the peers.
func (c *Comparison) banyan(name string) func(dir string) []peers.Command {
	return func(dir string) []peers.Command {
		command := BanyanCommand(c.self, dir, c.cpus, name != unaware)
		if name == roomy {
			command.Argv = append(command.Argv, "--roomy")
		}
		switch name {
		case overTCP:
			command.Env = []string{fabricVariable + "=tcp"}
		case oursVerbs:
			command.Env = []string{fabricVariable + "=verbs"}
			command.Argv = append(command.Argv, "--registered")
		}
		return []peers.Command{command}
	}
}

// BanyanCommand starts this binary as two ranks that serve the FIFOs in dir.
func BanyanCommand(self, dir string, cpus [2]int, aware bool) peers.Command {
	argv := []string{self, "run", "-n", "2", "--bind", "core", "--on-failure", "abort", "--", self}
	argv = append(append(argv, sampleRank...), "--aware="+strconv.FormatBool(aware), dir, strconv.Itoa(cpus[0]),
		strconv.Itoa(cpus[1]))
	return peers.Command{CPU: -1, Argv: argv}
}

// StartControl starts the control on two CPUs; self is the path of ftbench.
func StartControl(ctx context.Context, self string, cpus [2]int) (*peers.Control, error) {
	return peers.StartControl(ctx, cpus, func(dir string, side int) []string {
		return slices.Concat([]string{self}, controlRank, []string{dir, strconv.Itoa(side)})
	})
}

// renew replaces the processes of the named implementations.
func (c *Comparison) renew(ctx context.Context, names ...string) error {
	for _, name := range names {
		if s := c.servers[name]; s != nil {
			delete(c.servers, name)
			if err := s.Close(); err != nil {
				return err
			}
		}
		if err := c.add(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// revive replaces the processes that have failed. A peer that does not start again fails in all
// later measurements.
func (c *Comparison) revive(ctx context.Context) error {
	for name, s := range c.servers {
		if !s.Broken() {
			continue
		}
		err := c.renew(ctx, name)
		if err == nil {
			continue
		}
		c.runners[name] = lost{err}
		if err := c.present(ctx, name, err); err != nil {
			return err
		}
	}
	return nil
}

// lost is the runner of a peer that does not start any more.
type lost struct{ why error }

// Run implements peers.Runner.
func (l lost) Run(context.Context, peers.Job) (time.Duration, error) { return 0, l.why }

// sources returns samplers of a job for those of the names that take part. They refer to the
// implementation by name, because its processes may be renewed.
func (c *Comparison) sources(job peers.Job, names ...string) []compare.Source {
	var out []compare.Source
	for _, name := range names {
		if c.runners[name] == nil {
			continue
		}
		s := peers.Sampler{Runner: current{c, name}, Job: job, Target: c.Sample}
		out = append(out, compare.Source{Name: name, Sample: s.Sample})
	}
	return out
}

// current is the runner that an implementation has now.
type current struct {
	of   *Comparison
	name string
}

// Run implements peers.Runner.
func (r current) Run(ctx context.Context, j peers.Job) (time.Duration, error) {
	return r.of.runners[r.name].Run(ctx, j)
}

// Close ends all processes.
func (c *Comparison) Close() error {
	var errs []error
	for _, s := range c.servers {
		errs = append(errs, s.Close())
	}
	if c.control != nil {
		errs = append(errs, c.control.Close())
	}
	errs = append(errs, c.closeHosts())
	return errors.Join(errs...)
}

// BusyAbove is the share of the CPUs taken by other processes above which users are warned.
const BusyAbove = 0.05

// Describe lists the participants, a line each.
func (c *Comparison) Describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "ranks on CPUs %d and %d; samples of %v\n", c.cpus[0], c.cpus[1], c.Sample)
	if c.busy > BusyAbove {
		fmt.Fprintf(&b, "others take %.0f %% of these CPUs: much will stay undecided; stop them first\n", 100*c.busy)
	}
	for _, name := range implementations {
		if w := c.words[name]; w != "" {
			fmt.Fprintf(&b, "  %-15s %s\n", name, w)
		}
		if w := c.absent[name]; w != "" {
			fmt.Fprintf(&b, "  %-15s left out: %s\n", name, strings.ReplaceAll(w, "\n", "\n    "))
		}
	}
	return b.String()
}

// names returns the implementations that the groups need, each once.
func names(groups []string) []string {
	var out []string
	for _, g := range groups {
		for _, name := range participants[g] {
			if !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	return out
}

// The hidden commands of ftbench that are ranks.
var (
	sampleRank     = []string{"rank"}
	controlRank    = []string{"control"}
	collectiveRank = []string{"meet"}
	recoveryRank   = []string{"mend"}
	startupRank    = []string{"join"}
	messagesRank   = []string{"crowd"}
)
