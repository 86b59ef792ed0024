package tcp

import "sync/atomic"

// Stats count what happened to this endpoint's connections.
type Stats struct {
	NotPeer         uint64 // connected, and did not say hello as a peer does
	OtherVersion    uint64 // peers of another version
	Unauthenticated uint64 // said hello, and did not know the secret
	Misdirected     uint64 // knew it, and meant another process or another job
	TimedOut        uint64 // did not come to an end in time
	Evicted         uint64 // had to go because too many others waited
	Reconnects      uint64 // connections made again
	Accepted        uint64 // connections that peers made to this process
}

// Refused is the number of connections that were not let in.
func (s Stats) Refused() uint64 {
	return s.NotPeer + s.OtherVersion + s.Unauthenticated + s.Misdirected + s.TimedOut + s.Evicted
}

// counters are what Stats is read from. Who polls adds, or between Depart and
// Close the doorman; anybody reads.
type counters struct {
	notPeer, otherVersion, unauthenticated, misdirected, timedOut, evicted, reconnects, accepted atomic.Uint64
}

// Stats counts what has happened so far, also after Close. Any goroutine may call
// it at any time.
func (p *Provider) Stats() Stats {
	t := &p.stats
	return Stats{
		NotPeer: t.notPeer.Load(), OtherVersion: t.otherVersion.Load(), Unauthenticated: t.unauthenticated.Load(), Misdirected: t.misdirected.Load(),
		TimedOut: t.timedOut.Load(), Evicted: t.evicted.Load(), Reconnects: t.reconnects.Load(), Accepted: t.accepted.Load(),
	}
}
