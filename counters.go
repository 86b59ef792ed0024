package banyan

import (
	"fmt"
	"strings"
	"time"

	"github.com/banyan-hpc/banyan/fabric/tcp"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// Counters are what this rank has counted at its sockets since Init, and what its
// failure detector has seen. Shared memory and the simulator have no sockets; where no
// pair of ranks needs them, what is counted there stays 0. They only grow.
type Counters struct {
	// Admitted are the connections that other ranks have made to this one, each
	// after it had proved to know the job's secret. One that is made again counts
	// again.
	Admitted uint64
	// Healed are the connections, of whichever side, that broke and were made again;
	// nothing was lost. Many of them tell of a bad network, or of somebody in it.
	Healed uint64
	// Refused are those that were not let in.
	Refused Refused
	// Detector tells how much patience this job needs.
	Detector Detector
}

// Detector is what a rank's failure detector has seen so far, to set detect.timeout by:
// a job whose ranks are late or silent for more than half of it is near a false
// failure. Without a detector all is 0.
type Detector struct {
	// Late is the longest time by which this rank's heartbeats were held up, because
	// it got no core or was stopped.
	Late time.Duration
	// Silence is the longest that nothing was heard of a rank that this one observes
	// and that then was heard: its lateness and the network's. Up to detect.period
	// is usual. Time for which this rank did not run itself is left out.
	Silence time.Duration
	// Suspicions is how often this rank has asked all others for a rank after such
	// a silence, which begins two periods before detect.timeout.
	Suspicions uint64
}

// plus is what two ranks have seen.
func (d Detector) plus(o Detector) Detector {
	return Detector{max(d.Late, o.Late), max(d.Silence, o.Silence), d.Suspicions + o.Suspicions}
}

// Refused counts connections to this rank's sockets that were not let in, by reason.
// Crowded may be some of the job's own ranks, which come back by themselves; all
// others were never let near the job.
type Refused struct {
	// Strangers did not speak this protocol, or left before they had said anything.
	Strangers uint64
	// Versions are processes of another version of this library.
	Versions uint64
	// Forgers spoke the protocol and did not know the job's secret.
	Forgers uint64
	// Misled knew the secret, and meant another process than this one.
	Misled uint64
	// Dawdlers did not come to an end with their handshake in time.
	Dawdlers uint64
	// Crowded had to go because too many others were in the middle of theirs.
	Crowded uint64
}

// Total is the number of all.
func (r Refused) Total() uint64 {
	return r.Strangers + r.Versions + r.Forgers + r.Misled + r.Dawdlers + r.Crowded
}

// Plus is the sum of two ranks' counters, and the longer of their times.
func (c Counters) Plus(o Counters) Counters {
	c.Admitted += o.Admitted
	c.Healed += o.Healed
	c.Refused.Strangers += o.Refused.Strangers
	c.Refused.Versions += o.Refused.Versions
	c.Refused.Forgers += o.Refused.Forgers
	c.Refused.Misled += o.Refused.Misled
	c.Refused.Dawdlers += o.Refused.Dawdlers
	c.Refused.Crowded += o.Refused.Crowded
	c.Detector = c.Detector.plus(o.Detector)
	return c
}

// String gives what is counted at sockets in a line, as "admitted 3, healed 0, refused 12 (10
// strangers, 2 forgers)".
func (c Counters) String() string {
	s := fmt.Sprintf("admitted %d, healed %d, refused %d", c.Admitted, c.Healed, c.Refused.Total())
	var kinds []string
	for _, k := range []struct {
		n    uint64
		what string
	}{
		{c.Refused.Strangers, "strangers"}, {c.Refused.Versions, "of other versions"}, {c.Refused.Forgers, "forgers"},
		{c.Refused.Misled, "misled"}, {c.Refused.Dawdlers, "dawdlers"}, {c.Refused.Crowded, "crowded out"},
	} {
		if k.n > 0 {
			kinds = append(kinds, fmt.Sprintf("%d %s", k.n, k.what))
		}
	}
	if kinds != nil {
		s += " (" + strings.Join(kinds, ", ") + ")"
	}
	return s
}

// Counters returns what this rank has counted so far. Any goroutine may call it at
// any time, also after Finalize; it takes some nanoseconds and waits for nobody.
func (w *World) Counters() Counters {
	var c Counters
	if w == nil {
		return c
	}
	for _, p := range w.counting {
		s := p.Stats()
		c = c.Plus(Counters{
			Admitted: s.Accepted, Healed: s.Reconnects,
			Refused: Refused{s.NotPeer, s.OtherVersion, s.Unauthenticated, s.Misdirected, s.TimedOut, s.Evicted},
		})
	}
	if w.pulse != nil {
		s := w.pulse.Stats()
		c.Detector = Detector{time.Duration(s.Late), time.Duration(s.Silence), s.Suspicions}
	}
	return c
}

// counting is a provider that counts. Precondition of an implementation: Stats may be
// called by any goroutine at any time.
type counting interface{ Stats() tcp.Stats }

// countingOf lists the providers of a configuration that count.
func countingOf(cfg *progress.Config) []counting {
	var out []counting
	for _, p := range cfg.Others {
		if c, ok := p.(counting); ok {
			out = append(out, c)
		}
	}
	return out
}

// tally tells the log what was counted, if there was anything to count, and nothing
// more of connections.
func (w *World) tally() {
	if l, ok := w.job.(*launched); ok {
		l.remarks.stop()
	}
	if w.logf != nil && len(w.counting) > 0 {
		w.logf("connections: %v", w.Counters())
	}
}
