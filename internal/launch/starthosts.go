package launch

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

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
	j.srv.setNodes(mappingOf(p.shares), func(rank int) string { return hostOf(p.shares, rank) })
	answers := make(chan answered, 3*len(p.shares)) // ready, started, and one failure
	all := &fleet{
		id: j.srv.id, n: p.N, argv: p.Argv, dir: p.Dir, env: p.env, export: p.Export, bind: p.Bind, onFailure: p.OnFailure,
		wholeLines: p.TagOutput, stdin: p.Stdin != nil, shell: p.Shell, proxy: p.Proxy, timeout: p.InitTimeout,
		work: &j.work, turn: make(chan struct{}, startMost), answer: answers, lost: j.lost, print: j.err.write, note: j.err.note,
	}
	for _, s := range p.shares {
		h := all.newRemote(s)
		j.hosts = append(j.hosts, h)
		j.work.Go(h.run)
	}
	if err := j.gather(ctx, answers, "ready", j.early); err != nil {
		for _, h := range j.hosts {
			h.kill("the job was given up")
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
		if err := h.runs(); err != nil {
			j.dismissHosts()
			return err
		}
	}
	for _, h := range j.hosts {
		j.targets = append(j.targets, h)
		j.left += h.count
	}
	return nil
}

// gather waits until all hosts have answered, or one has failed, or the
// launcher is to end.
func (j *job) gather(ctx context.Context, answers <-chan answered, what string, heed func(s unix.Signal, waiting int) error) error {
	watched := time.NewTicker(startPatience)
	defer watched.Stop()
	waiting := make(map[*remote]bool, len(j.hosts))
	for _, h := range j.hosts {
		waiting[h] = true
	}
	take := func(a answered) error {
		if a.err == nil {
			delete(waiting, a.host)
		}
		return a.err
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
func (j *job) tellWaiting(waiting map[*remote]bool, what string) {
	if f, ok := j.plan.Stderr.(*os.File); !ok || !isTerminal(f) {
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
func (j *job) serveHost(h *remote) {
	for _, r := range h.ranks {
		r.since = time.Now()
		label := j.label(r.rank)
		heard := [2]chan struct{}{make(chan struct{}), make(chan struct{})}
		j.work.Go(func() { pass(r.out, j.out, label); close(heard[0]) })
		j.work.Go(func() { pass(r.err, j.err, label); close(heard[1]) })
		s := j.session(r.rank, r.pmi, r.exited)
		j.work.Go(func() { s.run(r.drained) })
		j.work.Go(func() {
			<-r.exited
			<-r.drained
			r.end.Finalized, r.end.Joined = j.srv.lose(r.rank, r.end.String())
			j.hear(heard[0], heard[1])
			j.ended <- r.end
		})
		if r.in != nil {
			j.feedRemote(r)
		}
	}
	h.begin()
}

// pass writes a rank's output.
func pass(from *stream, to *sink, label string) {
	for {
		chunk, ok := from.next()
		if !ok || !to.write(labelled(chunk, label)) {
			return
		}
		from.taken(len(chunk))
	}
}

// feedRemote copies the launcher's input to rank 0 until either ends.
func (j *job) feedRemote(r *remoteRank) {
	copyTo := func(from io.Reader) {
		_, _ = io.Copy(struct{ io.Writer }{r.in}, from) // a rank need not read its input to the end
		r.in.Close()
	}
	f, ok := j.plan.Stdin.(*os.File)
	if !ok {
		go copyTo(j.plan.Stdin) // not part of work: it may hang in a read
		return
	}
	read, quit, err := os.Pipe()
	if err != nil {
		j.note("rank 0 gets no input: %v", withCure(err))
		r.in.Close()
		return
	}
	j.work.Go(func() {
		copyTo(readTerminal(f, read))
		read.Close()
	})
	j.work.Go(func() { <-r.exited; r.in.Close(); quit.Close() })
}

// dismissHosts ends all proxies, with the ranks that they have.
func (j *job) dismissHosts() {
	for _, h := range j.hosts {
		h.dismiss()
	}
}

// flushHosts waits, but not long, until the hosts have been told what was to be
// told to them.
func (j *job) flushHosts() {
	told := make(chan struct{})
	j.work.Go(func() {
		defer close(told)
		for _, h := range j.hosts {
			h.flush()
		}
	})
	grace := time.NewTimer(flushGrace)
	defer grace.Stop()
	select {
	case <-told:
	case <-grace.C:
	}
}
