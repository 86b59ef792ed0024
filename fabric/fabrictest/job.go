package fabrictest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/banyan-hpc/banyan/internal/proc"
)

// Job is one run of one case: N processes, all running the case's body.
type Job struct {
	Case string // name of a [Case]
	N    int    // processes 0 … N-1
	Seed uint64 // of all random choices of the run
	Args map[string]int64
	// Victims are killed from outside at moments that the driver draws from Seed: real processes by
	// SIGKILL while they run, simulated ones at a step.
	Victims []proc.ID
}

// Record is one report of a process. Records are streamed, so those of a process that is killed
// later are kept.
type Record struct {
	Kind string
	Text string  `json:",omitempty"`
	Vals []int64 `json:",omitempty"`
}

// The kinds of records that the suite itself interprets. Cases add their own.
const (
	recordFail = "fail" // Text is the reason: the case fails
	recordExit = "exit" // Vals[0] is the intended exit code
	recordDie  = "die"  // the process is about to kill itself
	// recordDoomed: the process is going to count as dead, and may be killed for it.
	recordDoomed = "doomed"
)

// End is how a process of a job ended.
type End struct {
	Kind proc.Kind // Departed here: the body returned and its clean-up is done
	Code int       // exit code for Exited, signal for Signaled
}

// String returns it in words.
func (e End) String() string {
	if e.Kind == proc.Departed {
		return "ended in order"
	}
	return proc.Cause{Kind: e.Kind, Code: int32(e.Code)}.String()
}

// Outcome is the result of one process.
type Outcome struct {
	ID      proc.ID
	End     End
	Records []Record
	Stderr  string // its standard error, where it has one
}

// Vals returns the values of the last record of a kind, or nil.
func (o *Outcome) Vals(kind string) []int64 {
	for i := len(o.Records) - 1; i >= 0; i-- {
		if o.Records[i].Kind == kind {
			return o.Records[i].Vals
		}
	}
	return nil
}

func (o *Outcome) has(kind string) bool {
	return slices.ContainsFunc(o.Records, func(r Record) bool { return r.Kind == kind })
}

// Driver starts, kills and awaits processes. One job runs at a time.
type Driver interface {
	// Run runs a job until every process has ended. An error is the driver's own: it could not
	// start, or the job hung, and then the error lists where each process waits. The processes'
	// findings are in the outcomes, in the order of ids.
	Run(job Job) ([]Outcome, error)
	// Isolated reports whether each process has an address space of its own, so that its leaks and
	// allocations can be measured.
	Isolated() bool
}

// SignalEnded is the signal that the driver gives for a process once it has ended, in any way.
const SignalEnded = "ended"

// Control connects a body to its driver and, by signals, to the other bodies, past the provider
// under test. A body may use it from any goroutine of its process.
type Control interface {
	// Signal announces to every process that this one has reached a point.
	Signal(name string)
	// Seen reports whether peer has given the signal, without waiting. When a signal arrives the
	// driver rings the host, so a body may sleep for it.
	Seen(peer proc.ID, name string) bool
	// Await waits, without polling the provider, for a signal or for peer's end.
	Await(peer proc.ID, name string)
	// Record stores a record with the driver.
	Record(r Record)
	// Die ends the process at once as a kill from outside would. It does not return.
	Die()
	// Exit ends the process with an exit code, without clean-up. It does not return.
	Exit(code int)
}

// complaints returns the failures that the bodies recorded.
func complaints(outs []Outcome) error {
	var wrong []error
	for i := range outs {
		for _, r := range outs[i].Records {
			if r.Kind == recordFail {
				wrong = append(wrong, fmt.Errorf("%v: %s", outs[i].ID, r.Text))
			}
		}
	}
	return errors.Join(wrong...)
}

// judge checks, for every case, that each process ended as expected.
func judge(job Job, outs []Outcome) error {
	if len(outs) != job.N {
		return fmt.Errorf("%d outcomes of %d processes", len(outs), job.N)
	}
	var wrong []error
	for i := range outs {
		o := &outs[i]
		if want := expectedEnd(job, o); o.End != want && !(o.has(recordDoomed) && o.End == killed) {
			wrong = append(wrong, fmt.Errorf("%v: %v, should have %v\n%s", o.ID, o.End, want, o.Stderr))
		}
	}
	return errors.Join(wrong...)
}

func expectedEnd(job Job, o *Outcome) End {
	if slices.Contains(job.Victims, o.ID) || o.has(recordDie) {
		return killed
	}
	if v := o.Vals(recordExit); v != nil {
		return End{proc.Exited, int(v[0])}
	}
	return End{Kind: proc.Departed}
}

// killed is the end of a process that was killed or killed itself.
var killed = End{proc.Signaled, 9}
