package launch

import (
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/internal/launch/pmi"
	"github.com/banyan-hpc/banyan/internal/launch/spawn"
)

// startHere starts the ranks on this machine. When it fails it kills those that it has started.
func (j *job) startHere() error {
	s := &j.plan.here
	s.ID, s.Finished = j.srv.ID, j.finished
	s.OnStart = func(p *spawn.Process) {
		j.targets = append(j.targets, p)
		j.left++
		j.supervise(&p.Rank)
	}
	started := make(chan error)
	j.work.Go(func() { s.Run(started) })
	err := <-started
	if err != nil {
		j.end(unix.SIGKILL)
	}
	return err
}

// supervise serves a rank, here or on a host, until it has ended.
func (j *job) supervise(r *spawn.Rank) {
	label := j.label(r.Number)
	for _, s := range []struct {
		from spawn.Stream
		to   *sink
	}{{r.Out, j.out}, {r.Err, j.err}} {
		j.work.Go(func() {
			s.from.Copy(func(p []byte) bool { return s.to.write(spawn.Label(p, label)) }, label != "")
		})
	}
	if _, isFile := j.plan.Stdin.(*os.File); r.Input != nil && isFile {
		j.work.Go(func() { r.Input.Feed(j.plan.Stdin) })
	} else if r.Input != nil {
		go r.Input.Feed(j.plan.Stdin) // not part of work: it may hang in a read
	}
	s := j.session(r.Number, r.PMI, r.Exited)
	j.work.Go(func() { s.Run(r.Drained) })
	j.work.Go(func() {
		end := r.Wait()
		<-r.Drained
		end.Finalized, end.Joined = j.srv.Lose(r.Number, end.String())
		j.awaitOutput(r.Out.Written(), r.Err.Written())
		j.ended <- end
	})
}

// session makes the launcher's side of the connection to a rank.
func (j *job) session(rank int, conn io.ReadWriteCloser, exited <-chan struct{}) *pmi.Session {
	return &pmi.Session{
		Rank: rank, Server: j.srv, Conn: conn, Exited: exited,
		Abort: func(code int, msg string) {
			select {
			case j.aborts <- abortion{rank, code, msg}:
			default: // another rank was first
			}
		},
		Cut: func(why string) { j.note("%s was cut off from the launcher: %s", j.name(rank), why) },
	}
}

// awaitOutput waits until the output of an ended rank is written: it may explain the end, which the launcher
// reports next. It gives up when nothing of any rank has been written for DrainGrace.
func (j *job) awaitOutput(written ...<-chan struct{}) {
	look := time.NewTicker(spawn.DrainGrace)
	defer look.Stop()
	seen := j.out.writes.Load() + j.err.writes.Load()
	for len(written) > 0 {
		select {
		case <-written[0]:
			written = written[1:]
		case <-j.gone:
			return
		case <-look.C:
			now := j.out.writes.Load() + j.err.writes.Load()
			if now == seen {
				return
			}
			seen = now
		}
	}
}
