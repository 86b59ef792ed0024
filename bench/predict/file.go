package predict

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/sim"
)

// Parameters describe a machine in a file, as JSON. Times are nanoseconds, and those for a byte may be fractions.
type Parameters struct {
	Name           string         `json:"name"`
	RanksPerNode   int            `json:"ranks_per_node"`
	NodesPerSwitch int            `json:"nodes_per_switch"`
	Node           LinkParameters `json:"node"`
	Switch         LinkParameters `json:"switch"`
	Across         LinkParameters `json:"across"`
	// CopyPerByte is the cost of moving a byte for a core, at each end.
	CopyPerByte float64 `json:"copy_ns_per_byte"`
	// SharedPort and AckEvery are sim.NodePort, Credits and MaxFrame are sim.Config's.
	SharedPort bool `json:"shared_port"`
	AckEvery   int  `json:"ack_every"`
	Credits    int  `json:"credits"`
	MaxFrame   int  `json:"max_frame_bytes"`
	// Check, Lookup and Rebuild are Costs.
	Check   float64 `json:"check_ns"`
	Lookup  float64 `json:"lookup_ns"`
	Rebuild float64 `json:"rebuild_ns"`
}

// LinkParameters are sim.Link: LogGP.
type LinkParameters struct {
	Latency    float64 `json:"latency_ns"`
	Send       float64 `json:"send_ns"`
	Recv       float64 `json:"recv_ns"`
	Gap        float64 `json:"gap_ns"`
	GapPerByte float64 `json:"gap_ns_per_byte"`
}

// Load returns the machine that source names: a profile of package sim, or a file of Parameters.
func Load(source string) (Parameters, error) {
	if slices.Contains(sim.Profiles(), source) {
		return builtin(source)
	}
	b, err := os.ReadFile(source)
	if err != nil {
		return Parameters{}, fmt.Errorf("%q is no profile (%s) and no file that can be read: %w",
			source, strings.Join(sim.Profiles(), ", "), err)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	var p Parameters
	if err := d.Decode(&p); err != nil {
		return p, fmt.Errorf("%s: %w", source, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return p, fmt.Errorf("%s: something follows the parameters", source)
	}
	if p.RanksPerNode < 1 || p.NodesPerSwitch < 1 {
		return p, fmt.Errorf("%s: ranks_per_node and nodes_per_switch are to be 1 or more", source)
	}
	cfg := p.Config(1)
	if _, err := sim.New(cfg); err != nil {
		return p, fmt.Errorf("%s: %w", source, err)
	}
	return p, nil
}

// manyRanks stands for all ranks of a job where a profile has them on one node.
const manyRanks = 1 << 20

// builtin writes down a profile.
func builtin(name string) (Parameters, error) {
	cfg, err := sim.Profile(name, manyRanks)
	if err != nil {
		return Parameters{}, err
	}
	p := Parameters{
		Name: name, RanksPerNode: cfg.Topology.ProcsPerNode, NodesPerSwitch: cfg.Topology.NodesPerSwitch,
		Node: linkOf(cfg.Links[fabric.LinkNode]), Switch: linkOf(cfg.Links[fabric.LinkSwitch]),
		Across:      linkOf(cfg.Links[fabric.LinkAcross]),
		CopyPerByte: nanos(cfg.CPU.PerByte), SharedPort: cfg.NodePort.Shared, AckEvery: cfg.NodePort.AckEvery,
		Credits: cfg.Credits, MaxFrame: cfg.MaxFrame, Check: nanos(Awareness.Check), Lookup: nanos(Awareness.Lookup),
	}
	return p, nil
}

// Awareness is the measured cost of a message (Hursey & Graham §4.1): one byte took 0.85 µs instead of
// 0.84. The lookup of a rank is assumed to cost the same: "considerably reduced" (§4.3).
var Awareness = Costs{Check: 10 * sim.Nanosecond, Lookup: 10 * sim.Nanosecond}

// Config is the machine with n processes.
func (p Parameters) Config(n int) sim.Config {
	cfg := sim.DefaultConfig(n)
	cfg.Topology = sim.Topology{ProcsPerNode: p.RanksPerNode, NodesPerSwitch: p.NodesPerSwitch}
	cfg.Links[fabric.LinkNode] = p.Node.link()
	cfg.Links[fabric.LinkSwitch] = p.Switch.link()
	cfg.Links[fabric.LinkAcross] = p.Across.link()
	cfg.CPU.PerByte = picos(p.CopyPerByte)
	cfg.NodePort = sim.NodePort{Shared: p.SharedPort, AckEvery: p.AckEvery}
	cfg.Credits = p.Credits
	cfg.MaxFrame = p.MaxFrame
	return cfg
}

// Costs are those of fault awareness.
func (p Parameters) Costs() Costs {
	return Costs{Check: picos(p.Check), Lookup: picos(p.Lookup), Rebuild: picos(p.Rebuild)}
}

func linkOf(l sim.Link) LinkParameters {
	return LinkParameters{nanos(l.Latency), nanos(l.SendOverhead), nanos(l.RecvOverhead), nanos(l.Gap), nanos(l.GapPerByte)}
}

func (l LinkParameters) link() sim.Link {
	return sim.Link{Latency: picos(l.Latency), SendOverhead: picos(l.Send), RecvOverhead: picos(l.Recv),
		Gap: picos(l.Gap), GapPerByte: picos(l.GapPerByte)}
}

func nanos(d sim.Picos) float64 { return float64(d) / float64(sim.Nanosecond) }
func picos(ns float64) sim.Picos {
	return sim.Picos(ns*float64(sim.Nanosecond) + 0.5)
}
