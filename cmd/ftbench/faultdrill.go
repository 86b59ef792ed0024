package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/bench/budget"
	"github.com/banyan-hpc/banyan/bench/fault/drill"
	"github.com/banyan-hpc/banyan/bench/progressbar"
	"github.com/banyan-hpc/banyan/bench/report"
	"github.com/banyan-hpc/banyan/internal/intrusion"
	"github.com/banyan-hpc/banyan/internal/launch"
	"github.com/banyan-hpc/banyan/internal/launch/join"
	"github.com/banyan-hpc/banyan/internal/netns"
)

// rankRange is "2-32", or one number.
type rankRange struct{ min, max int }

// UnmarshalText reads it.
func (r *rankRange) UnmarshalText(text []byte) error {
	first, last, two := strings.Cut(string(text), "-")
	if !two {
		last = first
	}
	var err1, err2 error
	r.min, err1 = strconv.Atoi(first)
	r.max, err2 = strconv.Atoi(last)
	if err := errors.Join(err1, err2); err != nil {
		return fmt.Errorf("%q is no number of ranks: want 8 or 2-32", text)
	}
	return nil
}

// String gives it as it is written.
func (r rankRange) String() string { return fmt.Sprintf("%d-%d", r.min, r.max) }

// faultDrillCmd kills ranks of random programs.
type faultDrillCmd struct {
	Runs            int           `default:"100" help:"How many runs, each with a seed of its own. Default: ${default}."`
	N               rankRange     `short:"n" type:"ranks" default:"2-32" placeholder:"MIN-MAX" help:"Ranks of a run; most have few. Default: ${default}."`
	Fabric          []string      `enum:"shm,unix,tcp,mixed,hosts,sim" default:"shm,unix,tcp,mixed" placeholder:"LIST" help:"The fabrics of a run, drawn from this list: ${enum}; mixed: each rank may use others; hosts: network namespaces, which takes the privileges of ftbench run --netns; or sim alone: the simulator, in which a seed is always the same run. Default: ${default}."`
	Profile         []string      `enum:"ulfm,rts" default:"ulfm,rts" placeholder:"LIST" help:"The rules after failures, drawn from this list: ${enum}. Default: ${default}."`
	Seed            uint64        `placeholder:"SEED" help:"The first run's, the others follow. Default: by the clock."`
	Within          string        `placeholder:"OPERATION" help:"Have the first death of each run be within this operation, as the table names it."`
	Unauthenticated float64       `aliases:"strangers" default:"100" placeholder:"RATE" help:"Unauthenticated connections a second to the TCP ports of a third of the runs; 0: none. Default: ${default}."`
	Patience        time.Duration `default:"30s" help:"After so long without the end of an operation ranks count as hanging: they are asked for their operations, and ended. Default: ${default}."`
	KeepGoing       bool          `help:"Go on after a finding."`
	paceFlags
	exitsFlag
	JSON string `placeholder:"FILE" help:"Store the table, the findings and the environment; -: print them, and the table on standard error."`
}

func (faultDrillCmd) Help() string {
	return `Each run is a job of real processes that carry out a random program, of every point-to-point
operation, some collectives and recovery by agree, revoke and shrink, while some of them are
killed: anywhere, also while the job starts and ends. Each rank knows what it must receive
and whose death may spoil it. A finding is a rank that hangs, gets wrong data, has another result of
an agreement than another survivor, blames a living rank, fails under ULFM in a collective that each
dead rank had completed, fails for any other reason, or leaves a descriptor, mapping, file or process.
It is printed with its seed, the output of the ranks, and the command that runs it again. Exit code 1.

The table says of each operation how often it has ended, how often with an error, and how
many ranks were killed with one under way. Ctrl-C ends a long drill, with the table.

Examples:
  ftbench fault drill
  ftbench fault drill --runs 1000 --fabric tcp --unauthenticated 1000
  ftbench fault drill --runs 1 --seed 1795290156756   # the same again
  ftbench fault drill --within Mprobe -n 2-4 --profile rts
  ftbench fault drill --fabric sim --runs 1000
  ftbench fault drill --within Agree   # two or three die in one agreement
  ftbench fault drill --fabric hosts --runs 50 --json results/drill.json`
}

