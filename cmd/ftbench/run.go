package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/banyan-hpc/banyan/internal/launch"
	"github.com/banyan-hpc/banyan/internal/launch/hosts"
)

type runCmd struct {
	N           *int          `short:"n" type:"ranks" help:"Number of ranks, also -np; default 1, or as many as the hosts have slots."`
	Bind        string        `enum:"none,core" default:"none" help:"On which CPUs ranks run: ${enum}. core: each rank on one of the allowed CPUs, on every physical core one before any gets a second; with more ranks than CPUs they share."`
	TagOutput   bool          `help:"Begin each line of output with the rank."`
	OnFailure   string        `enum:"continue,abort" default:"continue" help:"Treatment of the other ranks when one fails: ${enum}."`
	MaxFailures *int          `placeholder:"N" help:"End the job when more than N ranks have failed; 0 is --on-failure=abort. Default: no bound."`
	Exit        string        `enum:"any,rank0,survivors" default:"any" help:"Which ranks' ends make the exit code: ${enum}; see below."`
	InitTimeout time.Duration `help:"How long a rank may take to join after the first one, and a host to be ready; default 60s, or BANYAN_INIT_TIMEOUT."`
	Wdir        string        `placeholder:"DIR" help:"Working directory of the ranks, on every host; default this one."`
	Export      []string      `short:"x" sep:"none" placeholder:"NAME[=VALUE]" help:"Set a variable for the ranks, or pass one on to ranks on other hosts, which get BANYAN_… and GO… anyway."`
	JSON        string        `placeholder:"FILE" help:"Write a line of JSON for each event of the job as it happens; -: on standard output, and the output of ranks on standard error."`
	runFabrics
	exitsFlag
	hostFlags  `embed:""`
	netnsFlags `embed:""`
	Argv       []string `arg:"" name:"program" passthrough:"" help:"The program and its arguments, after --."`
}

// Validate finds numbers that make no sense, and an option that does not exist:
// the parser takes it for the program.
func (c *runCmd) Validate() error {
	switch {
	case c.N != nil && *c.N < 1:
		return fmt.Errorf("-n %d: at least 1 rank is needed", *c.N)
	case c.MaxFailures != nil && *c.MaxFailures < 0:
		return fmt.Errorf("--max-failures=%d: a number from 0 on is needed", *c.MaxFailures)
	case c.MaxFailures != nil && *c.MaxFailures > 0 && c.OnFailure == "abort":
		return fmt.Errorf("--max-failures=%d: --on-failure=abort ends the job at the first failure: leave one of them out", *c.MaxFailures)
	case c.InitTimeout < 0:
		return fmt.Errorf("--init-timeout=%v: a start-up cannot take less than no time", c.InitTimeout)
	}
	if err := cmp.Or(c.validateNetns(c.N), c.validateHosts(), c.validateNetworks()); err != nil {
		return err
	}
	if len(c.Argv) > 0 && c.Argv[0] != "--" && strings.HasPrefix(c.Argv[0], "-") {
		return fmt.Errorf("unknown flag %s: a program whose name begins so goes after --", c.Argv[0])
	}
	return nil
}

