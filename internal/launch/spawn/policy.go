package spawn

import "time"

// Policy says what happens to the others when a rank fails: is killed by a
// signal, exits with a code other than 0, or joins and exits without
// finalizing.
type Policy uint8

const (
	// Continue leaves them alone. When the launcher dies they go on as well.
	Continue Policy = iota
	// Abort ends them: SIGTERM, five seconds later SIGKILL. When the launcher
	// dies the kernel kills them.
	Abort
)

// Bind says on which CPUs ranks run.
type Bind uint8

const (
	// BindNone leaves the ranks on the CPUs of the launcher.
	BindNone Bind = iota
	// BindCore gives rank i the i-th of the CPUs on which the launcher may run,
	// one per physical core before any second one, and sets GOMAXPROCS to 1
	// unless it is set. With more ranks than CPUs it begins again at the first:
	// ranks then share CPUs.
	BindCore
)

// KillGrace is the time between SIGTERM and SIGKILL when a job is ended.
const KillGrace = 5 * time.Second
