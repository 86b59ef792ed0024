package launch

import (
	"os"
	"time"

	"github.com/banyan-hpc/banyan/internal/launch/spawn"
	"golang.org/x/sys/unix"
)

// startHere starts the ranks on this machine. When it fails it kills those that
// it has started.
func (j *job) startHere() error {
	sp := &j.plan.here
	sp.ID, sp.OnStart, sp.Finished = j.srv.ID, j.serve, j.finished
	started := make(chan error)
	j.work.Go(func() { sp.Run(started) })
	err := <-started
	if err != nil {
		j.end(unix.SIGKILL)
	}
	return err
}

// serve begins to look after a rank that has just started.
func (j *job) serve(c *spawn.Process) {
	j.targets = append(j.targets, c)
	j.left++
	label := j.label(c.Rank)
	for _, stream := range []struct {
		from *spawn.Output
		to   *sink
	}{{&c.Stdout, j.out}, {&c.Stderr, j.err}} {
		j.work.Go(func() {
			spawn.CopyLines(func(p []byte) bool { return stream.to.write(spawn.Label(p, label)) }, stream.from, label != "")
			stream.from.Close()
		})
	}
	if c.Stdin != nil {
		j.feed(c)
	}
	s := j.session(c.Rank, c.Conn, c.Exited)
	j.work.Go(func() { s.Run(c.Drained) })
	j.work.Go(func() { j.ended <- j.await(c) })
}

// await returns when a rank has ended, what it had said to the launcher
// before has been handled, and what it printed is written.
func (j *job) await(c *spawn.Process) spawn.End {
	end := c.Wait()
	close(c.Exited)
	c.Stdout.ProcessEnded()
	c.Stderr.ProcessEnded()
	if c.Stdin != nil {
		c.EndFeed()
	}
	_ = c.Conn.SetDeadline(time.Now().Add(spawn.DrainGrace)) // for the case that others hold the socket
	<-c.Drained
	end.Finalized, end.Joined = j.srv.Lose(c.Rank, end.String())
	j.hear(c.Stdout.Drained(), c.Stderr.Drained())
	return end
}

// feed copies the launcher's input to rank 0.
func (j *job) feed(c *spawn.Process) {
	if _, ok := j.plan.Stdin.(*os.File); ok {
		j.work.Go(func() { c.Feed(j.plan.Stdin) })
		return
	}
	go c.Feed(j.plan.Stdin) // not part of work: it may hang in a read
}

// hear waits, but not long, until what a rank that has ended printed is written: the launcher's
// word about its end comes after its own, which may explain it.
func (j *job) hear(heard ...<-chan struct{}) {
	grace := time.NewTimer(spawn.DrainGrace)
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
