package pmi

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// phase is how far a rank has come.
type phase uint8

const (
	starting  phase = iota // its process runs and has not sent cmd=init
	attached               // between init and finalize
	departed               // finalized in order
	lostPhase              // ended, or cut off, without finalizing
)

// peer is the server's record of one rank.
type peer struct {
	phase   phase
	joined  bool   // has ever sent cmd=init
	arrived bool   // in the current barrier
	why     string // for lostPhase: completes "rank 2 …"
	givenUp bool   // a rank has put its LostKey
	bytes   int    // published
	entries int
}

// barrier is one round. done is closed when it completes; lost is set before.
type barrier struct {
	done    chan struct{}
	lost    []Lost
	pending sync.WaitGroup // ranks in it whose reply is not written yet
}

// Server is the launcher's side of PMI-1 without its connections: requests in, replies out. One
// mutex guards everything; no operation under it blocks.
type Server struct {
	ID      string
	timeout time.Duration         // for the first barrier, from the first init
	grace   time.Duration         // GiveUpGrace
	host    func(rank int) string // names the host of a rank, for people; nil: there are none

	mu       sync.Mutex
	peers    []peer
	kv       map[string]string
	round    *barrier      // the one that ranks enter now
	arrived  int           // ranks that have entered it
	absent   int           // ranks that never will
	waiting  int           // ranks in phase starting
	started  bool          // the first barrier has completed with all ranks
	broken   *barrier      // the first barrier, when it failed: the answer to all later ones
	refused  string        // the last refusal: it may explain a missing rank
	expired  chan struct{} // closed when the time for the first barrier has passed without it
	deadline *time.Timer   // closes expired; set by the first init
	graces   []*time.Timer // of ranks that have been given up
}

// NewServer makes the server of a job on one node. timeout bounds the time from the first init to
// the last.
func NewServer(id string, size int, timeout time.Duration) *Server {
	return &Server{
		ID: id, timeout: timeout, grace: GiveUpGrace,
		peers: make([]peer, size), waiting: size,
		kv:      map[string]string{MappingKey: Nodes(1, size).String(), RangeKey: "1"},
		round:   &barrier{done: make(chan struct{})},
		expired: make(chan struct{}),
	}
}

// SetNodes replaces the mapping of a single node, before any rank has joined. A nil m publishes
// none. host may be nil.
func (s *Server) SetNodes(m Mapping, host func(rank int) string) {
	s.host = host
	delete(s.kv, MappingKey)
	if m != nil {
		s.kv[MappingKey] = m.String()
	}
}

func (s *Server) attach(p *peer, m Message) (outcome, error) {
	if p.phase != starting {
		return outcome{}, errors.New("cmd=init a second time: one process of a rank joins, once")
	}
	if m.Get("pmi_version") != "1" {
		return outcome{reply: Encode("response_to_init", "pmi_version", "1", "pmi_subversion", "1", "rc", "-1")}, nil
	}
	p.phase, p.joined = attached, true
	s.waiting--
	if s.deadline == nil {
		s.deadline = time.AfterFunc(s.timeout, s.expire)
	}
	return outcome{reply: Encode("response_to_init", "pmi_version", "1", "pmi_subversion", "1", "rc", "0")}, nil
}

func (s *Server) enter(p *peer) (outcome, error) {
	if s.broken != nil {
		// A session may wait for the original's pending, which must not grow.
		late := &barrier{done: s.broken.done, lost: s.broken.lost}
		late.pending.Add(1)
		return outcome{wait: late}, nil
	}
	if p.arrived {
		return outcome{}, errors.New("cmd=barrier_in inside a barrier")
	}
	p.arrived = true
	s.arrived++
	round := s.round
	round.pending.Add(1)
	s.settle()
	return outcome{wait: round}, nil
}

// leave takes a rank out: it will enter no further barrier.
func (s *Server) leave(p *peer, to phase, why string) {
	if p.phase == departed || p.phase == lostPhase {
		return
	}
	if p.phase == starting {
		s.waiting--
	}
	p.phase, p.why = to, why
	if !p.arrived {
		s.absent++
	}
	s.settle()
}