// drillResults are the results in the JSON file.
type drillResults struct {
	Seed       uint64                 `json:"seed"`
	Runs       int                    `json:"runs"`
	Ranks      int                    `json:"ranks"`
	Killed     int                    `json:"killed"`
	Fabrics    map[string]int         `json:"fabrics"`
	Profiles   map[string]int         `json:"profiles"`
	Operations map[string]drill.Count `json:"operations"`
	Causes     map[string]int         `json:"causes"`
	Findings   []string               `json:"findings"`
	Cut        *budget.Cut            `json:"cut,omitempty"` // of --max-time
}

// config is the configuration from which runs are drawn.
func (c *faultDrillCmd) config() drill.Config {
	cfg := drill.Config{Min: c.N.min, Max: c.N.max, Fabrics: c.Fabric}
	if c.simulated() {
		cfg.Fabrics = drill.Fabrics()
	}
	for _, name := range c.Profile {
		cfg.Profiles = append(cfg.Profiles, map[string]banyan.Profile{"ulfm": banyan.ULFM, "rts": banyan.RTS}[name])
	}
	return cfg
}

// simulated reports whether runs take place in the simulator.
func (c *faultDrillCmd) simulated() bool { return len(c.Fabric) == 1 && c.Fabric[0] == simulator }

// Run drills, or is a rank of a run.
func (c *faultDrillCmd) Run(to *call) error {
	if join.Started() {
		if os.Getenv(drill.Env) == "" {
			return usagef("fault drill: it starts its ranks itself and kills them: run it alone, not in another launcher's job")
		}
		err := drill.Rank(to.out)
		if errors.Is(err, drill.ErrMissing) {
			fmt.Fprintf(to.err, "ftbench: %v\n", err)
			return exitCode(drill.CodeMissing)
		}
		return err
	}
	c.atMost(&c.Runs, 20)
	cfg := c.config()
	if err := cmp.Or(c.checkTime(), cfg.Check()); err != nil {
		return usage(err)
	}
	if c.simulated() {
		if err := alone("fault drill"); err != nil {
			return err
		}
	}
	if c.Runs < 1 {
		return usagef("fault drill: --runs %d: at least 1", c.Runs)
	}
	aim, err := drill.ParseKind(c.Within)
	if err != nil {
		return usage(err)
	}
	if c.Seed == 0 {
		c.Seed = uint64(time.Now().UnixMilli())
	}
	if err := checkFiles(c.JSON); err != nil {
		return err
	}
	return c.drill(cfg, aim, to)
}

// drill carries the runs out and prints the table.
func (c *faultDrillCmd) drill(cfg drill.Config, aim drill.Kind, to *call) (err error) {
	file := report.Begin("fault-drill")
	ctx, stop := interruptible()
	defer stop()
	limit := c.budget()
	ctx, free := limit.Context(ctx)
	defer free()
	words := to.words(c.JSON)
	d, closeNets, err := c.driver(cfg, to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeNets()) }()
	results := drillResults{Seed: c.Seed, Operations: map[string]drill.Count{}, Findings: []string{}}
	announce(to.err, "fault drill", time.Duration(c.Runs)*c.runTime(), c.MaxTime)
	broken := c.runs(ctx, d, aim, &results, to)
	if broken != nil && budget.Ended(ctx) {
		results.Cut = limit.Cut(d.Report.Runs+len(results.Findings), c.Runs, "runs")
		if broken = results.Cut.Nothing(); broken != nil {
			return broken
		}
	}
	if ctx.Err() == nil && broken != nil {
		return broken
	}
	if err := cmp.Or(d.Report.Write(words.out), printCut(words.out, results.Cut)); err != nil {
		return err
	}
	for _, k := range drill.Kinds() {
		results.Operations[k.String()] = d.Report.Kinds[k]
	}
	r := d.Report
	results.Causes = r.CausesByName()
	results.Runs, results.Ranks, results.Killed, results.Fabrics, results.Profiles = r.Runs, r.Ranks, r.Killed, r.Fabrics, r.Profiles
	if err := to.store(file, c.JSON, results); err != nil {
		return err
	}
	fmt.Fprintf(words.out, "# seeds from %d: %d findings\n%s", c.Seed, len(results.Findings), named("files:", c.JSON))
	switch {
	case broken != nil:
		return orInterrupt(ctx, broken)
	case len(results.Findings) > 0:
		return exitCode(1)
	}
	return nil
}

