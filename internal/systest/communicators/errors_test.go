package communicators

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
)

// failingCall is an operation that ends with an error, and how that reads.
type failingCall struct {
	do   func(c *banyan.Comm) error
	call string // operation and communicator
	peer int    // OpError.Peer
	text string // the rest
	is   error
}

const (
	killed  = "rank 1 has failed: killed by SIGKILL"
	noPeer  = -1
	revoked = "communicator revoked"
)

// started is the error of a persistent receive.
func started(c *banyan.Comm, src int) error {
	p := c.RecvInit(make([]byte, 8), src, 4)
	p.Start()
	return second(p.Wait())
}

// onFailed are operations with a rank that has failed, of rank 0.
var onFailed = []failingCall{
	{func(c *banyan.Comm) error { return c.Send(make([]byte, 8), 1, 7) },
		"Send(dst 1, tag 7, 8 bytes) on mine", 1, killed, banyan.ErrProcFailed},
	{func(c *banyan.Comm) error { return c.Ssend(nil, 1, 7) },
		"Send(dst 1, tag 7, 0 bytes) on mine", 1, killed, banyan.ErrProcFailed},
	{func(c *banyan.Comm) error { return waited(c.Isend(make([]byte, 8), 1, 7)) },
		"Send(dst 1, tag 7, 8 bytes) on mine", 1, killed, banyan.ErrProcFailed},
	{func(c *banyan.Comm) error { return second(c.Recv(make([]byte, 8), 1, 7)) },
		"Recv(src 1, tag 7) on mine", 1, killed, banyan.ErrProcFailed},
	{func(c *banyan.Comm) error { return waited(c.Irecv(nil, 1, banyan.AnyTag)) },
		"Recv(src 1, tag any) on mine", 1, killed, banyan.ErrProcFailed},
	{func(c *banyan.Comm) error { return second(c.Recv(nil, banyan.AnySource, 7)) },
		"Recv(src any, tag 7) on mine", noPeer, killed, banyan.ErrProcFailed},
	{func(c *banyan.Comm) error { return waited(c.Irecv(nil, banyan.AnySource, 7)) },
		"Recv(src any, tag 7) on mine", noPeer,
		killed + "; the receive is pending: acknowledge the failure to wait on, or cancel it", banyan.ErrProcFailedPending},
	{func(c *banyan.Comm) error { return second(c.Sendrecv(nil, 1, 1, nil, 1, 3)) },
		"Send(dst 1, tag 1, 0 bytes) on mine", 1, killed, banyan.ErrProcFailed},
	{func(c *banyan.Comm) error { return second(c.Probe(1, 7)) },
		"Probe(src 1, tag 7) on mine", 1, killed, banyan.ErrProcFailed},
	{func(c *banyan.Comm) error { return second(c.Mprobe(1, 7)) },
		"Mprobe(src 1, tag 7) on mine", 1, killed, banyan.ErrProcFailed},
	{func(c *banyan.Comm) error { return started(c, 1) }, "Recv(src 1, tag 4) on mine", 1, killed, banyan.ErrProcFailed},
	{(*banyan.Comm).Barrier, "Barrier on mine", 1, killed, banyan.ErrProcFailed},
	{func(c *banyan.Comm) error { return c.Bcast(make([]byte, 8), 1) },
		"Bcast(root 1) on mine", 1, killed, banyan.ErrProcFailed},
	{func(c *banyan.Comm) error { return waited(c.Ibcast(make([]byte, 8), 1)) },
		"Ibcast(root 1) on mine", 1, killed, banyan.ErrProcFailed},
	{func(c *banyan.Comm) error { return second(c.Agree(1)) }, "Agree on mine", 1, killed, banyan.ErrProcFailed},
	{func(c *banyan.Comm) error { return second(c.Iagree(1).Wait()) }, "Agree on mine", 1, killed, banyan.ErrProcFailed},
	{func(c *banyan.Comm) error { return second(c.Split(1, 5)) },
		"Split(color 1, key 5) on mine", 1, killed, banyan.ErrProcFailed},
	{func(c *banyan.Comm) error { return second(c.Split(-1, 0)) },
		"Split(color -1, key 0) on mine", noPeer, "wrong argument: color -1, want 0 or more, or Undefined", banyan.ErrArgument},
}

// onRevoked are operations on a revoked communicator.
var onRevoked = []failingCall{
	{func(c *banyan.Comm) error { return c.Send(nil, 1, 7) }, "Send(dst 1, tag 7, 0 bytes) on mine", 1, revoked, banyan.ErrRevoked},
	{func(c *banyan.Comm) error { return waited(c.Irecv(nil, 1, 7)) }, "Recv(src 1, tag 7) on mine", 1, revoked, banyan.ErrRevoked},
	{(*banyan.Comm).Barrier, "Barrier on mine", noPeer, revoked, banyan.ErrRevoked},
	{func(c *banyan.Comm) error { return waited(c.Ibarrier()) }, "Ibarrier on mine", noPeer, revoked, banyan.ErrRevoked},
	{func(c *banyan.Comm) error { return second(c.Dup()) }, "Dup on mine", noPeer, revoked, banyan.ErrRevoked},
	{func(c *banyan.Comm) error { return second(c.Create(c.Group())) }, "Create on mine", noPeer, revoked, banyan.ErrRevoked},
	{func(c *banyan.Comm) error { return second(c.CreateGroup(c.Group(), 9)) },
		"CreateGroup(tag 9) on mine", noPeer, revoked, banyan.ErrRevoked},
}

