package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/banyan-hpc/banyan/internal/exits"
	"github.com/banyan-hpc/banyan/internal/exits/agent"
	"github.com/banyan-hpc/banyan/internal/exits/hook"
	"github.com/banyan-hpc/banyan/internal/launch"
)

type agentCmd struct {
	Address string `placeholder:"ADDRESS" default:"/run/banyan/agent.sock" help:"Where processes find it: a path, or @name, an abstract Unix socket; default ${default}."`
	Verbose bool   `short:"v" help:"Print a line for each process."`
}

func (agentCmd) Help() string {
	return `Has the kernel record how ranks end, so that their peers on the node know within
some 30 microseconds, however much memory the dead leaves. For ranks that ftbench run
did not start: it does the same by itself where it may, see ftbench run --help.

One on each node, in the foreground until SIGINT or SIGTERM. It needs CAP_BPF and
CAP_PERFMON (root has them) and Linux 5.14 with BTF; ftbench doctor reports what is missing.
A rank connects when it starts and is registered, itself and no other process; users are
kept apart. When the agent ends, ranks that are registered keep what they have.

It makes the socket's directory, in which other users must not be able to write: they could
take its place. Any process may take an abstract name, so @NAME is for trials. For ranks in containers
mount the directory, or give it a path that they see and say so with BANYAN_EXITS=/PATH in their
environment; the agent must run in the host's pid namespace or theirs, on the host as root or with
CAP_SYS_PTRACE besides. BANYAN_EXITS=off keeps ranks from asking.

Examples:
  sudo ftbench agent
  sudo setcap cap_bpf,cap_perfmon+ep bin/ftbench
  ftbench agent --verbose --address $XDG_RUNTIME_DIR/agent.sock
  sudo systemd-run --unit=banyan-agent /opt/banyan/ftbench agent
  sudo ftbench agent --address /run/mine/agent.sock
  BANYAN_EXITS=/run/mine/agent.sock srun --mpi=pmi2 -N2 -n4 ./app`
}

// Validate finds an address that cannot be one.
func (c *agentCmd) Validate() error {
	if len(c.Address) < 2 || c.Address[0] != '@' && c.Address[0] != '/' {
		return fmt.Errorf("--address=%s: @name or an absolute path is needed", c.Address)
	}
	return nil
}

// Run serves until a signal.
func (c *agentCmd) Run(to *call) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	l, err := agent.Listen(c.Address)
	if err != nil {
		return err
	}
	report := func(e agent.Event) {
		if c.Verbose || e.Err != nil {
			fmt.Fprintf(to.err, "ftbench agent: %v\n", e)
		}
	}
	return agent.Serve(ctx, l, func() { fmt.Fprintf(to.out, "listening at %s\n", c.Address) }, report)
}

// exitsFlag is for commands that start ranks.
type exitsFlag struct {
	Exits string `enum:"auto,on,off" default:"auto" help:"Have the kernel record how ranks end: ${enum}. auto: if it may (CAP_BPF, CAP_PERFMON) and BANYAN_EXITS names no agent. on: or do not start."`
}

// setExits puts the choice into a job's description, and for ranks on other
// hosts among its variables.
func (f exitsFlag) setExits(spec *launch.Spec) {
	value := os.Getenv(exits.Env)
	if f.Exits == exits.On || f.Exits == exits.Off {
		value = f.Exits
		spec.Export = append(slices.Clip(spec.Export), exits.Env+"="+value)
	}
	spec.Exits = func() (launch.Exits, error) { return openExits(value) }
}

// openExits loads the program, unless the value of BANYAN_EXITS names another source.
func openExits(value string) (launch.Exits, error) {
	switch {
	case value == exits.Off, strings.HasPrefix(value, "@"), strings.HasPrefix(value, "/"):
		return nil, nil
	case value != "" && value != exits.On && !exits.Descriptors(value):
		return nil, fmt.Errorf("%s=%q: %s, %s, or the address of an agent (@name or /path, see ftbench agent --help) is possible", exits.Env, value, exits.On, exits.Off)
	}
	h, err := hook.Open()
	switch {
	case err == nil:
		return h, nil
	case value == exits.On:
		return nil, fmt.Errorf("%w (%s=%s or --exits=%s asks for it)", err, exits.Env, value, value)
	}
	return nil, nil // ftbench doctor prints the reason; the ranks have other means
}
