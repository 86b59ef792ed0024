package main

import (
	"encoding/hex"
	"net/netip"
	"slices"
	"strconv"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/bench/compare/suite"
	"github.com/banyan-hpc/banyan/bench/peers"
	"github.com/banyan-hpc/banyan/fabric/tcp"
	"github.com/banyan-hpc/banyan/internal/job"
)

// gate is a rank's TCP port, as who floods it must know it. It is asked between
// jobs, by the goroutine that measures.
type gate interface {
	// Listening is where the job's other ranks connect.
	Listening() netip.AddrPort
	// Forgery is what one says who knows all but the secret: the beginning of
	// a handshake and a wrong proof.
	Forgery() []byte
	// Refused counts the connections that were not let in.
	Refused() uint64
	// Joined counts those that were: one for each peer, and one more each time that
	// a connection was made again.
	Joined() uint64
}

// worldGate is the gate of this process's world.
type worldGate struct {
	world   *banyan.World
	forgery tcp.Forgery
	to      netip.AddrPort
}

// gateOf returns the gate of a world; nil where it listens at no TCP port.
func gateOf(w *banyan.World) gate {
	blob := job.Joined().Published("tcp")
	if blob == nil {
		return nil
	}
	f, err := tcp.Forge(blob)
	if err != nil || len(f.To) == 0 {
		return nil
	}
	g := &worldGate{world: w, forgery: f, to: f.To[0]}
	// The flood comes from this machine, by the way that its ranks take.
	if i := slices.IndexFunc(f.To, func(a netip.AddrPort) bool { return a.Addr().IsLoopback() }); i >= 0 {
		g.to = f.To[i]
	}
	return g
}

func (g *worldGate) Listening() netip.AddrPort { return g.to }
func (g *worldGate) Forgery() []byte           { return g.forgery.Words }
func (g *worldGate) Refused() uint64           { return g.world.Counters().Refused.Total() }
func (g *worldGate) Joined() uint64            { return g.world.Counters().Admitted }

// answersOf are a gate's answers; nil without one.
func answersOf(g gate) peers.Answers {
	if g == nil {
		return nil
	}
	number := func(n func() uint64) func() string {
		return func() string { return strconv.FormatUint(n(), 10) }
	}
	return peers.Answers{
		suite.AskListening: func() string { return g.Listening().String() },
		suite.AskForgery:   func() string { return hex.EncodeToString(g.Forgery()) },
		suite.AskRefused:   number(g.Refused),
		suite.AskJoined:    number(g.Joined),
	}
}
