package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/banyan-hpc/banyan/bench/compare"
	"github.com/banyan-hpc/banyan/bench/figure"
	"github.com/banyan-hpc/banyan/bench/peers"
	"github.com/banyan-hpc/banyan/bench/progressbar"
	"github.com/banyan-hpc/banyan/bench/report"
)

type compareCmd struct {
	Only    []string      `enum:"latency,bw,aware,netpipe,match,startup,coll,crowd,ulfm,tcp,unix,strangers" default:"latency,bw,aware,netpipe,match,startup,coll,crowd,tcp,strangers" help:"Groups of measures: ${enum}. Default: ${default}."`
	Pairs   int           `default:"9" help:"Pairs below which nothing is decided."`
	MaxTime time.Duration `default:"2m" help:"Budget for each measure; what is not decided by then is undecided."`
	Sample  time.Duration `default:"40ms" help:"Duration of one sample."`
	Sizes   string        `placeholder:"MIN:MAX" help:"netpipe, tcp, unix: only the runs that measure these sizes, in bytes; for a quicker answer."`
	Entries []int         `default:"10,100,1000,10000" placeholder:"N" help:"match: lengths of the queue. Default: ${default}."`
	Ranks   int           `short:"n" default:"64" help:"startup: ranks of the job. Default: ${default}."`
	ULFM    string        `name:"ulfm" placeholder:"DIR" help:"ulfm: directory with the mpicc and mpiexec of an Open MPI 5 or later. Default: Debian's Open MPI."`
	Plot    string        `placeholder:"FILE" help:"netpipe, tcp, unix, match: draw the curves of all; .svg or .png."`
	JSON    string        `placeholder:"FILE" default:"results/compare.json" help:"Store all samples, ratios and the environment; -: print them, and the tables on standard error. Default: ${default}."`
}

// Help explains the method.
func (compareCmd) Help() string {
	return `Banyan and each peer that is installed are sampled in turn on the same two CPUs, with
a bare cache-line ping-pong before and after each sample. A sample around which that
control changed is dropped; near and far cores (the host moves them) have results of
their own. Printed is the median of the paired ratios with its 95 %
interval, and whether the bounds of docs/status.md are met. A measure ends when its
interval's half-width is 3 % (0.3 % for aware against unaware) or its time is spent.

Groups:
  latency, bw  8-byte latency, and bandwidth of six sizes with a window of 64
  aware        what fault awareness costs: Banyan's two engines
  netpipe      Banyan's NetPIPE beside NPopenmpi and NPmpich2: 46 sizes up to 8 MiB.
               Runs of few sizes, all with the same -l -u -n and -p 0, best of 3 trials
  tcp, unix    the same over TCP loopback or Unix sockets (BANYAN_FABRIC), beside NPtcp and
               NPopenmpi over TCP: 1 byte, and 64 KiB to 8 MiB. That the messages of
               tcp are TCP segments is checked. unix has no bounds
  strangers    8-byte latency over TCP with 1000 strangers a second at a rank's port over
               that without; none may be let in
  match        time of a match with the last of many posted or unexpected entries
  startup      from the launcher's start until the last of -n ranks has passed a first
               barrier (CLOCK_MONOTONIC); ftbench run, and mpiexec with a C program
  coll, crowd  barrier, broadcast and sum over all of 2 ranks, 8 bytes to 1 MiB, and of 16 and
               64 ranks on these cores; each sample starts a job; mean over calls and ranks
  ulfm         agree, shrink and revoke of 4 to 32 ranks without a failure, beside Open MPI 5 with its
               fault tolerance, for which see --ulfm, and processes of bare C that take turns; in
               jobs too. Not among the default groups

Exit code 3: a bound is missed. Peers that lack are named with what installs them,
and those that do not start with what they say; the others are compared.

Examples:
  ftbench compare
  ftbench compare --only latency --max-time 30s
  ftbench compare --only aware --max-time 10m --json results/aware.json
  ftbench compare --only netpipe --max-time 10m --plot results/netpipe-peers.svg
  ftbench compare --only netpipe --sizes 65536:1048576 --sample 20ms
  ftbench compare --only tcp --max-time 10m
  ftbench compare --only tcp --sizes 1:8388608 --plot results/tcp.svg
  ftbench compare --only match --entries 10,1000,100000
  ftbench compare --only startup -n 128
  ftbench compare --only ulfm --ulfm /opt/openmpi-5/bin`
}

// compareResults are the results in the JSON file.
type compareResults struct {
	CPUs     [2]int            `json:"cpus"`
	Words    map[string]string `json:"implementations"`
	Commands map[string]string `json:"commands"`
	// Variables are those of the environment that change what the peers do.
	Variables []string          `json:"variables,omitempty"`
	Absent    map[string]string `json:"absent,omitempty"`
	// Busy is the share of the CPUs that others took before it began.
	Busy     float64           `json:"busy"`
	Measures []*compare.Result `json:"measures"`
	// Curves are measures of many points: netpipe, tcp, unix and startup.
	Curves []*compare.Curve `json:"curves,omitempty"`
	// Strangers is what was done at the rank's port, and what it has made of it.
	Strangers *besieged `json:"strangers,omitempty"`
}

// maxDrift is the relative change of the control that spoils a sample.
const maxDrift = 0.15

