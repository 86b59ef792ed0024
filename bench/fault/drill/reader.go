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

// reader is the ranks' standard output: it kills those who are doomed.
type reader struct {
	p       *plan
	besiege func(netip.AddrPort) // nil: nobody comes
	pids    map[int]int          // by rank
	ends    map[int]*lastWords
	text    strings.Builder

	mu     sync.Mutex
	over   bool
	timers []*time.Timer
	victim []*os.Process
}

// lastWords are what a rank says when it ends well.
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
			if to, err := netip.ParseAddrPort(port); err == nil && r.besiege != nil {
				r.besiege(to)
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

// arm has a rank killed in its time. The process is held by a descriptor, so that
// nobody else is killed who has its number later.
func (r *reader) arm(rank, pid int) error {
	d, doomed := r.p.doomed[rank]
	if !doomed || d.op > 0 || d.aim != noKind || d.last || d.first {
		return nil
	}
	victim, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.victim = append(r.victim, victim)
	r.timers = append(r.timers, time.AfterFunc(d.delay, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !r.over {
			_ = victim.Kill() // it may have ended before
		}
	}))
	return nil
}

// last reads what a rank says at its end.
func (r *reader) last(line string) error {
	head, names, ok := strings.Cut(strings.TrimSuffix(line, "]\n"), " [")
	if !ok {
		return fmt.Errorf("not a rank's word: %q", line)
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

// stop kills nobody any more.
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
