package peers

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Host is a network namespace that stands for a machine.
type Host struct {
	Name string // for ip netns
	Addr netip.Addr
}

// hostTools are the programs that enter a namespace, and their packages.
var hostTools = map[string]string{"nsenter": "util-linux", "unshare": "util-linux", "hostname": "hostname"}

// CollectivesOn is [MPI.Collectives] of Open MPI with as many ranks on each host, which yield as in a job
// that has more ranks than cores: Open MPI does not see that, as each host has slots for its own. They are in one session, as
// Banyan's are, since the kernel shares cores among sessions. Dir is for the program by which Open MPI starts its daemons, and
// stays until the last run.
func (m MPI) CollectivesOn(ctx context.Context, hosts []Host, dir string) (Program, error) {
	for tool, packages := range hostTools {
		if _, err := exec.LookPath(tool); err != nil {
			return nil, &NotInstalledError{Peer: m.Name, Tool: tool, Packages: packages}
		}
	}
	program, err := m.compile(ctx, "coll")
	if err != nil {
		return nil, err
	}
	launcher, err := m.find(m.Launcher)
	if err != nil {
		return nil, err
	}
	agent := filepath.Join(dir, "agent")
	if err := os.WriteFile(agent, []byte(agentText(hosts)), 0o700); err != nil {
		return nil, fmt.Errorf("peers: %w", err)
	}
	return func(n int, args []string) Command {
		var slots []string
		for _, h := range hosts {
			slots = append(slots, fmt.Sprintf("%v:%d", h.Addr, n/len(hosts)))
		}
		argv := slices.Concat([]string{agent, hosts[0].Addr.String(), launcher}, m.Options, m.Crowded,
			[]string{"--leave-session-attached", "--mca", "mpi_yield_when_idle", "1", "--mca", "plm_rsh_agent", agent, "-H",
				strings.Join(slots, ","),
				"-n", strconv.Itoa(n), program}, args)
		return Command{Argv: argv, Env: m.Env, CPU: -1}
	}, nil
}

// agentText is a program that runs a command on one of the hosts, as ssh would. Each has a host name of its own, by which
// Open MPI names its shared memory.
func agentText(hosts []Host) string {
	var b strings.Builder
	b.WriteString("#!/bin/sh\nhost=$1\nshift\ncase $host in\n")
	for _, h := range hosts {
		fmt.Fprintf(&b, "%v) name=%s ;;\n", h.Addr, h.Name)
	}
	b.WriteString("*) echo \"$0: there is no host $host\" >&2; exit 1 ;;\nesac\n" +
		"exec nsenter --net=/run/netns/$name unshare --uts sh -c \"hostname $name; $*\"\n")
	return b.String()
}
