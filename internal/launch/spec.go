package launch

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/banyan-hpc/banyan/internal/launch/hosts"
	"github.com/banyan-hpc/banyan/internal/launch/pmi"
	"github.com/banyan-hpc/banyan/internal/launch/spawn"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// Spec describes a job.
type Spec struct {
	N    int      // number of ranks, at least 1
	Argv []string // the program, found as a shell finds it, and its arguments
	Env  []string // "NAME=value"; nil means the launcher's environment
	Dir  string   // working directory; "" means the launcher's
	// Export are further variables: "NAME=value", or "NAME" for one of Env, which only matters to
	// ranks on Hosts.
	Export []string

	// Hosts are the machines on which the ranks run, in blocks: the first one gets as many as it
	// has slots, then the second one. nil: this machine, without a remote shell. Ranks on hosts
	// have the environment of the remote shell, and over it those variables of Env that begin with
	// BANYAN_ or GO (not BANYAN_NODE, which names one machine) and those of Export. Argv and Dir
	// are paths on the host.
	Hosts []hosts.Host
	// Oversubscribe allows more ranks than the hosts have slots.
	Oversubscribe bool
	// Shell starts Proxy on a host; nil: [hosts.DefaultShell]. Proxy is a program that calls
	// [hosts.Proxy], with its arguments, such as "/usr/bin/ftbench", "proxy".
	Shell hosts.Shell
	Proxy []string

	Bind      spawn.Bind
	OnFailure spawn.Policy
	// MaxFailures ends the job, as [Abort] does, when more ranks have failed. 0: there is no bound.
	MaxFailures int
	// Exit decides which ranks' ends make Result.Code.
	Exit ExitRule
	// Exits has the kernel record the ranks' ends on this machine; on Hosts that is a matter of
	// Proxy. nil: it does not.
	Exits spawn.OpenExits
	// Verdicts are exit codes other than 0 that are results and not failures, as diff's 1. Those of
	// a rank that has finalized count in Result.Code, but are not reported and end no other rank.
	Verdicts []int
	// InitTimeout bounds the start-up, see [pmi.DefaultInitTimeout], and the time for a host to be
	// ready. 0: by [pmi.InitTimeoutEnv]. A job whose ranks never join has no start-up.
	InitTimeout time.Duration

	// TagOutput begins each line of a rank's output with "[rank] ".
	TagOutput bool
	// Stdout and Stderr receive the ranks' output by whole lines; lines longer than 64 KiB are cut.
	// Without TagOutput an unfinished line that has not been continued for 50 ms is passed on: it
	// may be a prompt. The launcher's own lines go to Stderr. nil discards. They may be the same
	// writer or the same file: then writes do not overlap. After an error nothing more is written,
	// see [Result.Output].
	Stdout, Stderr io.Writer
	// Stdin is for rank 0; the others read the end of file. nil: so does rank 0. A terminal is read
	// while this process is in its foreground. If it is no *os.File, Run may leave one read pending
	// when it returns.
	Stdin io.Reader
	// Signals are forwarded to the ranks and their children; see [Signals]. The second SIGINT,
	// SIGTERM or SIGQUIT kills the ranks; one that comes when all have ended gives up the output.
	// SIGTSTP stops the ranks and then this process, so SIGCONT must be among the signals as well.
	// nil or closed: none.
	Signals <-chan os.Signal
	// Events is called for each event, in order and from one goroutine: first for each rank that
	// has been started. It must not wait, as the job waits for it. nil: no calls.
	Events func(Event)
}

// plan is a Spec that has been checked and completed.
type plan struct {
	Spec
	env    []string
	here   spawn.Spawner // without Hosts
	shares []hosts.Share // of Hosts
}

// check finds the errors that are known before the first process starts.
func (s Spec) check() (plan, error) {
	p := plan{Spec: s}
	if s.N < 1 || s.N > proc.MaxIDs {
		return p, fmt.Errorf("launch: %d ranks: 1 to %d are possible", s.N, proc.MaxIDs)
	}
	if len(s.Argv) == 0 {
		return p, errors.New("launch: no program is named")
	}
	if s.MaxFailures < 0 {
		return p, fmt.Errorf("launch: at most %d failures: a number from 0 on is needed, 0 for no bound", s.MaxFailures)
	}
	if s.InitTimeout < 0 {
		return p, fmt.Errorf("launch: a start-up of %v: a time above 0 is needed, or 0 for the default", s.InitTimeout)
	}
	var err error
	if p.InitTimeout == 0 {
		if p.InitTimeout, err = pmi.ParseInitTimeout(os.Getenv(pmi.InitTimeoutEnv)); err != nil {
			return p, err
		}
	}
	if p.env = s.Env; p.env == nil {
		p.env = os.Environ()
	}
	exported, err := spawn.Exported(p.env, s.Export)
	if err != nil {
		return p, err
	}
	p.env = spawn.WithoutLauncher(append(slices.Clip(p.env), exported...))
	if s.Hosts != nil {
		return p, p.checkHosts()
	}
	p.here = spawn.Spawner{
		N: s.N, Argv: s.Argv, Dir: s.Dir, Env: p.env, Bind: s.Bind, OnFailure: s.OnFailure,
		OpenExits: s.Exits, Stdin: s.Stdin, Count: s.N,
	}
	return p, p.here.Check()
}

// checkHosts finds the errors of a job on hosts that are known without reaching them.
func (p *plan) checkHosts() (err error) {
	if len(p.Hosts) == 0 {
		return errors.New("launch: an empty list of hosts")
	}
	if p.shares, err = hosts.Assign(p.Hosts, p.N, p.Oversubscribe); err != nil {
		return err
	}
	if len(p.Proxy) == 0 {
		return errors.New("launch: hosts need the name of the program that is the proxy on them")
	}
	if p.Shell == nil {
		if p.Shell, err = hosts.ParseShell(hosts.DefaultShell); err != nil {
			return err
		}
	}
	p.Dir = cmp.Or(p.Dir, ".")
	if p.Dir, err = filepath.Abs(p.Dir); err != nil {
		return fmt.Errorf("launch: working directory: %w", err)
	}
	return nil
}