// onArguments have wrong arguments.
var onArguments = []failingCall{
	{func(c *banyan.Comm) error { return c.Send(nil, 77, 7) },
		"Send(dst 77, tag 7, 0 bytes) on mine", 77, "wrong argument: rank 77, want 0 … 1", banyan.ErrArgument},
	{func(c *banyan.Comm) error { return waited(c.Irecv(nil, 1, -5)) },
		"Recv(src 1, tag -5) on mine", 1, "wrong argument: tag -5, want 0 … 2147483647", banyan.ErrArgument},
	{func(c *banyan.Comm) error { return c.Bcast(nil, -1) },
		"Bcast(root -1) on mine", noPeer, "wrong argument: root -1, want 0 … 1", banyan.ErrArgument},
	{func(c *banyan.Comm) error { return second(c.Merge(true)) }, "Merge on mine", noPeer, "wrong argument: not an intercommunicator", banyan.ErrArgument},
	{func(c *banyan.Comm) error { return second(c.AckFailed(-1)) },
		"AckFailed(n -1) on mine", noPeer, "wrong argument: -1 failures", banyan.ErrArgument},
	{func(c *banyan.Comm) error {
		p := c.RecvInit(nil, 1, 4)
		r := p.Start()
		err := waited(p.Start())
		r.Cancel()
		if _, wrong := r.Wait(); wrong != nil {
			return wrong
		}
		return err
	}, "Start on mine", noPeer, "wrong argument: the persistent request is active: wait for it first", banyan.ErrArgument},
	{func(c *banyan.Comm) error {
		ctx, end := context.WithCancel(context.Background())
		end()
		return second(c.WithContext(ctx).Recv(nil, 1, 7))
	}, "Recv on mine", noPeer, "not started: context canceled", context.Canceled},
}

// afterFree are operations on a communicator that has been freed.
var afterFree = []failingCall{
	{func(c *banyan.Comm) error { return c.Send(nil, 1, 7) },
		"Send(dst 1, tag 7, 0 bytes) on mine", 1, "closed: the communicator has been freed", banyan.ErrClosed},
	{func(c *banyan.Comm) error { return second(c.Shrink()) },
		"Shrink on mine", noPeer, "closed: the communicator has been freed", banyan.ErrClosed},
	{func(c *banyan.Comm) error { return second(c.Validate()) },
		"Validate on mine", noPeer, "closed: the communicator has been freed", banyan.ErrClosed},
	{(*banyan.Comm).Free, "Free on mine", noPeer, "closed: the communicator has been freed before", banyan.ErrClosed},
}

// The errors of operations of all kinds have one form: prefix, operation, communicator, rank and cause.
func TestErrorsOfOperations(t *testing.T) {
	check := func(c *banyan.Comm, all []failingCall) {
		for _, f := range all {
			err := f.do(c)
			require.EqualError(t, err, "banyan: "+f.call+" at rank 0: "+f.text)
			require.ErrorIs(t, err, f.is, f.call)
			var op *banyan.OpError
			require.ErrorAs(t, err, &op, f.call)
			require.Equal(t, f.call, op.Operation())
			require.True(t, strings.HasPrefix(f.call, op.Op))
			require.Equal(t, "mine", op.Comm)
			require.Equal(t, 0, op.Rank, f.call)
			require.Equal(t, f.peer, op.Peer, f.call)
			var failed *banyan.ProcFailedError
			if strings.HasPrefix(f.text, killed) {
				require.ErrorAs(t, err, &failed, f.call)
				require.Equal(t, []int{1}, failed.Ranks)
				require.True(t, banyan.IsFailure(err))
			}
		}
	}
	s := banyan.Simulation{Faults: banyan.Kill(1, time.Millisecond)}
	require.NoError(t, banyan.Simulate(2, s, func(w *banyan.World) error {
		c, err := w.Comm().Dup()
		if err != nil || w.Comm().Rank() == 1 {
			w.Sleep(time.Hour)
			return err
		}
		c.SetName("mine")
		check(c, onArguments)
		_, _ = w.Comm().Recv(nil, 1, 0) // until it is dead
		check(c, onFailed)
		require.NoError(t, c.Revoke())
		check(c, onRevoked)
		require.NoError(t, c.Free())
		check(c, afterFree)
		return nil
	}))
}
