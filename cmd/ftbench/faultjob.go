package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"time"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/launch"
	"github.com/banyan-hpc/banyan/internal/netns"
)

// startedBy names the variable by which a rank knows that this command has started it:
// in anybody else's job nobody would kill.
const startedBy = "BANYAN_FAULT_DETECT"

// deadlyJob starts jobs some of whose ranks may end.
type deadlyJob struct {
	args   []string
	export []string
	err    io.Writer
	bind   bool
	exits  exitsFlag
	net    *netns.Net // nil: all ranks are on this machine
	hosts  int        // of net
	// initTimeout is how long ranks may take to join; 0: what the environment or launch says.
	initTimeout time.Duration
	abort       bool // the first failure ends the job: what follows from it says nothing
}

// start implements faultbench.Start.
func (j *deadlyJob) start(ctx context.Context, ranks, kills int, out io.Writer) error {
	return j.run(ctx, ranks, out, func(rank int, end launch.End) bool {
		return rank >= ranks-kills && end.Signal == unix.SIGKILL
	})
}

// run starts a job and waits for its end; an error says which rank failed that was not
// to end as it did.
func (j *deadlyJob) run(ctx context.Context, ranks int, out io.Writer, rightly func(rank int, end launch.End) bool) error {
	self, err := selfPath()
	if err != nil {
		return err
	}
	spec := launch.Spec{
		N: ranks, Argv: append([]string{self}, j.args...), OnFailure: launch.Continue,
		Env: os.Environ(), Export: append([]string{startedBy + "=1"}, j.export...), Stdout: out, Stderr: j.err,
		InitTimeout: j.initTimeout,
	}
	if j.abort {
		spec.OnFailure = launch.Abort
	}
	if j.bind {
		spec.Bind = launch.BindCore
	}
	j.exits.setExits(&spec)
	if j.net != nil {
		if spec.Proxy, err = proxyCommand(""); err != nil {
			return err
		}
		spread(&spec, j.net, j.hosts)
	}
	result, err := launch.Run(ctx, spec)
	if err != nil {
		return err
	}
	for rank, end := range result.Ends {
		if end.Failed() && !rightly(rank, end) {
			return fmt.Errorf("fault: rank %d %v", rank, end)
		}
	}
	return result.Output
}

// deadlyRank is a rank of a job that a command of fault has started itself.
func deadlyRank(command string, do func(*banyan.World) error, fabrics fabricList, opts ...banyan.Option) error {
	if os.Getenv(startedBy) == "" {
		return usagef("fault %s: it starts its ranks itself and is hard on them: run it alone, not in another launcher's job", command)
	}
	if fabrics != "" {
		opts = append(opts, banyan.WithFabric(string(fabrics)))
	}
	return inJob(true, do, append(opts, banyan.WithErrorsFatal(false))...) // they look at every error
}

// withoutKills passes on all but the launcher's remarks about those who were to die.
type withoutKills struct{ to io.Writer }

var killed = regexp.MustCompile(`(?m)^banyan: rank \d+ was killed by SIGKILL after .*\n`)

// Write implements io.Writer; the launcher writes whole lines.
func (w *withoutKills) Write(p []byte) (int, error) { return sieve(w.to, killed, p) }

// withoutEnds passes on all but the words about ranks that fall silent and end themselves as they were to.
type withoutEnds struct{ to io.Writer }

var ended = regexp.MustCompile(fmt.Sprintf(`(?m)^banyan: rank \d+(: nothing was heard of rank | ends itself: | (on \S+ )?exited with code %d ).*\n`, banyan.ExitExpelled))

// Write implements io.Writer; the launcher writes whole lines.
func (w *withoutEnds) Write(p []byte) (int, error) { return sieve(w.to, ended, p) }

// sieve writes what does not match.
func sieve(to io.Writer, unwanted *regexp.Regexp, p []byte) (int, error) {
	if rest := unwanted.ReplaceAll(p, nil); len(rest) > 0 {
		if _, err := to.Write(rest); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}
