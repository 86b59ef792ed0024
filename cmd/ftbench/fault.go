package main

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"time"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/bench/fault"
	"github.com/banyan-hpc/banyan/bench/figure"
	"github.com/banyan-hpc/banyan/bench/stats"
	"github.com/banyan-hpc/banyan/bench/table"
	"github.com/banyan-hpc/banyan/internal/affinity"
	"github.com/banyan-hpc/banyan/internal/launch"
	"github.com/banyan-hpc/banyan/internal/netns"
)

// faultCmd has the measurements of failures.
type faultCmd struct {
	Detect    faultDetectCmd    `cmd:"" help:"Time from the death of a rank to the error at the ranks that wait for it."`
	Silence   faultSilenceCmd   `cmd:"" help:"Time from the cut of a host's network to the error at the ranks of other hosts."`
	Soak      faultSoakCmd      `cmd:"" help:"Ranks under full load, none of which may be declared dead."`
	Agree     faultAgreeCmd     `cmd:"" help:"Time of an agreement, against a reduction and a broadcast."`
	Shrink    faultShrinkCmd    `cmd:"" help:"Time to make a communicator of the living ranks, against an agreement."`
	Revoke    faultRevokeCmd    `cmd:"" help:"Time until all ranks have left a communicator that one revokes, against a barrier."`
	Rebalance faultRebalanceCmd `cmd:"" help:"Time to compute a rank's place in the tree of a collective, after failures."`
	Barrier   faultBarrierCmd   `cmd:"" help:"A barrier of the living ranks, in each design, against one without failures among as many ranks."`
	Bcast     faultRootedCmd    `cmd:"" help:"A broadcast among the living ranks, measured like the barrier."`
	Reduce    faultRootedCmd    `cmd:"" help:"A reduction to one rank, measured like the barrier."`
	Allreduce faultAllreduceCmd `cmd:"" help:"An allreduce, measured like the barrier."`
	Gather    faultRootedCmd    `cmd:"" help:"A gather, measured like the barrier."`
	Scatter   faultRootedCmd    `cmd:"" help:"A scatter, measured like the barrier."`
	Drill     faultDrillCmd     `cmd:"" help:"Random programs whose ranks are killed anywhere: the survivors must end, with the right data."`
}

func (c *collectiveOptions) name(word string) { c.Op = fault.Op(word) }
func (c *recoverOptions) name(word string)    { c.Op = fault.Op(word) }

// startedBy is the variable by which a rank detects that this command has started it: another
// launcher kills no rank.
const startedBy = "BANYAN_FAULT_DETECT"

// faultJob returns the starter of this command's ranks: with the arguments of the call and more
// variables, bound to a core each if there are enough for so many. Kills are not logged.
func faultJob(to *call, exits exitsFlag, log io.Writer, processes int, export ...string) (fault.Processes, error) {
	self, err := selfPath()
	if err != nil {
		return fault.Processes{}, err
	}
	cpus, err := affinity.Allowed()
	return fault.Processes{
		Argv: append([]string{self}, to.args...), Export: append([]string{startedBy + "=1"}, export...),
		Stderr: &without{log, killed}, Bind: len(cpus) >= processes,
		Prepare: func(spec *launch.Spec) error { exits.setExits(spec); return nil },
	}, err
}

// warnShared warns where ranks share cores.
func warnShared(to *call, ranks int, consequence string) error {
	cpus, err := affinity.Allowed()
	if err == nil && len(cpus) < ranks {
		fmt.Fprintf(to.err, "ftbench: %d ranks on %d CPU: they take turns%s\n", ranks, len(cpus), consequence)
	}
	return err
}

// onHosts places a job's ranks on the namespaces of a network.
func onHosts(net *netns.Net, hosts int) func(*launch.Spec) error {
	return func(spec *launch.Spec) (err error) {
		if spec.Proxy, err = proxyCommand(""); err == nil {
			spread(spec, net, hosts)
		}
		return err
	}
}

// faultRank is a rank of a job that a command of fault has started itself. It examines every error.
func faultRank(command string, do func(*banyan.World) error, fabrics fabricList, opts ...banyan.Option) error {
	if os.Getenv(startedBy) == "" {
		return usagef("fault %s: it starts its ranks itself and kills some: run it alone, not in another launcher's job", command)
	}
	if fabrics != "" {
		opts = append(opts, banyan.WithFabrics(string(fabrics)))
	}
	return inJob(true, do, append(opts, banyan.WithErrorsFatal(false))...)
}

// without is a log without some lines of the launcher, which writes whole lines.
type without struct {
	to       io.Writer
	unwanted *regexp.Regexp
}

var (
	// killed matches the death of a victim.
	killed = regexp.MustCompile(`(?m)^banyan: rank \d+ was killed by SIGKILL after .*\n`)
	// fencedEnd matches the end of a rank that was cut off.
	fencedEnd = regexp.MustCompile(fmt.Sprintf(
		`(?m)^banyan: rank \d+(: nothing was heard of rank | ends itself: | (on \S+ )?exited with code %d ).*\n`, banyan.ExitFenced))
)

func (w *without) Write(p []byte) (int, error) {
	if rest := w.unwanted.ReplaceAll(p, nil); len(rest) > 0 {
		if _, err := w.to.Write(rest); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// latencyTable prints the survivors' times in a unit.
func latencyTable(out io.Writer, title string, l *fault.Latencies, unit time.Duration) error {
	t := table.Table{W: out, Title: title, Keys: 1, Columns: []table.Column{
		{Name: "# Survivor", Left: true}, {Name: "Samples", Width: 8},
	}}
	for _, name := range []string{"Min", "P50", "P90", "P99", "Max"} {
		t.Columns = append(t.Columns, table.Column{Name: name, Width: 9, Format: "%.1f"})
	}
	in := func(d time.Duration) float64 { return float64(d) / float64(unit) }
	row := func(name string, s stats.Spread) []any {
		return []any{name, s.Count, in(s.Min), in(s.P50), in(s.P90), in(s.P99), in(s.Max)}
	}
	return t.Write([][]any{row("each", l.Each), row("last", l.Last)})
}

// seriesByName collects points into series, in the order in which their names come first.
type seriesByName struct {
	list []figure.Series
	at   map[string]int
}

func (s *seriesByName) add(name string, x, y float64) { s.put(name, figure.Point{X: x, Y: y}) }

func (s *seriesByName) put(name string, p figure.Point) {
	k, ok := s.at[name]
	if !ok {
		if s.at == nil {
			s.at = make(map[string]int)
		}
		k = len(s.list)
		s.at[name] = k
		s.list = append(s.list, figure.Series{Name: name})
	}
	s.list[k].Points = append(s.list[k].Points, p)
}