// Run compares.
func (c *compareCmd) Run(to *call) error {
	if err := c.check(); err != nil {
		return usage(err)
	}
	if err := checkFiles(c.JSON, c.Plot); err != nil {
		return err
	}
	ctx, stop := interruptible()
	defer stop()
	file := report.Begin("compare")
	words := to.words(c.JSON)
	all, err := openContest(ctx, names(c.Only), c.Sample, c.ULFM)
	if err != nil {
		return orInterrupt(ctx, err)
	}
	fmt.Fprintln(words.out, all.describe())
	results := compareResults{CPUs: all.cpus, Words: all.words, Commands: all.commands, Variables: variables(os.Environ()), Absent: all.absent, Busy: all.busy, Measures: []*compare.Result{}}
	err = orInterrupt(ctx, c.measure(ctx, all, &results, words))
	if stored := to.store(file, c.JSON, results); stored == nil {
		fmt.Fprint(words.out, named("all samples:", c.JSON)) // also of a run that was cut short
	} else {
		err = errors.Join(err, stored)
	}
	if err = errors.Join(err, all.close()); err != nil {
		return err
	}
	told, err := c.draw(&results)
	if err != nil {
		return err
	}
	fmt.Fprint(words.out, told)
	if results.missed() {
		return exitCode(exitMissed)
	}
	return nil
}

// check finds what is wrong before anything is measured.
func (c *compareCmd) check() error {
	if c.Pairs < 9 || c.MaxTime <= 0 || c.Sample <= 0 {
		return fmt.Errorf("compare: --pairs %d, --max-time %v, --sample %v: at least 9 pairs and times above 0 are needed", c.Pairs, c.MaxTime, c.Sample)
	}
	for _, n := range c.Entries {
		if n < peers.MatchBatch || n > peers.MaxEntries {
			return fmt.Errorf("compare: a queue of %d entries: %d to %d are possible", n, peers.MatchBatch, peers.MaxEntries)
		}
	}
	if c.Ranks < 1 || c.Ranks > maxStartup {
		return fmt.Errorf("compare: a start of %d ranks: 1 to %d are possible", c.Ranks, maxStartup)
	}
	if _, err := c.sizes(); err != nil {
		return err
	}
	if c.Plot == "" {
		return nil
	}
	if !slices.ContainsFunc(c.Only, func(group string) bool { return group == groupMatch || netpipeGroups[group] != nil }) {
		return errors.New("compare: --plot draws the curves of netpipe, tcp, unix and match, and none of them is asked for")
	}
	return figure.Check(c.Plot)
}

// sizes are those of NetPIPE that are asked for.
func (c *compareCmd) sizes() (sizeRange, error) {
	if c.Sizes == "" {
		return sizeRange{}, nil
	}
	r := sizeRange{1, netpipeLargest}
	if err := parseSizes(c.Sizes, &r.low, &r.high); err != nil {
		return r, err
	}
	if r.low > r.high || r.high < 1 || r.low > netpipeLargest {
		return r, fmt.Errorf("compare: --sizes %s: there are sizes from 1 to %d", c.Sizes, netpipeLargest)
	}
	return r, nil
}

// maxStartup bounds the ranks that spin on one machine.
const maxStartup = 1024

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

// measure carries out the plans and prints each result when it is there.
func (c *compareCmd) measure(ctx context.Context, all *contest, results *compareResults, to *call) error {
	bar := progressbar.Start(to.err, "compare", 0)
	defer bar.Stop()
	to = &call{to.args, bar.Over(to.out), to.err}
	r := compare.Runner{
		Measure:  all.control.Measure,
		Limits:   compare.Limits{MinPairs: c.Pairs, MaxTime: c.MaxTime, MaxDrift: maxDrift},
		Progress: bar.Note,
	}
	sizes, err := c.sizes()
	if err != nil {
		return err
	}
	run := func(plan *compare.Plan) error {
		if err := all.revive(ctx); err != nil {
			return err
		}
		res, err := r.Run(ctx, plan)
		results.Measures = append(results.Measures, res)
		return errors.Join(err, compare.WriteTable(to.out, res))
	}
	for _, group := range c.Only {
		for _, plan := range all.plans(group, c.Entries) {
			if err := run(plan); err != nil {
				return err
			}
		}
		for _, sweep := range all.sweeps(group, sizes, c.Ranks) {
			curve, err := r.Sweep(ctx, sweep)
			results.Curves = append(results.Curves, curve)
			if err := errors.Join(err, compare.WriteCurve(to.out, curve)); err != nil {
				return err
			}
		}
		if group == groupStrangers {
			if err := siege(ctx, all, results, to, run); err != nil {
				return err
			}
		}
	}
	return nil
}

// siege sends strangers to a rank's port while its latency is measured, and says
// what has come of it.
func siege(ctx context.Context, all *contest, results *compareResults, to *call, run func(*compare.Plan) error) error {
	b, err := besiege(ctx, all.servers[overTCP])
	if err != nil {
		return err
	}
	results.Strangers = b
	if err := errors.Join(run(all.strangersPlan(b)), b.conclude(ctx)); err != nil {
		return err
	}
	_, err = fmt.Fprintln(to.out, b)
	return err
}

// variables returns the settings of the peers' libraries in an environment.
func variables(env []string) []string {
	return slices.DeleteFunc(slices.Sorted(slices.Values(env)), func(e string) bool {
		for _, prefix := range []string{"UCX_", "OMPI_MCA_", "MPIR_CVAR_", "BANYAN_", "GOMAXPROCS=", "GOGC=", "GODEBUG="} {
			if strings.HasPrefix(e, prefix) {
				return false
			}
		}
		return true
	})
}

// missed reports whether a bound is.
func (r *compareResults) missed() bool {
	var rows []compare.Row
	for _, m := range r.Measures {
		rows = append(rows, m.Rows...)
	}
	for _, c := range r.Curves {
		rows = append(rows, c.Rows()...)
	}
	if r.Strangers != nil && r.Strangers.Joined > 0 {
		return true
	}
	return slices.ContainsFunc(rows, func(row compare.Row) bool { return row.Verdict == compare.Missed })
}
