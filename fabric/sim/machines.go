package sim

import (
	"fmt"
	"slices"
	"strings"

	"github.com/banyan-hpc/banyan/fabric"
)

// Profiles are the names for Profile.
func Profiles() []string {
	var names []string
	for _, p := range profiles {
		names = append(names, p.name)
	}
	return names
}

var profiles = []struct {
	name string
	make func(n int) Config
}{
	{"paper-2011", paper2011},
	{"infiniband", DefaultConfig},
	{"this-machine", thisMachine},
}

// Profile describes a machine of n processes by name:
//
//   - paper-2011: the cluster of Hursey and Graham (2011), gigabit Ethernet between nodes of 16
//     cores;
//   - infiniband: a present cluster, which is DefaultConfig;
//   - this-machine: one node of the kind on which Banyan is developed.
func Profile(name string, n int) (Config, error) {
	i := slices.IndexFunc(profiles, func(p struct {
		name string
		make func(n int) Config
	}) bool {
		return p.name == name
	})
	if i < 0 {
		return Config{}, fmt.Errorf("sim: no profile %q: there are %s", name, strings.Join(Profiles(), ", "))
	}
	return profiles[i].make(n), nil
}

// Paper2011 holds the parameters of the profile paper-2011 that the paper does not state. ftbench
// paper --fit fits them to the paper's table 1, and to nothing else.
type Paper2011 struct {
	// Engine is the time of a node's port for a frame, in or out, besides its bytes: interrupt,
	// driver, TCP.
	Engine  Picos
	Latency Picos
}

// Fitted is the result of the fit.
var Fitted = Paper2011{Engine: 5188 * Nanosecond, Latency: 45875 * Nanosecond}

// Config is the machine of Hursey and Graham (§4) with these parameters, for n processes: nodes of
// 16 cores behind one gigabit Ethernet port each, one switch. The other parameters come from the
// paper or a standard.
func (p Paper2011) Config(n int) Config {
	cfg := DefaultConfig(n)
	cfg.Topology = Topology{ProcsPerNode: 16, NodesPerSwitch: 64}
	// One byte takes 0.84 µs over shared memory, and large messages pass at 8957 Mbps of 2^20 bits
	// (§4.1).
	cfg.Links[fabric.LinkNode] = Link{Latency: 240 * Nanosecond, SendOverhead: 300 * Nanosecond,
		RecvOverhead: 300 * Nanosecond, Gap: 300 * Nanosecond, GapPerByte: 852}
	// A byte at 1 Gb/s: 8 ns. A system call of a core: 1 µs, assumed; it overlaps mostly with the
	// busy port, so that with 3 µs the tables change by less than 2 %.
	net := Link{Latency: p.Latency, SendOverhead: Microsecond, RecvOverhead: Microsecond, Gap: p.Engine,
		GapPerByte: 8 * Nanosecond}
	cfg.Links[fabric.LinkSwitch], cfg.Links[fabric.LinkAcross] = net, net
	cfg.CPU = CPU{PerByte: 250, EmptyPoll: 50 * Nanosecond, Yield: 500 * Nanosecond}
	cfg.NodePort = NodePort{Shared: true, AckEvery: 2}
	cfg.MaxFrame = 64 << 10 // the eager limit of Open MPI's tcp
	cfg.Eager = 64 << 10
	return cfg
}

func paper2011(n int) Config { return Fitted.Config(n) }

// thisMachine is one node with a core for each process: shared memory only, as measured.
func thisMachine(n int) Config {
	cfg := DefaultConfig(n)
	cfg.Topology = Topology{ProcsPerNode: n, NodesPerSwitch: 1}
	return cfg
}
