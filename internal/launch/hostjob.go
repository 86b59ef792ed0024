package launch

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/internal/launch/hosts"
	"github.com/banyan-hpc/banyan/internal/launch/spawn"
)

const (
	// startMax bounds the hosts that are being reached at once: each may cost a process that does
	// cryptography.
	startMax = 32
	// progressPause is the time between two lines about a start that is under way.
	progressPause = 2 * time.Second
	// flushGrace is how long a launcher that is to stop waits until its signals to hosts are
	// written.
	flushGrace = time.Second
)

// InterruptedError: a signal has ended the job before all hosts were ready, or two of them before
// all ranks were started.
type InterruptedError struct{ Signal unix.Signal }

// Error names the signal.
func (e *InterruptedError) Error() string {
	return fmt.Sprintf("launch: %v before the ranks were started", unix.SignalName(e.Signal))
}

// startHosts starts a proxy on each host, waits until all are ready, and only then has the ranks
// started. When it fails it ends everything, and loop waits for that.
func (j *job) startHosts(ctx context.Context) error {
	p := &j.plan
	j.srv.SetNodes(hosts.Mapping(p.shares), func(rank int) string { return hosts.NameOf(p.shares, rank) })
	answers := make(chan hosts.Answer, 3*len(p.shares)) // ready, started, and one failure
	all := &hosts.Config{
		ID: j.srv.ID, N: p.N, Argv: p.Argv, Dir: p.Dir, Env: p.env, Export: p.Export, Bind: p.Bind,
		OnFailure: p.OnFailure, WholeLines: p.TagOutput, Stdin: p.Stdin != nil,
		Shell: p.Shell, Proxy: p.Proxy, Timeout: p.InitTimeout,
		Work: &j.work, Turn: make(chan struct{}, startMax), Answers: answers, Lost: j.lost,
		Print: j.err.write, Note: j.err.note,
	}
	for _, s := range p.shares {
		h := all.NewRemote(s)
		j.hosts = append(j.hosts, h)
		j.work.Go(h.Run)
	}
	if err := j.gather(ctx, answers, "ready", j.early); err != nil {
		for _, h := range j.hosts {
			h.Kill("the job was given up")
		}
		return err
	}
	for _, h := range j.hosts {
		if err := h.OpenInput(); err != nil {
			j.note("rank 0 gets no input: %v", spawn.Explain(err))
		}
		for _, r := range h.Ranks {
			j.supervise(&r.Rank)
		}
		h.Begin()
	}
	err := j.gather(ctx, answers, "started", j.late)
	for _, h := range j.hosts {
		if err == nil {
			err = h.Running()
		}
	}
	if err != nil {
		j.dismissHosts()
		return err
	}
	for _, h := range j.hosts {
		j.targets = append(j.targets, h)
		j.left += h.Count
	}
	return nil
}

// gather waits until all hosts have answered, one has failed, or the launcher is to end. onSignal
// returns an error if a signal ends the launcher.
func (j *job) gather(ctx context.Context, answers <-chan hosts.Answer, what string,
	onSignal func(s unix.Signal, waiting int) error) error {
	progress := time.NewTicker(progressPause)
	defer progress.Stop()
	waiting := make(map[*hosts.Remote]bool, len(j.hosts))
	for _, h := range j.hosts {
		waiting[h] = true
	}
	take := func(a hosts.Answer) error {
		if a.Err == nil {
			delete(waiting, a.Host)
		}
		return a.Err
	}
	for len(waiting) > 0 {
		select {
		case a := <-answers:
			if err := take(a); err != nil {
				return err
			}
		case sig, open := <-j.plan.Signals:
			if !open {
				j.plan.Signals = nil
			}
			for len(answers) > 0 { // these precede the signal
				if err := take(<-answers); err != nil {
					return err
				}
			}
			if s, ok := sig.(unix.Signal); ok {
				if err := onSignal(s, len(waiting)); err != nil {
					return err
				}
			}
		case <-ctx.Done():
			return fmt.Errorf("launch: the job was ended before the hosts were %s: %w", what, context.Cause(ctx))
		case <-progress.C:
			j.noteWaiting(waiting, what)
		}
	}
	return nil
}

// early handles a signal that comes before the ranks run. One that does not end the launcher is
// forwarded later.
func (j *job) early(s unix.Signal, _ int) error {
	switch {
	case ending.has(s):
		return &InterruptedError{s}
	case s == unix.SIGTSTP:
		_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
	case s != unix.SIGCONT:
		j.pending = append(j.pending, s)
	}
	return nil
}

// late handles a signal that comes while the ranks are being started. It is forwarded in a moment,
// unless a host hangs.
func (j *job) late(s unix.Signal, waiting int) error {
	if waiting > 0 && ending.has(s) && slices.ContainsFunc(j.pending, ending.has) {
		return &InterruptedError{s}
	}
	j.pending = append(j.pending, s)
	return nil
}

// noteWaiting names the hosts that have not answered, on a terminal.
func (j *job) noteWaiting(waiting map[*hosts.Remote]bool, what string) {
	if !j.onTerminal() {
		return
	}
	const most = 5
	var names []string
	for _, h := range j.hosts {
		if waiting[h] && len(names) < most {
			names = append(names, h.Name)
		}
	}
	if len(waiting) > most {
		names = append(names, "…")
	}
	j.note("%d of %d hosts are %s, waiting for %s",
		len(j.hosts)-len(waiting), len(j.hosts), what, strings.Join(names, ", "))
}

// dismissHosts ends all proxies, with the ranks that they have.
func (j *job) dismissHosts() {
	for _, h := range j.hosts {
		h.Dismiss()
	}
}

// flushHosts waits, for flushGrace at most, until all frames to the hosts are written.
func (j *job) flushHosts() {
	flushed := make(chan struct{})
	j.work.Go(func() {
		defer close(flushed)
		for _, h := range j.hosts {
			h.Flush()
		}
	})
	grace := time.NewTimer(flushGrace)
	defer grace.Stop()
	select {
	case <-flushed:
	case <-grace.C:
	}
}
