package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/internal/launch"
	"github.com/banyan-hpc/banyan/internal/netns"
)

// netnsFlags make the hosts themselves.
type netnsFlags struct {
	Netns     netnsHosts `placeholder:"HOSTS" xor:"hosts" help:"Run on so many network namespaces of this machine as if they were hosts."`
	NetnsRate netnsRate  `placeholder:"RATE" help:"Bandwidth of each namespace in each direction, as 10mbit, 2.5gbit or 10, which is 10^6 bit/s; default as fast as it goes."`
	// NetnsFault is repeated for several.
	NetnsFault []netFault `sep:"none" placeholder:"WHAT@AT[+FOR]" help:"Disturb the network so long after the start, for so long or for good. WHAT is A-B: nothing passes between hosts A and B; A>B: nothing from A to B; A: the cable of host A is pulled; A/B: their TCP connections are reset. Hosts count from 0. As 0-1@2s+500ms; may be repeated."`
}

// netnsHosts is a number of namespaces; 0: the option was not given.
type netnsHosts int

// UnmarshalText parses the value.
func (h *netnsHosts) UnmarshalText(text []byte) error {
	n, err := strconv.Atoi(string(text))
	if err != nil || n < 1 || n > netns.MaxHosts {
		return fmt.Errorf("%q: 1 to %d namespaces are possible", text, netns.MaxHosts)
	}
	*h = netnsHosts(n)
	return nil
}

// netnsRate is a bandwidth in 10^6 bit/s; 0: the option was not given.
type netnsRate int

// UnmarshalText parses the value, also with the units of tc.
func (r *netnsRate) UnmarshalText(text []byte) error {
	number, factor := strings.ToLower(string(text)), 1.0
	for unit, mbit := range map[string]float64{"mbit": 1, "gbit": 1000} {
		if before, found := strings.CutSuffix(number, unit); found {
			number, factor = before, mbit
		}
	}
	v, err := strconv.ParseFloat(number, 64)
	v *= factor
	if err != nil || v != math.Trunc(v) || v < 1 || v > netns.MaxRateMbit {
		return fmt.Errorf("%q: whole 10^6 bit/s from 1 to %d are possible, as 10, 10mbit or 2.5gbit", text, netns.MaxRateMbit)
	}
	*r = netnsRate(v)
	return nil
}

func (f *netnsFlags) validateNetns(n *int) error {
	switch {
	case f.NetnsRate > 0 && f.Netns == 0:
		return fmt.Errorf("--netns-rate is for --netns")
	case len(f.NetnsFault) > 0 && f.Netns == 0:
		return fmt.Errorf("--netns-fault is for --netns")
	case f.Netns > 0 && n != nil && *n < int(f.Netns):
		return fmt.Errorf("-n %d: --netns=%d needs a rank for each namespace", *n, f.Netns)
	}
	for _, x := range f.NetnsFault {
		if x.a >= int(f.Netns) || x.b >= int(f.Netns) {
			return fmt.Errorf("--netns-fault=%v: --netns=%d has the hosts 0 to %d", x, f.Netns, f.Netns-1)
		}
	}
	return nil
}

// startNetns runs a job on namespaces that live as long as it does. The ranks
// are spread evenly; without a number there is one in each.
func (f *netnsFlags) startNetns(spec launch.Spec, n *int) (err error) {
	signals, stop := launch.Signals() // before there is anything to remove
	defer stop()
	spec.Signals = signals
	hosts := int(f.Netns)
	if n == nil {
		spec.N = hosts
	}
	if spec.Proxy, err = proxyCommand(""); err != nil {
		return err
	}
	net, err := netns.Open(netns.Config{Hosts: hosts, RateMbit: int(f.NetnsRate)})
	if err != nil {
		return fmt.Errorf("--netns: %w", err)
	}
	spread(&spec, net, hosts)
	heal := disturb(net, f.NetnsFault, spec.Stderr)
	err = finished(launch.Run(context.Background(), spec))
	wrong := heal()
	if cerr := net.Close(); cerr != nil {
		wrong = errors.Join(wrong, fmt.Errorf("--netns: %w", cerr))
	}
	if err == nil {
		return wrong
	}
	if wrong != nil { // the end of the job is the command's
		fmt.Fprintf(spec.Stderr, "ftbench: %v\n", wrong)
	}
	return err
}

// spread puts the ranks of a job evenly on namespaces.
func spread(spec *launch.Spec, net *netns.Net, hosts int) {
	number := make(map[string]int)
	first := 0
	for i := range hosts {
		name, slots := net.Name(i), spec.N/hosts
		if i < spec.N%hosts {
			slots++
		}
		number[name] = i
		spec.Hosts = append(spec.Hosts, launch.Host{
			Name: name, Slots: slots, FirstCPU: first, Env: []string{"BANYAN_NODE=" + name},
		})
		first += slots
	}
	spec.Shell = func(host string, cmd *exec.Cmd) error {
		// In a session of its own, as beside a real shell, a rank would give way to the ranks of its host alone: the kernel
		// shares cores among sessions (sched_autogroup), a time slice each.
		cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
		return net.Start(number[host], cmd)
	}
}
