package launch

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/banyan-hpc/banyan/internal/launch/hosts"
	"github.com/banyan-hpc/banyan/internal/launch/spawn"
	"golang.org/x/sys/unix"
)

const (
	// startMost bounds how many hosts are being reached at once: each may cost a
	// process that does cryptography.
	startMost = 32
	// startPatience is how long hosts are waited for before somebody who watches
	// is told, and then between two such lines.
	startPatience = 2 * time.Second
	// flushGrace is how long a launcher that is to stop waits for its hosts to
	// have been told.
	flushGrace = time.Second
)

// InterruptedError: a signal has ended the job before all hosts were ready, or
// two of them before all ranks were started.
type InterruptedError struct{ Signal unix.Signal }

// Error names the signal.
func (e *InterruptedError) Error() string {
	return fmt.Sprintf("launch: %v before the ranks were started", unix.SignalName(e.Signal))
}

// startHosts starts a proxy on each host, waits until all are ready, and only
// then has the ranks started. When it fails everything is being ended, and loop
// waits for it.
func (j *job) startHosts(ctx context.Context) error {
	p := &j.plan
	j.srv.SetNodes(hosts.Mapping(p.shares), func(rank int) string { return hosts.NameOf(p.shares, rank) })
	answers := make(chan hosts.Answer, 3*len(p.shares)) // ready, started, and one failure
	all := &hosts.Config{
		ID: j.srv.ID, N: p.N, Argv: p.Argv, Dir: p.Dir, Env: p.env, Export: p.Export, Bind: p.Bind, OnFailure: p.OnFailure,
		WholeLines: p.TagOutput, Stdin: p.Stdin != nil, Shell: p.Shell, Proxy: p.Proxy, Timeout: p.InitTimeout,
		Work: &j.work, Turn: make(chan struct{}, startMost), Answers: answers, Lost: j.lost, Print: j.err.write, Note: j.err.note,
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
		j.serveHost(h)
	}
	if err := j.gather(ctx, answers, "started", j.late); err != nil {
		j.dismissHosts()
		return err
	}
	for _, h := range j.hosts {
		if err := h.Running(); err != nil {
			j.dismissHosts()
			return err
		}
	}
	for _, h := range j.hosts {
		j.targets = append(j.targets, h)
		j.left += h.Count
	}
	return nil
}

// gather waits until all hosts have answered, or one has failed, or the
// launcher is to end.
func (j *job) gather(ctx context.Context, answers <-chan hosts.Answer, what string, heed func(s unix.Signal, waiting int) error) error {
	watched := time.NewTicker(startPatience)
	defer watched.Stop()
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
			for len(answers) > 0 { // what had come before the signal
				if err := take(<-answers); err != nil {
					return err
				}
			}
			if s, ok := sig.(unix.Signal); ok {
				if err := heed(s, len(waiting)); err != nil {
					return err
				}
			}
		case <-ctx.Done():
			return fmt.Errorf("launch: the job was ended before the hosts were %s: %w", what, context.Cause(ctx))
		case <-watched.C:
			j.tellWaiting(waiting, what)
		}
	}
	return nil
}

// early heeds a signal that comes before the ranks run. Those that do not end
// the launcher are forwarded later.
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

// late heeds a signal that comes while the ranks are being started: in a moment
// they can be told, unless a host hangs.
func (j *job) late(s unix.Signal, waiting int) error {
	if waiting > 0 && ending.has(s) && slices.ContainsFunc(j.pending, ending.has) {
		return &InterruptedError{s}
	}
	j.pending = append(j.pending, s)
	return nil
}

// tellWaiting says who is waited for, where somebody watches.
func (j *job) tellWaiting(waiting map[*hosts.Remote]bool, what string) {
	if f, ok := j.plan.Stderr.(*os.File); !ok || !spawn.IsTerminal(f) {
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
	j.note("%d of %d hosts are %s, waiting for %s", len(j.hosts)-len(waiting), len(j.hosts), what, strings.Join(names, ", "))
}

// serveHost has the ranks of a host started and begins to look after them.
func (j *job) serveHost(h *hosts.Remote) {
	for _, r := range h.Ranks {
		r.Since = time.Now()
		label := j.label(r.Rank)
		heard := [2]chan struct{}{make(chan struct{}), make(chan struct{})}
		j.work.Go(func() { pass(r.Out, j.out, label); close(heard[0]) })
		j.work.Go(func() { pass(r.Err, j.err, label); close(heard[1]) })
		s := j.session(r.Rank, r.PMI, r.Exited)
		j.work.Go(func() { s.Run(r.Drained) })
		j.work.Go(func() {
			<-r.Exited
			<-r.Drained
			r.End.Finalized, r.End.Joined = j.srv.Lose(r.Rank, r.End.String())
			j.hear(heard[0], heard[1])
			j.ended <- r.End
		})
		if r.In != nil {
			j.feedRemote(r)
		}
	}
	h.Begin()
}

// pass writes a rank's output.
func pass(from *hosts.Stream, to *sink, label string) {
	for {
		chunk, ok := from.Next()
		if !ok || !to.write(spawn.Label(chunk, label)) {
			return
		}
		from.Taken(len(chunk))
	}
}

// feedRemote copies the launcher's input to rank 0 until either ends.
func (j *job) feedRemote(r *hosts.Rank) {
	copyTo := func(from io.Reader) {
		_, _ = io.Copy(struct{ io.Writer }{r.In}, from) // a rank need not read its input to the end
		r.In.Close()
	}
	f, ok := j.plan.Stdin.(*os.File)
	if !ok {
		go copyTo(j.plan.Stdin) // not part of work: it may hang in a read
		return
	}
	read, quit, err := os.Pipe()
	if err != nil {
		j.note("rank 0 gets no input: %v", spawn.Explain(err))
		r.In.Close()
		return
	}
	j.work.Go(func() {
		copyTo(spawn.ReadTerminal(f, read))
		read.Close()
	})
	j.work.Go(func() { <-r.Exited; r.In.Close(); quit.Close() })
}

// dismissHosts ends all proxies, with the ranks that they have.
func (j *job) dismissHosts() {
	for _, h := range j.hosts {
		h.Dismiss()
	}
}

// flushHosts waits, but not long, until the hosts have been told what was to be
// told to them.
func (j *job) flushHosts() {
	told := make(chan struct{})
	j.work.Go(func() {
		defer close(told)
		for _, h := range j.hosts {
			h.Flush()
		}
	})
	grace := time.NewTimer(flushGrace)
	defer grace.Stop()
	select {
	case <-told:
	case <-grace.C:
	}
}
