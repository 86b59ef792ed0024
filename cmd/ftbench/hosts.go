package main

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/internal/exits"
	"github.com/banyan-hpc/banyan/internal/launch"
	"github.com/banyan-hpc/banyan/internal/launch/hosts"
)

// hostFlags name the machines of ranks, and the way to reach them.
type hostFlags struct {
	Hosts         *string `placeholder:"HOST[:SLOTS],…" xor:"hosts" help:"Run on these hosts; a slot is a rank, one if no number is given."`
	Hostfile      string  `placeholder:"FILE" xor:"hosts" type:"path" help:"Run on the hosts in a file: HOST, HOST:SLOTS or HOST slots=N on each line; # begins a comment."`
	Oversubscribe bool    `help:"Allow more ranks than the hosts have slots."`
	Rsh           *string `placeholder:"COMMAND" help:"Command that starts another one on a host; {host} stands for its name, which otherwise is the last argument. Default: ssh -o BatchMode=yes -o ServerAliveInterval=15 -T {host} (BANYAN_RSH)."`
	RemoteFtbench *string `placeholder:"PATH" help:"Where ftbench is on the hosts; default: where it is here."`
}

// rshEnv is the variable for --rsh. Unlike the option it may be set where no host
// is named.
const rshEnv = "BANYAN_RSH"

// validateHosts finds options for reaching hosts without a host: the ranks would start here, and
// not where the user wants them. --oversubscribe does no such harm, so it only causes a note.
func (f *hostFlags) validateHosts() error {
	switch {
	case f.Hosts != nil || f.Hostfile != "":
		return nil
	case f.Rsh != nil:
		return errors.New("--rsh is for --hosts or --hostfile: name the hosts")
	case f.RemoteFtbench != nil:
		return errors.New("--remote-ftbench is for --hosts or --hostfile: name the hosts")
	}
	return nil
}

// setHosts adds the hosts to the description of a job.
func (f *hostFlags) setHosts(spec *launch.Spec) (err error) {
	switch {
	case f.Hosts != nil:
		spec.Hosts, err = hosts.Parse(*f.Hosts)
	case f.Hostfile != "":
		spec.Hosts, err = readHostfile(f.Hostfile)
	default:
		if f.Oversubscribe {
			fmt.Fprintln(spec.Stderr, "ftbench: --oversubscribe is for --hosts and --hostfile: elsewhere ranks need no slots, and there may be more of them than cores")
		}
		return nil
	}
	if err != nil {
		return err
	}
	rsh := os.Getenv(rshEnv)
	if f.Rsh != nil {
		rsh = *f.Rsh
	}
	if rsh != "" { // otherwise package launch has a default
		if spec.Shell, err = hosts.ParseShell(rsh); err != nil {
			return err
		}
	}
	spec.Oversubscribe = f.Oversubscribe
	path := ""
	if f.RemoteFtbench != nil {
		path = *f.RemoteFtbench
	}
	spec.Proxy, err = proxyCommand(path)
	return err
}

func readHostfile(name string) ([]launch.Host, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("--hostfile: %w", err)
	}
	defer file.Close()
	return hosts.ReadFile(file, name)
}

// proxyCommand is the command that is started on a host.
func proxyCommand(path string) ([]string, error) {
	if path == "" {
		var err error
		if path, err = os.Executable(); err != nil {
			return nil, fmt.Errorf("the path of this program is not known: %w; give it with --remote-ftbench", err)
		}
	}
	return []string{path, "proxy"}, nil
}

// proxyCmd is the launcher's hand on a host.
type proxyCmd struct{}

// Run starts the ranks that a launcher at the other end of the standard streams
// asks for.
func (proxyCmd) Run(*call) error {
	if _, err := unix.IoctlGetTermios(int(os.Stdin.Fd()), unix.TCGETS); err == nil {
		return usagef("ftbench proxy is started by ftbench run --hosts, through a remote shell without terminal")
	}
	return hosts.Proxy(os.Stdin, os.Stdout, func() (launch.Exits, error) { return openExits(os.Getenv(exits.Env)) })
}