// runTime is about how long a run takes, its start and its end.
func (c *faultDrillCmd) runTime() time.Duration {
	if c.simulated() {
		return 20 * time.Millisecond
	}
	return startTime(c.N.max) / 2
}

// runs carries out one run after the other. An error is not that of a rank, or it is the user's
// interruption; the counts until then remain.
func (c *faultDrillCmd) runs(ctx context.Context, d *drill.Driver, aim drill.Kind, results *drillResults, to *call) error {
	bar := progressbar.Start(to.err, "fault drill", c.Runs)
	defer bar.Stop()
	for seed := c.Seed; seed < c.Seed+uint64(c.Runs); seed++ {
		bar.Note(fmt.Sprintf("seed %d, %d killed", seed, d.Report.Killed))
		err := ctx.Err()
		switch {
		case err == nil && c.simulated():
			err = d.Simulate(seed, aim)
		case err == nil:
			err = d.Aim(ctx, seed, aim)
		}
		var finding *drill.Finding
		switch {
		case errors.As(err, &finding):
			results.Findings = append(results.Findings, finding.Error())
			fmt.Fprintf(bar.Over(to.err), "FINDING %v\nagain: %s\n", err, c.again(seed))
			if !c.KeepGoing {
				return nil
			}
		case err != nil:
			return err
		}
		bar.Step(1)
	}
	return nil
}

// again is the command that carries a run out once more.
func (c *faultDrillCmd) again(seed uint64) string {
	text := fmt.Sprintf("ftbench fault drill --runs 1 --seed %d -n %v --fabric %s --profile %s --unauthenticated %v --patience %v --exits %s",
		seed, c.N, strings.Join(c.Fabric, ","), strings.Join(c.Profile, ","), c.Unauthenticated, c.Patience, c.Exits)
	if c.Within != "" {
		text += fmt.Sprintf(" --within %q", c.Within)
	}
	return text
}

// driver makes the driver, and a function that closes the networks that it opens.
func (c *faultDrillCmd) driver(cfg drill.Config, to *call) (*drill.Driver, func() error, error) {
	self, err := selfPath()
	if err != nil {
		return nil, nil, err
	}
	nets := map[int]*netns.Net{} // by their number of hosts
	d := &drill.Driver{Config: cfg, Argv: append([]string{self}, to.args...), Patience: c.Patience}
	d.Prepare = func(spec *launch.Spec, hosts int) (err error) {
		c.setExits(spec)
		if hosts == 0 {
			return nil
		}
		if nets[hosts] == nil {
			if nets[hosts], err = netns.Open(netns.Config{Hosts: hosts}); err != nil {
				return fmt.Errorf("fault drill: --fabric hosts: %w", err)
			}
		}
		if spec.Proxy, err = proxyCommand(""); err == nil {
			spread(spec, nets[hosts], hosts)
		}
		return err
	}
	if c.Unauthenticated > 0 {
		const stay = 20 * time.Millisecond
		d.Flood = func(ctx context.Context, port netip.AddrPort) error {
			_, err := intrusion.Run(ctx, intrusion.Config{To: port, Rate: c.Unauthenticated, Stay: stay})
			return err
		}
	}
	return d, func() error {
		var errs []error
		for _, n := range nets {
			errs = append(errs, n.Close())
		}
		return errors.Join(errs...)
	}, nil
}
