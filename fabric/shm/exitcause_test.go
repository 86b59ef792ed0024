package shm

import (
	"encoding/hex"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// recordOf is a source of exits with one record.
func recordOf(t *testing.T, cause proc.Cause) (l *exitRecords, know func(pid int)) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Close(fd)) })
	l = &exitRecords{fd: fd, ends: map[int]proc.Cause{}}
	return l, func(pid int) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.ends[pid] = cause
	}
}

// The exit cause of a process that ended before this one connected comes from the record, also when
// it is the only source.
func TestExitCauseOfTheUnconnected(t *testing.T) {
	want := proc.Cause{Kind: proc.Exited, Code: 77}
	for name, knows := range map[string]bool{"on record": true, "unknown": false} {
		t.Run(name, func(t *testing.T) {
			l, know := recordOf(t, want)
			p := open(t, Config{Self: 0, MaxProcs: 2, Exits: l})
			v := spawn(t, role{Self: 1, MaxProcs: 2})
			v.kill()
			_ = v.cmd.Wait()
			if knows {
				know(v.cmd.Process.Pid)
			}
			_, err := p.Connect(fabric.ConnectSpec{Peer: 1, Address: v.addresses[0]})
			require.ErrorIs(t, err, fabric.ErrPeerGone)
			var gone *fabric.GoneError
			require.Equal(t, knows, errors.As(err, &gone), "%v", err)
			if knows {
				require.Equal(t, want, gone.Cause)
				require.ErrorContains(t, err, "exited with code 77")
			}
		})
	}
}

// The kernel has the exit status of a process that is not reaped.
func TestExitCauseOfAZombie(t *testing.T) {
	p := open(t, Config{Self: 0, MaxProcs: 2})
	v := spawn(t, role{Self: 1, MaxProcs: 2})
	v.kill()
	require.NoError(t, unix.Waitid(unix.P_PID, v.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil))
	_, err := p.Connect(fabric.ConnectSpec{Peer: 1, Address: v.addresses[0]})
	var gone *fabric.GoneError
	require.ErrorAs(t, err, &gone)
	require.Equal(t, killed, gone.Cause)
}

// A process that knocked and ended before this one polled is reported with the record's cause,
// after its frames.
func TestExitCauseOfANewcomer(t *testing.T) {
	want := proc.Cause{Kind: proc.Exited, Code: 77}
	l, know := recordOf(t, want)
	p := open(t, Config{Self: 0, MaxProcs: 2, Exits: l})
	v := spawn(t, role{Self: 1, MaxProcs: 2})
	v.order("dial " + hex.EncodeToString(p.Address()))
	v.kill()
	_ = v.cmd.Wait()
	know(v.cmd.Process.Pid)
	e := newObserver()
	require.Equal(t, want, e.end(p))
	require.Equal(t, []uint64{1}, e.got)
}
