package launch

import (
	"slices"

	"github.com/banyan-hpc/banyan/internal/launch/hosts"
	"github.com/banyan-hpc/banyan/internal/launch/join"
	"github.com/banyan-hpc/banyan/internal/launch/spawn"
)

// ExitRule decides which ranks' ends make [Result.Code]. Under each rule the code is not 0 when a
// failure has ended the job ([Abort], [Spec.MaxFailures]), when a rank has asked for the end with a
// code, and when output could not be written.
type ExitRule uint8

const (
	// ExitAny: the status of the first rank that failed, 0 when none did.
	ExitAny ExitRule = iota
	// ExitRank0: the status of rank 0.
	ExitRank0
	// ExitSurvivors is for jobs that go on without failed ranks. A rank that was killed by a
	// signal, lost with its host, or fenced ([join.ExitFenced]) does not count. The code is the
	// status of the first rank that exited with another code, or without finalizing. A signal that
	// Run has forwarded counts too. When no rank has survived, the code is the status of the first
	// that failed.
	ExitSurvivors
)

// failed accounts for a rank that has failed by itself. It reports whether the job is to end.
func (j *job) failed(end spawn.End) (enough bool) {
	if j.failures++; j.failures == 1 {
		j.firstStatus = end.Status()
	}
	if j.counts(end) {
		j.settle(end.Status())
	}
	limit := j.plan.MaxFailures
	if enough = j.plan.OnFailure == spawn.Abort || limit > 0 && j.failures > limit; enough {
		j.settle(j.firstStatus)
	}
	return enough
}

// counts reports whether the rule takes the status of a failed rank for that of the job.
func (j *job) counts(end spawn.End) bool {
	switch j.plan.Exit {
	case ExitRank0:
		return end.Rank == 0
	case ExitSurvivors:
		fenced := end.Code == join.ExitFenced && !end.Finalized
		killed := end.Signal != 0 && !j.forwarded.has(end.Signal)
		return !(end.Lost || fenced || killed)
	}
	return true
}

// hostLost is called when the connection to a host has ended before the job there. The ends of its
// ranks arrive separately.
func (j *job) hostLost(l hosts.Loss) {
	j.tell(Event{Kind: Failure, Rank: -1, Host: l.Host, Text: l.Text})
	if j.plan.Exit == ExitAny {
		j.settle(1)
	}
}

// allEnded is called when the last rank has ended.
func (j *job) allEnded() {
	if j.failures > 0 && !slices.ContainsFunc(j.ends, func(e spawn.End) bool { return !e.Failed() }) {
		j.settle(j.firstStatus)
	}
}

// Result is how a job ended.
type Result struct {
	Job  string      // its name
	Ends []spawn.End // by rank
	// Code is the exit status for the launcher, by Spec.Exit: by default the status of the first
	// rank that failed, 0 when none did. A rank that asked for the end of the job counts with its
	// code, output that could not be written with 1, or as SIGPIPE (141) when its reader was gone.
	Code int
	// Output is the first error of writing to Spec.Stdout or Spec.Stderr. Ranks do not notice, and
	// their later output is lost; with [Abort] they are ended.
	Output error
}
