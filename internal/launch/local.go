package launch

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// startHere starts the ranks on this machine. When it fails it kills those that
// it has started.
func (j *job) startHere() error {
	sp := &j.plan.here
	sp.id, sp.onStart, sp.finished = j.srv.id, j.serve, j.finished
	started := make(chan error)
	j.work.Go(func() { sp.run(started) })
	err := <-started
	if err != nil {
		j.end(unix.SIGKILL)
	}
	return err
}

// serve begins to look after a rank that has just started.
func (j *job) serve(c *child) {
	j.targets = append(j.targets, c)
	j.left++
	label := j.label(c.rank)
	for _, stream := range []struct {
		from *tail
		to   *sink
	}{{&c.out, j.out}, {&c.err, j.err}} {
		j.work.Go(func() {
			copyLines(func(p []byte) bool { return stream.to.write(labelled(p, label)) }, stream.from, label != "")
			stream.from.close()
		})
	}
	if c.stdin != nil {
		j.feed(c)
	}
	s := j.session(c.rank, c.conn, c.exited)
	j.work.Go(func() { s.run(c.drained) })
	j.work.Go(func() { j.ended <- j.await(c) })
}

// await returns when a rank has ended, what it had said to the launcher
// before has been handled, and what it printed is written.
func (j *job) await(c *child) End {
	end := c.wait()
	close(c.exited)
	c.out.ended()
	c.err.ended()
	if c.stdin != nil {
		c.endFeed()
	}
	_ = c.conn.SetDeadline(time.Now().Add(drainGrace)) // for the case that others hold the socket
	<-c.drained
	end.Finalized, end.Joined = j.srv.lose(c.rank, end.String())
	j.hear(c.out.written(), c.err.written())
	return end
}

// feed copies the launcher's input to rank 0.
func (j *job) feed(c *child) {
	if _, ok := j.plan.Stdin.(*os.File); ok {
		j.work.Go(func() { c.feed(j.plan.Stdin) })
		return
	}
	go c.feed(j.plan.Stdin) // not part of work: it may hang in a read
}

// hear waits, but not long, until what a rank that has ended printed is written: the launcher's
// word about its end comes after its own, which may explain it.
func (j *job) hear(heard ...<-chan struct{}) {
	grace := time.NewTimer(drainGrace)
	defer grace.Stop()
	for _, h := range heard {
		select {
		case <-h:
		case <-j.gone:
			return
		case <-grace.C:
			return
		}
	}
}
