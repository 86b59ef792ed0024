package sim

import (
	"errors"
	"fmt"
	"strings"

	"github.com/banyan-hpc/banyan/internal/proc"
)

var (
	// ErrDeadlock: no event is left, and processes still wait. The text lists them and their
	// places.
	ErrDeadlock = errors.New("sim: deadlock")
	// ErrTimeLimit: the run exceeded Config.MaxTime.
	ErrTimeLimit = errors.New("sim: virtual time beyond Config.MaxTime")
	// ErrStepLimit: the run took more than Config.MaxSteps steps.
	ErrStepLimit = errors.New("sim: more steps than Config.MaxSteps")
)

// PanicError: the code of a process panicked.
type PanicError struct {
	Process proc.ID
	Value   any
	Stack   []byte
}

// Error gives the process, the value and the stack.
func (e *PanicError) Error() string {
	return fmt.Sprintf("sim: %v panicked: %v\n%s", e.Process, e.Value, e.Stack)
}

// maxPlaces bounds the report of a run that was given up.
const maxPlaces = 16

// describeStuck adds the waiting activities to an error about waiting. It unwinds them for that,
// because only the activity itself can read its stack.
func (s *Sim) describeStuck() {
	if s.err != ErrDeadlock && s.err != ErrTimeLimit && s.err != ErrStepLimit {
		return
	}
	var stuck []*task
	for _, p := range s.procs {
		if p != nil && !p.over {
			stuck = append(stuck, p.tasks...)
		}
	}
	told := stuck[:min(len(stuck), maxPlaces)]
	reasons := make([]waiting, len(told))
	for i, t := range told {
		reasons[i] = t.wait // before unwinding one wakes another
		t.place = "its beginning"
	}
	s.reportPlaces = true
	s.shutdown()
	var b strings.Builder
	for i, t := range told {
		fmt.Fprintf(&b, "\n\t%v: %s since %d ns at %s", t.p.id, waitingNames[reasons[i]], t.since.time(), t.place)
	}
	if more := len(stuck) - len(told); more > 0 {
		fmt.Fprintf(&b, "\n\tand %d more", more)
	}
	s.err = fmt.Errorf("%w, at %d ns:%s", s.err, s.now.time(), b.String())
}
