package sim

import (
	"fmt"
	"syscall"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// disconnectedCause is the cause with which Disconnect ends a connection: as if one side lacked a
// descriptor.
var disconnectedCause = proc.Cause{Kind: proc.Unreachable, Code: int32(syscall.EMFILE)}

// Disconnect makes two processes unable to connect from a virtual time on, or from now on if that
// is past: both live and reach the others. An existing connection ends at both with cause
// proc.Unreachable, and Connect of either returns fabric.ErrNoPath.
func (s *Sim) Disconnect(a, b proc.ID, at fabric.Time) error {
	for _, id := range []proc.ID{a, b} {
		if err := s.checkID(id); err != nil {
			return err
		}
	}
	if a == b {
		return fmt.Errorf("sim: %v parted from itself", a)
	}
	s.push(max(instant(at), s.present()), &disconnection{a, b})
	return nil
}

// disconnection is the event of a Disconnect.
type disconnection struct{ a, b proc.ID }

func (pt *disconnection) happen(s *Sim) *task {
	if s.disconnected == nil {
		s.disconnected = make(map[pair]bool)
	}
	s.disconnected[pairOf(pt.a, pt.b)] = true
	a, b := s.procs[pt.a], s.procs[pt.b]
	if a == nil || b == nil || !a.end.open() || !b.end.open() {
		return nil
	}
	f := a.end.flows.Get(pt.b)
	if f == nil || f.broken {
		return nil
	}
	f.broken, f.back.broken = true, true
	s.record(traceBreak, pt.a, pt.b, 0, 0)
	_ = (&evidence{f, disconnectedCause}).happen(s) // wakes by ringing
	return (&evidence{f.back, disconnectedCause}).happen(s)
}

// pair is two processes, the lower first.
type pair struct{ low, high proc.ID }

func pairOf(a, b proc.ID) pair { return pair{min(a, b), max(a, b)} }
