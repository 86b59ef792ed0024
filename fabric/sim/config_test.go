package sim

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

func TestNewNamesTheFieldThatIsWrong(t *testing.T) {
	for field, spoil := range map[string]func(*Config){
		"Procs":                   func(c *Config) { c.Procs = 0 },
		"Topology.ProcsPerNode":   func(c *Config) { c.Topology.ProcsPerNode = 0 },
		"Topology.NodesPerSwitch": func(c *Config) { c.Topology.NodesPerSwitch = -1 },
		"Credits":                 func(c *Config) { c.Credits = 0 },
		"MaxFrame":                func(c *Config) { c.MaxFrame = 0 },
		"Inline":                  func(c *Config) { c.Inline = c.MaxFrame + 1 },
		"Eager":                   func(c *Config) { c.Eager = -1 },
		"Spikes.Chance":           func(c *Config) { c.Spikes.Chance = math.NaN() },
		"Spikes.Min":              func(c *Config) { c.Spikes = Spikes{Chance: 0.5, Min: 0, Max: Second} },
		"Spikes.Max":              func(c *Config) { c.Spikes.Max = -1; c.Spikes.Min = -1 },
		"LossAtDeath":             func(c *Config) { c.LossAtDeath = 1.5 },
		"Detection.Min":           func(c *Config) { c.Detection.Min = c.Detection.Max + 1 },
		"Detection.Max":           func(c *Config) { c.Detection.Max = maxLength + 1 },
		"CPU.PerByte":             func(c *Config) { c.CPU.PerByte = -1 },
		"CPU.EmptyPoll":           func(c *Config) { c.CPU.EmptyPoll = 0 },
		"CPU.Yield":               func(c *Config) { c.CPU.Yield = 0 },
		"Links[2].Latency":        func(c *Config) { c.Links[2].Latency = -1 },
		"Links[1].SendOverhead":   func(c *Config) { c.Links[1].SendOverhead = 2 * Second },
		"Links[1].RecvOverhead":   func(c *Config) { c.Links[1].RecvOverhead = -1 },
		"Links[3].Gap":            func(c *Config) { c.Links[3].Gap = -1 },
		"Links[0].GapPerByte":     func(c *Config) { c.Links[0].GapPerByte = Second },
		"MaxTime":                 func(c *Config) { c.MaxTime = 0 },
		"MaxSteps":                func(c *Config) { c.MaxSteps = 0 },
	} {
		cfg := DefaultConfig(4)
		_, err := New(cfg)
		require.NoError(t, err)
		spoil(&cfg)
		_, err = New(cfg)
		require.ErrorContains(t, err, "Config."+field+" is ")
	}
}

func TestWrongArgumentsAreErrors(t *testing.T) {
	s := newSim(t, DefaultConfig(2))
	spawn(t, s, 0, func(p *Proc) {
		_, err := p.Provider().Connect(fabric.ConnectSpec{Peer: 0, Address: []byte("nonsense")})
		require.ErrorContains(t, err, "no address of this provider")
		_, err = p.Provider().Connect(fabric.ConnectSpec{Peer: 1, Address: p.Provider().Address()})
		require.ErrorContains(t, err, "another process's")
		_, err = p.Provider().Connect(fabric.ConnectSpec{Peer: 1, Address: Address(1)})
		require.ErrorContains(t, err, "no such process")
		_, err = p.Provider().Connect(fabric.ConnectSpec{Peer: 7, Address: Address(7)})
		require.ErrorContains(t, err, "no such process")
		require.NoError(t, p.Provider().Close())
		require.NoError(t, p.Provider().Close())
		_, err = p.Provider().Connect(fabric.ConnectSpec{Peer: 0, Address: Address(0)})
		require.ErrorIs(t, err, fabric.ErrClosed)
	})
	require.ErrorContains(t, s.Spawn(0, nil), "process 0 has been spawned before")
	require.ErrorContains(t, s.Spawn(2, nil), "process 2 is outside")
	require.ErrorContains(t, s.Kill(2, 0), "process 2 is outside")
	require.ErrorContains(t, s.KillAtStep(2, 1), "process 2 is outside")
	require.ErrorContains(t, s.KillAtStep(1, 1), "process 1 has not been spawned")
	require.ErrorContains(t, s.Partition(Partition{A: []proc.ID{2}, To: 1}), "process 2 is outside")
	require.ErrorContains(t, s.Partition(Partition{From: 5, To: 5}), "partition from 5 to 5")
	require.NoError(t, s.Run())
	require.ErrorContains(t, s.Run(), "called before")
}

func TestTopology(t *testing.T) {
	top := Topology{ProcsPerNode: 2, NodesPerSwitch: 3}
	for _, c := range []struct {
		a, b proc.ID
		want fabric.LinkClass
	}{
		{3, 3, fabric.LinkSelf},
		{2, 3, fabric.LinkNode},
		{1, 2, fabric.LinkSwitch},
		{0, 5, fabric.LinkSwitch},
		{5, 6, fabric.LinkAcross},
		{11, 0, fabric.LinkAcross},
	} {
		require.Equal(t, c.want, top.class(c.a, c.b), "%d to %d", c.a, c.b)
		require.Equal(t, c.want, top.class(c.b, c.a), "%d to %d", c.b, c.a)
	}
}

func TestCaps(t *testing.T) {
	cfg := DefaultConfig(20)
	cfg.Get = true
	s := newSim(t, cfg)
	spawn(t, s, 0, func(p *Proc) {
		n := newNode(p)
		require.Equal(t, "sim", n.prov.Name())
		require.Equal(t, fabric.Caps{Inline: 48, MaxFrame: 8192, Eager: 16384, Get: true}, n.connect(19).Caps())
		require.Equal(t, proc.ID(19), n.connect(19).Peer())
	})
	spawn(t, s, 19, func(p *Proc) { require.Equal(t, Address(19), p.Provider().Address()) })
	require.NoError(t, s.Run())
}
