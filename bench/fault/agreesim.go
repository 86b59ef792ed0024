package fault

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// AgreePoint is one agreement of a simulated job.
type AgreePoint struct {
	Ranks  int `json:"ranks"`
	Failed int `json:"failed"`
	// What is the agreement's place in the job: FirstAgree and so on.
	What string `json:"what"`
	// Time is virtual: from the call, at the same time at all survivors, to the last return.
	Time time.Duration `json:"time_ns"`
	// Messages are the frames that the agreement sent.
	Messages int `json:"messages"`
}

// The agreements of a simulated job, in their order.
const (
	FirstAgree     = "first"          // makes the connections
	ConnectedAgree = "connected"      // as all that follow
	StrickenAgree  = "after failures" // finds them
	RecoveredAgree = "recovered"      // with agreed failures
)

// agreePeriod is the virtual time from one call to the next, more than any agreement takes.
const agreePeriod = 100 * time.Millisecond

// agreeSim is written by the ranks of a simulated job. They run one at a time.
type agreeSim struct {
	mu   sync.Mutex
	last []time.Duration // by agreement: the last return
	sent []int           // by agreement: frames
	part []byte
}

// SimulateAgree has all ranks of a simulated job agree twice, kills some of them, and has the others
// agree twice again.
func SimulateAgree(ranks, failures int, seed uint64) ([]AgreePoint, error) {
	o := Recovery{Op: Agree, Ranks: ranks, Failures: failures, Rounds: 1, Calls: 1}
	if ranks <= MaxRanks || failures > ranks-2 {
		if err := o.Check(); err != nil {
			return nil, err
		}
	}
	names := []string{FirstAgree, ConnectedAgree}
	if failures > 0 {
		names = append(names, StrickenAgree, RecoveredAgree)
	}
	s := &agreeSim{last: make([]time.Duration, len(names)), sent: make([]int, len(names))}
	err := banyan.Simulate(ranks, banyan.Simulation{
		Seed:      seed,
		Configure: func(c *sim.Config) { c.Trace = s },
		Faults: func(m *sim.Sim) error {
			for _, rank := range o.victims() {
				if err := m.Kill(proc.ID(rank), fabric.Time(2*agreePeriod+agreePeriod/2)); err != nil {
					return err
				}
			}
			return nil
		},
	}, s.rank)
	if err != nil {
		return nil, err
	}
	points := make([]AgreePoint, len(names))
	for i, name := range names {
		points[i] = AgreePoint{Ranks: ranks, What: name, Time: s.last[i] - callTime(i), Messages: s.sent[i]}
		if i >= 2 {
			points[i].Failed = failures
		}
	}
	return points, nil
}

// callTime is the virtual time of an agreement's call.
func callTime(i int) time.Duration { return time.Duration(i+1) * agreePeriod }

// rank is the part of each rank.
func (s *agreeSim) rank(w *banyan.World) error {
	for i := range s.last {
		w.Sleep(callTime(i) - w.Now())
		if _, err := w.Comm().Agree(1); err != nil && !errors.Is(err, banyan.ErrProcFailed) {
			return err
		}
		at := w.Now()
		if at >= callTime(i+1) {
			return fmt.Errorf("an agreement took %v", at-callTime(i))
		}
		s.mu.Lock()
		s.last[i] = max(s.last[i], at)
		s.mu.Unlock()
	}
	w.Sleep(callTime(len(s.last)) - w.Now()) // no rank ends during an agreement
	return nil
}

// Write reads the simulator's trace and counts the frames of agreements.
func (s *agreeSim) Write(p []byte) (int, error) {
	s.part = append(s.part, p...)
	for {
		end := bytes.IndexByte(s.part, '\n')
		if end < 0 {
			s.part = append([]byte(nil), s.part...)
			return len(p), nil
		}
		if err := s.line(s.part[:end]); err != nil {
			return 0, err
		}
		s.part = s.part[end+1:]
	}
}

var agreeClass = fmt.Appendf(nil, " class=%d ", fabric.ClassAgree)

// line handles a line of the trace, such as "1234.567 send 3 > 7 class=1 size=64".
func (s *agreeSim) line(text []byte) error {
	at, event, ok := bytes.Cut(text, []byte(" "))
	if !ok || !bytes.HasPrefix(event, []byte("send ")) || !bytes.Contains(event, agreeClass) {
		return nil
	}
	ns, err := strconv.ParseFloat(string(at), 64)
	if err != nil {
		return fmt.Errorf("a trace line without a time: %w", err)
	}
	if i := int(time.Duration(ns)/agreePeriod) - 1; i >= 0 && i < len(s.sent) {
		s.sent[i]++
	}
	return nil
}
