package main

import (
	"encoding/hex"
	"net/netip"
	"strconv"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/bench/peers"
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

// gateOf returns the gate of a world; nil where it has none.
func gateOf(w *banyan.World) gate {
	g, _ := any(w).(gate)
	return g
}

// What the driver asks about a gate.
const (
	askListening = "listening"
	askForgery   = "forgery"
	askRefused   = "refused"
	askJoined    = "joined"
)

// answersOf are a gate's answers; nil without one.
func answersOf(g gate) peers.Answers {
	if g == nil {
		return nil
	}
	number := func(n func() uint64) func() string {
		return func() string { return strconv.FormatUint(n(), 10) }
	}
	return peers.Answers{
		askListening: func() string { return g.Listening().String() },
		askForgery:   func() string { return hex.EncodeToString(g.Forgery()) },
		askRefused:   number(g.Refused),
		askJoined:    number(g.Joined),
	}
}
