package main

import (
	"context"
	"fmt"
	"os/exec"

	"github.com/banyan-hpc/banyan/internal/netns"
	"github.com/banyan-hpc/banyan/launch"
)

// netnsFlags make the hosts themselves.
type netnsFlags struct {
	Netns     int `placeholder:"HOSTS" xor:"hosts" help:"Run on so many network namespaces of this machine as if they were hosts."`
	NetnsRate int `placeholder:"MBIT" help:"Bandwidth of each namespace in each direction, in 10^6 bit/s; default as fast as it goes."`
}

func (f *netnsFlags) validateNetns(n *int) error {
	switch {
	case f.Netns < 0 || f.Netns > netns.MaxHosts:
		return fmt.Errorf("--netns=%d: 1 to %d namespaces are possible", f.Netns, netns.MaxHosts)
	case f.NetnsRate < 0 || f.NetnsRate > netns.MaxRateMbit:
		return fmt.Errorf("--netns-rate=%d: 1 to %d Mbit/s are possible", f.NetnsRate, netns.MaxRateMbit)
	case f.NetnsRate > 0 && f.Netns == 0:
		return fmt.Errorf("--netns-rate is for --netns")
	case f.Netns > 0 && n != nil && *n < f.Netns:
		return fmt.Errorf("-n %d: --netns=%d needs a rank for each namespace", *n, f.Netns)
	}
	return nil
}

// startNetns runs a job on namespaces that live as long as it does. The ranks
// are spread evenly; without a number there is one in each.
func (f *netnsFlags) startNetns(spec launch.Spec, n *int) (err error) {
	signals, stop := launch.Signals() // before there is anything to remove
	defer stop()
	spec.Signals = signals
	if n == nil {
		spec.N = f.Netns
	}
	if spec.Proxy, err = proxyCommand(""); err != nil {
		return err
	}
	net, err := netns.Open(netns.Config{Hosts: f.Netns, RateMbit: f.NetnsRate})
	if err != nil {
		return fmt.Errorf("--netns: %w", err)
	}
	number := make(map[string]int)
	first := 0
	for i := range f.Netns {
		name, slots := net.Name(i), spec.N/f.Netns
		if i < spec.N%f.Netns {
			slots++
		}
		number[name] = i
		spec.Hosts = append(spec.Hosts, launch.Host{
			Name: name, Slots: slots, FirstCPU: first, Env: []string{"BANYAN_NODE=" + name},
		})
		first += slots
	}
	spec.Shell = func(host string, cmd *exec.Cmd) error { return net.Start(number[host], cmd) }
	err = finished(launch.Run(context.Background(), spec))
	if cerr := net.Close(); cerr != nil && err == nil {
		err = fmt.Errorf("--netns: %w", cerr)
	}
	return err
}
