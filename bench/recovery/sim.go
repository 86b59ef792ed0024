package recovery

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

// Point is one agreement of a simulated job.
type Point struct {
	Ranks  int `json:"ranks"`
	Failed int `json:"failed"`
	// What says which agreement of the job it is: see Simulate.
	What string `json:"what"`
	// Time is virtual: from the moment in which all living ranks call until the last has returned.
	Time time.Duration `json:"time_ns"`
	// Messages are the frames of agreements that were sent in it.
	Messages int `json:"messages"`
}

// The agreements of a simulated job, in their order.
const (
	First     = "first"          // connections are made
	Connected = "connected"      // as all that follow
	Stricken  = "after failures" // that nobody has looked for
	Recovered = "recovered"      // the next: the failures are agreed
)

// apart is the virtual time between two agreements, from call to call: more than any takes.
const apart = 100 * time.Millisecond

// simulation is what the ranks of a simulated job write to. They run one at a time.
type simulation struct {
	mu   sync.Mutex
	last []time.Duration // by agreement: when the last rank has returned
	sent []int           // the same: frames
	part []byte
}

// Simulate has all ranks of a simulated job agree twice, kills failures of them, and has the others agree
// twice again.
func Simulate(ranks, failures int, seed uint64) ([]Point, error) {
	o := Options{Op: Agree, Ranks: ranks, Failures: failures, Rounds: 1, Calls: 1}
	if ranks <= MaxRanks || failures > ranks-2 {
		if err := o.Check(); err != nil {
			return nil, err
		}
	}
	names := []string{First, Connected}
	if failures > 0 {
		names = append(names, Stricken, Recovered)
	}
	s := &simulation{last: make([]time.Duration, len(names)), sent: make([]int, len(names))}
	err := banyan.Simulate(ranks, banyan.Simulation{
		Seed:      seed,
		Configure: func(c *sim.Config) { c.Trace = s },
		Faults: func(m *sim.Sim) error {
			for _, rank := range victims(ranks, failures) {
				if err := m.Kill(proc.ID(rank), fabric.Time(2*apart+apart/2)); err != nil {
					return err
				}
			}
			return nil
		},
	}, s.rank)
	if err != nil {
		return nil, err
	}
	points := make([]Point, len(names))
	for i, name := range names {
		points[i] = Point{Ranks: ranks, What: name, Time: s.last[i] - begin(i), Messages: s.sent[i]}
		if i >= 2 {
			points[i].Failed = failures
		}
	}
	return points, nil
}

// begin is when an agreement is called.
func begin(i int) time.Duration { return time.Duration(i+1) * apart }

// rank is what each rank does.
func (s *simulation) rank(w *banyan.World) error {
	for i := range s.last {
		w.Sleep(begin(i) - w.Now())
		if _, err := w.Comm().Agree(1); err != nil && !errors.Is(err, banyan.ErrProcFailed) {
			return err
		}
		at := w.Now()
		if at >= begin(i+1) {
			return fmt.Errorf("an agreement took %v", at-begin(i))
		}
		s.mu.Lock()
		s.last[i] = max(s.last[i], at)
		s.mu.Unlock()
	}
	w.Sleep(begin(len(s.last)) - w.Now()) // nobody's end is in an agreement
	return nil
}

// Write reads the simulator's trace and counts the frames of agreements that are sent.
func (s *simulation) Write(p []byte) (int, error) {
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

var ofAgree = fmt.Appendf(nil, " class=%d ", fabric.ClassAgree)

// line looks at one line of the trace: "1234.567 send 3 > 7 class=1 size=64".
func (s *simulation) line(text []byte) error {
	at, event, ok := bytes.Cut(text, []byte(" "))
	if !ok || !bytes.HasPrefix(event, []byte("send ")) || !bytes.Contains(event, ofAgree) {
		return nil
	}
	ns, err := strconv.ParseFloat(string(at), 64)
	if err != nil {
		return fmt.Errorf("a trace that says when: %w", err)
	}
	if i := int(time.Duration(ns)/apart) - 1; i >= 0 && i < len(s.sent) {
		s.sent[i]++
	}
	return nil
}