func (runCmd) Help() string {
	return `The ranks find each other over PMI-1 on an inherited descriptor. When a rank dies, the launcher reports
it and leaves the others alone, unless --on-failure=abort, or more have failed than --max-failures allows:
then they are ended.

A rank has failed if a signal killed it, if it exited with a code other than 0 or without finalizing, or
if its host was lost. --exit chooses the exit code:
  any        that of the first rank that failed (128 and the number for a
             signal, 1 without finalizing), 0 if none has: 0 means that all
             have done their work.
  rank0      that of rank 0: for a master that outlives its workers.
  survivors  0 for a job that went on without ranks that died. A rank that a
             signal killed, whose host was lost, or that ended itself because
             it counted as dead (code 71) does not count. A rank that exits
             with another code, without finalizing, or by a Go panic (code 2)
             does: the first such code is taken. So is a forwarded signal. If
             no rank survives: as any.
A failure that ends the job, World.Abort with a code, and output that cannot be written make it other than
0 in any case.

SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGUSR1 and SIGUSR2 are forwarded to the ranks and their children; the
second of the first three kills them. One that comes again within a second is the same one: timeout(1)
sends each twice. Ctrl-Z and fg stop and continue the ranks with the launcher. SIGINT and SIGHUP stay
ignored where they are when the launcher starts (nohup). SIGQUIT (Ctrl-\) makes each rank print the
operations that it waits for, and its stacks.

Rank 0 has the launcher's standard input. Output comes by whole lines; without --tag-output an
unfinished line, a prompt, comes after 50 ms. Output that cannot be written does not disturb the ranks,
unless --on-failure=abort: the launcher reports it and ends with code 1, or 141 for a closed pipe. Without
a reader it waits for one; after a Ctrl-C that kills no longer than a second.

A pair of ranks uses shared memory where the kernel allows it, else RDMA, else a Unix-domain socket, else
TCP; --fabric restricts that, and ftbench doctor shows it. The events of --json are started, exited, failure
and ended; docs/benchmarks.md has their fields.

With --hosts or --hostfile the launcher starts ftbench on each host through ssh, or the command of --rsh,
and that starts the ranks. Everything goes over the remote shell; ftbench, the program and the working
directory must be on each host, at the same place. Ranks fill the hosts in order. When a host is lost or the
launcher dies, ranks are ended with --on-failure=abort and go on otherwise.

With root, or CAP_BPF and CAP_PERFMON, the kernel records how ranks end, so their peers on the machine
know within some 30 microseconds: see ftbench agent --help. It costs 50 ms at the start; --exits=off
leaves it out.

With --netns the hosts are network namespaces on this machine, joined by a bridge: it needs root, or unshare -Urnm.

Examples:
  ftbench run -n 8 -- ./app --size 4096
  ftbench run -n 2 --fabric tcp --networks lo -- ./app
  ftbench run -n 4 -- ftbench doctor
  ftbench run -n 2 --bind core -- bin/ftbench osu latency
  ftbench run -n 4 --tag-output --on-failure=abort -- ./app
  ftbench run -n 8 --exit survivors --max-failures 2 -- ./app
  ftbench run -n 4 --json events.jsonl -- ./app
  ftbench run --hosts node1:4,node2:4 -- ./app
  ftbench run --hostfile nodes -n 6 --rsh 'ssh -p 2222 {host}' -x LD_LIBRARY_PATH -- ./app
  ftbench run --hosts n1,n2 --rsh 'ip netns exec {host}' -- ./app
  ftbench run --netns 4 -n 16 --netns-rate 1gbit -- ./app
  ftbench run --netns 2 --netns-fault 0-1@2s+500ms --netns-fault 0/1@4s -- ./app`
}

// Run starts the job and waits for its end.
func (c *runCmd) Run(to *call) error {
	spec := launch.Spec{
		N: 1, Argv: program(c.Argv), Bind: bindings[c.Bind], OnFailure: policies[c.OnFailure],
		Dir: c.Wdir, Export: c.Export, Exit: exitRules[c.Exit],
		InitTimeout: c.InitTimeout, TagOutput: c.TagOutput, Stdout: to.out, Stderr: to.err, Stdin: os.Stdin,
		Env: c.settle(os.Environ()),
	}
	if c.MaxFailures != nil {
		if spec.MaxFailures = *c.MaxFailures; spec.MaxFailures == 0 {
			spec.OnFailure = launch.Abort
		}
	}
	c.setExits(&spec)
	if err := c.setHosts(&spec); err != nil {
		return usage(err)
	}
	if len(spec.Hosts) > 0 {
		spec.N = hosts.Slots(spec.Hosts)
	}
	if c.N != nil {
		spec.N = *c.N
	}
	events, err := openEvents(c.JSON, &spec)
	if err != nil {
		return err
	}
	if c.Netns > 0 {
		return events.end(c.startNetns(spec, c.N))
	}
	return events.end(start(spec))
}

var (
	bindings = map[string]launch.Bind{"none": launch.BindNone, "core": launch.BindCore}
	policies = map[string]launch.Policy{"continue": launch.Continue, "abort": launch.Abort}

	exitRules = map[string]launch.ExitRule{"any": launch.ExitAny, "rank0": launch.ExitRank0, "survivors": launch.ExitSurvivors}
)

// program drops the -- that separates the program from the options.
func program(argv []string) []string {
	if len(argv) > 0 && argv[0] == "--" {
		return argv[1:]
	}
	return argv
}

// start runs a job to its end, with this process's signals forwarded to it. The error is an
// exitCode when ranks failed: the launcher has reported them.
func start(spec launch.Spec) error {
	signals, stop := launch.Signals()
	defer stop()
	spec.Signals = signals
	return finished(launch.Run(context.Background(), spec))
}

// finished turns the end of a job into the command's.
func finished(result *launch.Result, err error) error {
	var early *launch.InterruptedError
	if errors.As(err, &early) {
		return interrupted{early.Signal}
	}
	if err != nil {
		return err
	}
	if result.Code != 0 {
		return exitCode(result.Code)
	}
	return nil
}
