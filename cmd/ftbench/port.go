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

// portAnswers are the answers of this rank about its TCP port, for the flood of unauthenticated
// connections; nil where it listens on none. They are asked for between jobs.
func portAnswers(w *banyan.World) peers.Answers {
	blob := job.Joined().Published("tcp")
	if blob == nil {
		return nil
	}
	f, err := tcp.Forge(blob)
	if err != nil || len(f.To) == 0 {
		return nil
	}
	to := f.To[0]
	// The flood comes from this machine, through the interface of its ranks.
	if i := slices.IndexFunc(f.To, func(a netip.AddrPort) bool { return a.Addr().IsLoopback() }); i >= 0 {
		to = f.To[i]
	}
	number := func(n func() uint64) func() string {
		return func() string { return strconv.FormatUint(n(), 10) }
	}
	return peers.Answers{
		suite.AskListening: to.String,
		suite.AskForgery:   func() string { return hex.EncodeToString(f.Words) },
		suite.AskRefused:   number(func() uint64 { return w.Counters().Refused.Total() }),
		suite.AskJoined:    number(func() uint64 { return w.Counters().Admitted }),
	}
}
