package join

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	"github.com/banyan-hpc/banyan/internal/launch/pmi"
	"github.com/banyan-hpc/banyan/internal/launch/rendezvous"
)

// joined is set by the first Join that is not alone: the launcher's descriptor is the process's,
// and after Finalize its number may belong to another file; a rank cannot join a rendezvous twice.
var joined atomic.Bool

// Join finds out from the environment which rank this process is. Under a launcher it opens the
// connection to it. It waits for the launcher as long as a start-up may take ([InitTimeoutEnv];
// then the error names PMI_FD and is a context.DeadlineExceeded), but for no other rank. Without a
// launcher but with RANK and WORLD_SIZE, it waits for rank 0 as long as a start-up may take; if
// rank 0 does not answer, the error is a [*MissingError]. Other errors are of class
// [ErrEnvironment] when variables contradict each other or cannot be used, the file of
// [SecretFileEnv] included (the error names the variable and the cure), [ErrRefused] when rank 0
// refuses this rank, [ErrProtocol] or [ErrLauncherGone].
//
// A process joins once in its life. Under a launcher, Join also takes notice of SIGPIPE for the
// rest of the process's life: by default a Go program dies of writing to a broken standard output,
// and the pipe that carries the output dies with the launcher. Such a write then fails with EPIPE.
// A program that calls signal.Reset for SIGPIPE undoes this. Join does the same with SIGUSR1 under
// other launchers than Banyan's: Hydra signals a death to the ranks by it, which would end them.
func Join(ctx context.Context) (*Job, error) {
	p, ok, err := findPlace(os.LookupEnv)
	if err != nil {
		return nil, err
	}
	if !ok {
		return alone(), nil
	}
	if !joined.CompareAndSwap(false, true) {
		return nil, errors.New("launch: a process joins its launcher once, and this one has done so")
	}
	if p.seed, err = rendezvous.ReadSecret(os.Getenv(SecretFileEnv)); err != nil {
		return nil, err
	}
	if p.at != nil {
		return joinRankZero(ctx, p)
	}
	return joinLauncher(ctx, p)
}

// joinLauncher makes the Job of a rank that a launcher has started.
func joinLauncher(ctx context.Context, p place) (*Job, error) {
	limit, err := pmi.ParseInitTimeout(os.Getenv(InitTimeoutEnv))
	if err != nil {
		return nil, err
	}
	f, err := openPMI(p.fd)
	if err != nil {
		return nil, err
	}
	// Notify, not Ignore: an ignored signal would stay ignored in the programs that this one
	// starts. The channel is never read.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("nothing has answered on PMI_FD=%d within %v (%s): "+
		"is the launcher stopped, or the descriptor that of another program? Unset PMI_FD, PMI_RANK and PMI_SIZE to run alone: %w",
		p.fd, limit, InitTimeoutEnv, context.DeadlineExceeded))
	defer cancel()
	j, err := newJob(ctx, p, f)
	if err == nil && !j.SparesDead() {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGUSR1)
	}
	return j, err
}

// joinRankZero makes the Job of a rank that was started without a launcher.
func joinRankZero(ctx context.Context, p place) (*Job, error) {
	conn, id, server, err := p.at.Connect(ctx, p.seed)
	if err != nil {
		return nil, err
	}
	limited, cancel := p.at.Limit(ctx)
	defer cancel()
	j, err := newJob(limited, p, conn)
	if err == nil && id != "" && id != j.id {
		conn.Close()
		err = fmt.Errorf("launch: %w: rank 0 at %s has proved to be of another job than the one whose name came after that: "+
			"another process changes the messages", pmi.ErrProtocol, p.at.Addr)
	}
	if err != nil {
		if server != nil {
			server.Close()
		}
		return nil, err
	}
	j.launched, j.server, j.nodes = false, server, p.at.Nodes
	return j, nil
}

// newJob makes a Job from a PMI-1 connection, which it owns.
func newJob(ctx context.Context, p place, conn pmi.Conn) (*Job, error) {
	c, err := newClient(ctx, conn)
	if err != nil {
		return nil, err
	}
	j := &Job{
		id: c.kvs, rank: p.rank, size: p.size, pmi: c, seed: p.seed, launched: true,
		turn: make(chan struct{}, 1), fence: make(chan struct{}, 1), values: make(map[string][]byte),
	}
	if c.mapping != "" {
		if j.nodes, err = pmi.ParseMapping(c.mapping); err != nil {
			_ = c.shut()
			return nil, c.nonsense(err)
		}
	}
	return j, nil
}

// alone makes the Job of a world of one.
func alone() *Job {
	return &Job{
		id: pmi.NewID(), size: 1, nodes: pmi.Nodes(1, 1),
		turn: make(chan struct{}, 1), fence: make(chan struct{}, 1), values: make(map[string][]byte),
	}
}
