package tcp

import "sync/atomic"

// Stats count what happened to this endpoint's connections.
type Stats struct {
	Strangers uint64 // connected, and did not say hello as a peer does
	Versions  uint64 // peers of another version
	Forgers   uint64 // said hello, and did not know the secret
	Misled    uint64 // knew it, and meant another process or another job
	Dawdlers  uint64 // did not come to an end in time
	Crowded   uint64 // had to go because too many others waited
	Heals     uint64 // connections made again
	Admitted  uint64 // connections that peers made to this process
}

// Refused is the number of connections that were not let in.
func (s Stats) Refused() uint64 {
	return s.Strangers + s.Versions + s.Forgers + s.Misled + s.Dawdlers + s.Crowded
}

// tallies are what Stats is read from. Who polls adds, or between Depart and
// Close the doorman; anybody reads.
type tallies struct {
	strangers, versions, forgers, misled, dawdlers, crowded, heals, admitted atomic.Uint64
}

// Stats counts what has happened so far, also after Close. Any goroutine may call
// it at any time.
func (p *Provider) Stats() Stats {
	t := &p.stats
	return Stats{
		Strangers: t.strangers.Load(), Versions: t.versions.Load(), Forgers: t.forgers.Load(), Misled: t.misled.Load(),
		Dawdlers: t.dawdlers.Load(), Crowded: t.crowded.Load(), Heals: t.heals.Load(), Admitted: t.admitted.Load(),
	}
}
