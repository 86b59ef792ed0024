package drill

import (
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// reader reads the ranks' standard output, and has doomed ranks killed.
type reader struct {
	p     *plan
	flood func(netip.AddrPort) // nil: none
	kill  func(rank, pid int, after time.Duration) error
	pids  map[int]int // by rank
	ends  map[int]*lastWords
	text  strings.Builder

	mu     sync.Mutex
	over   bool
	timers []*time.Timer
	victim []*os.Process
}

// lastWords is the report of a rank that ends well.
type lastWords struct {
	ops, failed int
	blamed      []int
}

// Write implements io.Writer; the launcher writes whole lines.
func (r *reader) Write(b []byte) (int, error) {
	for line := range strings.Lines(string(b)) {
		r.text.WriteString(line)
		var rank, pid int
		var port string
		if _, err := fmt.Sscanf(line, beginFormat, &rank, &pid, &port); err == nil {
			r.pids[rank] = pid
			if to, err := netip.ParseAddrPort(port); err == nil && r.flood != nil {
				r.flood(to)
			}
			if err := r.arm(rank, pid); err != nil {
				return 0, err
			}
			continue
		}
		if err := r.last(line); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

// arm has a rank killed in its time, unless it kills itself.
func (r *reader) arm(rank, pid int) error {
	d, doomed := r.p.doomed[rank]
	if !doomed || d.op > 0 || d.aim != noKind || d.last || d.first {
		return nil
	}
	return r.kill(rank, pid, d.delay)
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

// last reads a rank's final report.
func (r *reader) last(line string) error {
	head, names, ok := strings.Cut(strings.TrimSuffix(line, "]\n"), " [")
	if !ok {
		return fmt.Errorf("not a rank's report: %q", line)
	}
	var rank int
	end := &lastWords{}
	if _, err := fmt.Sscanf(head, strings.TrimSuffix(endFormat, " %v\n"), &rank, &end.ops, &end.failed); err != nil {
		return fmt.Errorf("%q: %w", line, err)
	}
	for name := range strings.FieldsSeq(names) {
		blamed, err := strconv.Atoi(name)
		if err != nil {
			return err
		}
		end.blamed = append(end.blamed, blamed)
	}
	if r.ends == nil {
		r.ends = map[int]*lastWords{}
	}
	r.ends[rank] = end
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
