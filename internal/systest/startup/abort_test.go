package startup

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/launch"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// aborts ends the job with a code of whose low 8 bits, which are an exit status, none is set.
func aborts(w *banyan.World) error {
	w.Abort(256, errors.New("cannot go on"))
	return nil
}

// A job that a rank has aborted fails, with a launcher and without.
func TestAbortFails(t *testing.T) {
	res, out := ranktest.Job(t, launch.Continue, 1, "aborts")
	require.Equal(t, 1, res.Code, out)
	u := startUnled(t, 1, "aborts")[0]
	require.Error(t, u.Wait())
	require.Equal(t, 1, u.ProcessState.ExitCode())
	require.Equal(t, "banyan: rank 0 aborts the job: cannot go on\n", u.out.String())
}

// abortsUnread has rank 0 abort with a standard error that is full and that nobody reads.
func abortsUnread(w *banyan.World) error {
	if w.Comm().Rank() != 0 {
		_, err := w.Comm().Recv(nil, w.Comm().Rank(), 0) // only the launcher ends it
		return err
	}
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_NONBLOCK); err != nil {
		return err
	}
	for full := error(nil); full == nil; {
		_, full = unix.Write(pipe[1], make([]byte, 4096))
	}
	if err := errors.Join(unix.SetNonblock(pipe[1], false), unix.Dup3(pipe[1], unix.Stderr, 0)); err != nil {
		return err
	}
	w.Abort(7, errors.New("cannot go on"))
	return nil
}

func TestAbortThatNobodyReads(t *testing.T) {
	t.Parallel() // it waits for a reader
	res, out := ranktest.Job(t, launch.Continue, 2, "aborts unread")
	require.Equal(t, 7, res.Code, out)
	require.Contains(t, out, "banyan: rank 0 ends the job with code 7: rank_0_aborts_the_job:_cannot_go_on\n")
	require.Equal(t, unix.SIGTERM, res.Ends[1].Signal, out)
}
