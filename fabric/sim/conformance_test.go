package sim_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/fabrictest"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// simDriver runs a job of the conformance suite in virtual time.
type simDriver struct {
	configure func(*sim.Config)
}

func (simDriver) Isolated() bool { return false }

func (d simDriver) Run(job fabrictest.Job) ([]fabrictest.Outcome, error) {
	cfg := sim.DefaultConfig(job.N)
	cfg.Seed = job.Seed
	cfg.MaxSteps = 5_000_000 // the watchdog: a body that polls for ever
	d.configure(&cfg)
	s, err := sim.New(cfg)
	if err != nil {
		return nil, err
	}
	j := &simJob{Job: job, seen: make(map[given]bool), outs: make([]fabrictest.Outcome, job.N)}
	for i := range job.N {
		if err := s.Spawn(proc.ID(i), j.play); err != nil {
			return nil, err
		}
	}
	rng := rand.New(rand.NewPCG(job.Seed, 1))
	for _, v := range job.Victims {
		// Any order of magnitude of steps has the same probability. A sleeping victim takes none,
		// so the clock kills it at the latest.
		const most = 6000
		step := math.Exp(rng.Float64() * math.Log(most))
		latest := fabric.Time(100 * step)
		if err := errors.Join(s.KillAtStep(v, uint64(step)), s.Kill(v, latest)); err != nil {
			return nil, err
		}
	}
	err = s.Run()
	for i := range j.outs {
		o := &j.outs[i]
		o.ID = proc.ID(i)
		if o.End.Kind == proc.Departed {
			continue
		}
		if c, ok := s.Ended(o.ID); ok {
			o.End = fabrictest.End{Kind: c.Kind, Code: int(c.Code)}
		}
	}
	return j.outs, err
}

// simJob is one run. One process runs at a time, so nothing is locked.
type simJob struct {
	fabrictest.Job
	outs []fabrictest.Outcome
	// hosts of all started processes: a signal wakes all of them.
	hosts []fabric.Host
	seen  map[given]bool
}

type given struct {
	from proc.ID
	name string
}

func (j *simJob) play(p *sim.Proc) {
	c := &simControl{j, p}
	// Also when the process is killed, because its stack is unwound then.
	defer c.Signal(fabrictest.SignalEnded)
	j.hosts = append(j.hosts, p.Host())
	addrs := make([][]byte, j.N)
	for i := range addrs {
		addrs[i] = sim.Address(proc.ID(i))
	}
	e := fabrictest.NewEnv(fabrictest.Setup{
		Job: j.Job, ID: p.ID(), Provider: p.Provider(), Host: p.Host(), Addrs: addrs, Control: c,
	})
	if e.Play() {
		j.outs[p.ID()].End.Kind = proc.Departed
	}
}

// simControl connects one process to the driver.
type simControl struct {
	j *simJob
	p *sim.Proc
}

func (c *simControl) Signal(name string) {
	c.j.seen[given{c.p.ID(), name}] = true
	for _, h := range c.j.hosts {
		h.Ring()
	}
}

func (c *simControl) Seen(peer proc.ID, name string) bool { return c.j.seen[given{peer, name}] }

func (c *simControl) Await(peer proc.ID, name string) {
	for !c.Seen(peer, name) && !c.Seen(peer, fabrictest.SignalEnded) {
		c.p.Host().Arm()
		c.p.Host().Sleep(fabric.Forever)
	}
}

func (c *simControl) Record(r fabrictest.Record) {
	o := &c.j.outs[c.p.ID()]
	o.Records = append(o.Records, r)
}

func (c *simControl) Die() { c.p.Die(proc.Cause{Kind: proc.Signaled, Code: 9}) }

func (c *simControl) Exit(code int) { c.p.Die(proc.Cause{Kind: proc.Exited, Code: int32(code)}) }

func TestConformance(t *testing.T) {
	variants := map[string]func(*sim.Config){
		"get":       func(c *sim.Config) { c.Get, c.Blocks, c.Moves, c.Fetch = true, true, true, true },
		"default":   func(*sim.Config) {}, // no Get
		"tight":     func(c *sim.Config) { c.Credits, c.MaxFrame = 1, 256 },
		"scattered": func(c *sim.Config) { c.Topology = sim.Topology{ProcsPerNode: 1, NodesPerSwitch: 2} },
		"spiky": func(c *sim.Config) {
			c.Spikes = sim.Spikes{Chance: 0.1, Min: sim.Microsecond, Max: 10 * sim.Millisecond}
		},
	}
	if testing.Short() { // the other variants differ in the simulator, not in the shared state of goroutines
		variants = map[string]func(*sim.Config){"get": variants["get"]}
	}
	for name, configure := range variants {
		t.Run(name, func(t *testing.T) {
			fabrictest.Run(t, simDriver{configure}, budget(name))
		})
	}
}

// budget gives most time to the most capable configuration.
func budget(variant string) fabrictest.Budget {
	switch {
	case os.Getenv("BANYAN_LONG") != "":
		return fabrictest.Budget{Kills: 100_000, Wakeups: 1_000_000, Rounds: 1000}
	case testing.Short():
		return fabrictest.Budget{Kills: 5, Wakeups: 300, Rounds: 3}
	case variant == "get":
		return fabrictest.Budget{Kills: 200, Wakeups: 10_000, Rounds: 50}
	default:
		return fabrictest.Budget{Kills: 60, Wakeups: 2000, Rounds: 10}
	}
}
