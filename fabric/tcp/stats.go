package tcp

import "sync/atomic"

// Stats count the events of this endpoint's connections.
type Stats struct {
	NotPeer         uint64 // connections that did not send the hello of a peer
	OtherVersion    uint64 // peers of another version
	Unauthenticated uint64 // sent a hello, and did not have the secret
	Misdirected     uint64 // had the secret, and looked for another process or another job
	TimedOut        uint64 // did not complete the handshake in time
	Evicted         uint64 // closed because too many handshakes were in progress
	Reconnects      uint64 // connections made again
	Accepted        uint64 // connections accepted from peers
}

// Refused is the number of connections that were not accepted.
func (s Stats) Refused() uint64 {
	return s.NotPeer + s.OtherVersion + s.Unauthenticated + s.Misdirected + s.TimedOut + s.Evicted
}

// counters are the source of Stats. The polling goroutine adds, or between Depart and Close the
// acceptor; any goroutine reads.
type counters struct {
	notPeer, otherVersion, unauthenticated, misdirected, timedOut, evicted, reconnects, accepted atomic.Uint64
}

// Stats returns the counts so far, also after Close. Any goroutine may call it at any time.
func (p *Provider) Stats() Stats {
	t := &p.stats
	return Stats{
		NotPeer: t.notPeer.Load(), OtherVersion: t.otherVersion.Load(), Unauthenticated: t.unauthenticated.Load(),
		Misdirected: t.misdirected.Load(), TimedOut: t.timedOut.Load(), Evicted: t.evicted.Load(),
		Reconnects: t.reconnects.Load(), Accepted: t.accepted.Load(),
	}
}
