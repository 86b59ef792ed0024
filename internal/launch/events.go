package launch

import (
	"github.com/banyan-hpc/banyan/internal/launch/hosts"
	"github.com/banyan-hpc/banyan/internal/launch/spawn"
)

// EventKind is the kind of an [Event].
type EventKind string

const (
	// Started: a rank runs. Rank, Host and PID are set.
	Started EventKind = "started"
	// Exited: a rank has ended, and its output is written. Rank, Host, PID and End are set.
	Exited EventKind = "exited"
	// Failure: the launcher has reported a failure. Text is the printed message; Rank is -1 if the
	// failure is not that of a rank.
	Failure EventKind = "failure"
)

// Event is a step in the life of a job.
type Event struct {
	Kind EventKind
	Rank int    // -1: of no rank
	Host string // of Spec.Hosts; "" without
	PID  int
	End  End
	Text string
}

// tell passes an event on. Only loop's goroutine calls it.
func (j *job) tell(e Event) {
	if j.plan.Events == nil {
		return
	}
	if e.Rank >= 0 && e.Host == "" {
		e.Host = hosts.NameOf(j.plan.shares, e.Rank)
	}
	j.plan.Events(e)
}

// report prints a failure of a rank, or of no rank (-1), and passes it to Events.
func (j *job) report(rank int, text string) {
	j.note("%s", text)
	j.tell(Event{Kind: Failure, Rank: rank, Text: text})
}

// tellStarted passes an event for each rank to Events when all have been started.
func (j *job) tellStarted() {
	for _, t := range j.targets {
		switch t := t.(type) {
		case *spawn.Process:
			j.tell(Event{Kind: Started, Rank: t.Number, PID: t.PID()})
		case *hosts.Remote:
			for _, r := range t.Ranks {
				j.tell(Event{Kind: Started, Rank: r.Number, PID: r.PID()})
			}
		}
	}
}
