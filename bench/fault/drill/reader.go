package drill

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// report is a line of a rank: that it has started, or, with End, that it ends well.
type report struct {
	Rank int
	PID  int        `json:",omitempty"`
	Port string     `json:",omitempty"` // for unauthenticated connections; "": none
	End  *endReport `json:",omitempty"`
}

// endReport is the report of a survivor at its end.
type endReport struct {
	Ops, Failed int
	Blamed      []int
	Notes       []note
}

// write writes the line in one piece.
func (r report) write(to io.Writer) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = to.Write(append(line, '\n'))
	return err
}

// note is the outcome of an agreement, a shrink or another operation that all survivors must see alike.
// Sets of ranks are bits, by their number in the world.
type note struct {
	Kind   Kind
	Value  uint64 // the agreed value; the members of a communicator; the class of an outcome
	Failed uint64 // the ranks that the error names
}

// String names it.
func (n note) String() string {
	return fmt.Sprintf("%v gave %#x, failed %#x", n.Kind, n.Value, n.Failed)
}

// reader reads the ranks' standard output, and has doomed ranks killed.
type reader struct {
	p     *plan
	flood func(netip.AddrPort) // nil: none
	kill  func(rank, pid int, after time.Duration) error
	pids  map[int]int // by rank
	ends  map[int]*endReport
	text  strings.Builder

	mu     sync.Mutex
	over   bool
	timers []*time.Timer
	victim []*os.Process
}

func newReader(p *plan) *reader {
	return &reader{p: p, pids: map[int]int{}, ends: map[int]*endReport{}}
}

// Write implements io.Writer; the launcher and simulated ranks write whole lines.
func (r *reader) Write(b []byte) (int, error) {
	for line := range strings.Lines(string(b)) {
		r.text.WriteString(line)
		var got report
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			return 0, fmt.Errorf("not a rank's report: %q: %w", line, err)
		}
		if got.End != nil {
			r.ends[got.Rank] = got.End
			continue
		}
		r.pids[got.Rank] = got.PID
		if to, err := netip.ParseAddrPort(got.Port); err == nil && r.flood != nil {
			r.flood(to)
		}
		d, doomed := r.p.doomed[got.Rank]
		if !doomed || !d.byTimer() {
			continue // it does not die, or kills itself
		}
		if err := r.kill(got.Rank, got.PID, d.delay); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

// survivors are the ranks that have come to their end.
func (r *reader) survivors() []int { return slices.Sorted(maps.Keys(r.ends)) }

// compare returns an error if survivors have different notes.
func (r *reader) compare() error {
	ranks := r.survivors()
	for _, rank := range ranks {
		first, notes := r.ends[ranks[0]].Notes, r.ends[rank].Notes
		if len(notes) != len(first) {
			return fmt.Errorf("rank %d has %d agreements and shrinks, rank %d %d",
				rank, len(notes), ranks[0], len(first))
		}
		for k, n := range notes {
			if n != first[k] {
				return fmt.Errorf("rank %d: %d: %v; rank %d: %v", rank, k, n, ranks[0], first[k])
			}
		}
	}
	return nil
}

// killProcess kills a process after a time. A descriptor holds the process, so that no other process
// is killed that has its number later.
func (r *reader) killProcess(_, pid int, after time.Duration) error {
	victim, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.victim = append(r.victim, victim)
	r.timers = append(r.timers, time.AfterFunc(after, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !r.over {
			_ = victim.Kill() // it may have ended before
		}
	}))
	return nil
}

// stop disarms all kills.
func (r *reader) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	for _, timer := range r.timers {
		timer.Stop()
	}
	for _, victim := range r.victim {
		_ = victim.Release() // it has been killed, or has ended
	}
}