// Lose marks a rank as ended or cut off. how completes the sentence "rank 2 …". It reports whether
// the rank had finalized before, and whether it had joined at all.
func (s *Server) Lose(rank int, how string) (finalized, hadJoined bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &s.peers[rank]
	how = s.on(rank) + how
	finalized, hadJoined = p.phase == departed, p.joined
	switch {
	case !hadJoined:
		how += " before it joined"
	case !s.started:
		how += " before the first barrier"
	}
	s.leave(p, lostPhase, how)
	return finalized, hadJoined
}

// on is "on host " for the host of a rank, or "".
func (s *Server) on(rank int) string {
	if s.host == nil {
		return ""
	}
	return "on " + s.host(rank) + " "
}

// expire is called when the time for the first barrier has passed.
func (s *Server) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.started {
		close(s.expired)
		s.settle()
	}
}

// Explain sets a possible explanation of a missing rank, such as the last refusal. Errors of the
// start-up quote it.
func (s *Server) Explain(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = why
}

// Overdue is closed when the time for the first barrier has passed without it.
func (s *Server) Overdue() <-chan struct{} { return s.expired }

// IsOverdue reports whether the channel of Overdue is closed.
func (s *Server) IsOverdue() bool {
	select {
	case <-s.expired:
		return true
	default:
		return false
	}
}

// settle completes the current barrier when no further rank can enter it. The first barrier fails
// as soon as one rank cannot.
func (s *Server) settle() {
	switch {
	case s.arrived == 0 || s.broken != nil:
	case s.started && s.arrived+s.absent == len(s.peers):
		s.release()
	case !s.started && (s.absent > 0 || s.waiting > 0 && s.IsOverdue()):
		s.broken = s.round
		s.release()
	case !s.started && s.arrived == len(s.peers):
		s.started = true
		s.deadline.Stop()
		s.release()
	}
}

func (s *Server) release() {
	done := s.round
	if s.broken == nil {
		s.round = &barrier{done: make(chan struct{})}
	}
	s.arrived, s.absent = 0, 0
	for rank := range s.peers {
		p := &s.peers[rank]
		if !p.arrived {
			done.lost = appendLost(done.lost, rank, p, s)
		}
		p.arrived = false
		if p.phase == departed || p.phase == lostPhase {
			s.absent++
		}
	}
	close(done.done)
}

// appendLost adds a rank that has not arrived, with two exceptions: a rank that has finalized is
// missing at start-up only, and a start-up that fails for another reason does not name ranks that
// may still join.
func appendLost(lost []Lost, rank int, p *peer, s *Server) []Lost {
	switch {
	case p.phase == lostPhase:
		return append(lost, Lost{rank, p.why})
	case p.phase == departed && !s.started:
		return append(lost, Lost{rank, s.on(rank) + "finalized before the first barrier"})
	case p.phase == starting && s.IsOverdue():
		why := fmt.Sprintf("%shas not joined within %v", s.on(rank), s.timeout)
		if len(lost) == 0 && s.refused != "" {
			why += " (" + s.refused + ")"
		}
		return append(lost, Lost{rank, why})
	}
	return lost
}

// Failure returns the ranks that were missing when the start-up failed, nil if it has not.
func (s *Server) Failure() *MissingError {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken == nil {
		return nil
	}
	return &MissingError{Lost: s.broken.lost, Total: len(s.broken.lost)}
}

// HasJoined reports whether a rank has ever sent cmd=init.
func (s *Server) HasJoined(rank int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.peers[rank].joined
}

// Joining is the number of ranks that have ever sent cmd=init. over: the first barrier has completed or failed.
func (s *Server) Joining() (joined int, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.peers {
		if s.peers[i].joined {
			joined++
		}
	}
	return joined, s.started || s.broken != nil
}

// Stop ends the server's timer.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.deadline != nil {
		s.deadline.Stop()
	}
	for _, t := range s.graces {
		t.Stop()
	}
}
