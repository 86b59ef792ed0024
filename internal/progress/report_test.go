package progress

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

var killed = proc.Cause{Kind: proc.Signaled, Code: 9}

// endRecord holds the calls of an engine's listeners.
type endRecord struct {
	e      *Engine
	frames int      // that had come by then
	told   []string // "process 1: killed by SIGKILL"
}

func endRecords(e *Engine, k *counter) *endRecord {
	o := &endRecord{e: e}
	e.OnEnd(func(ep *Endpoint, cause proc.Cause) {
		o.frames = k.n
		o.told = append(o.told, ep.Proc.String()+": "+cause.String())
		if cause.Failed() && (ep.State != Failed || !e.view.Failed(ep.Proc)) {
			o.told = append(o.told, "told before it was known")
		}
	})
	return o
}

// rounds makes progress for a while, without waiting.
func (o *endRecord) rounds() {
	o.e.Lock()
	defer o.e.Unlock()
	for range 10 * idleRounds {
		o.e.Progress()
	}
}

// Arrived frames of a peer that is reported dead are delivered, then the death is known and
// reported, then nothing is delivered any more.
func TestReport(t *testing.T) {
	e := engines(t, true)
	k := count(e[0])
	o := endRecords(e[0], k)
	to, err := e[1].Endpoint(0)
	require.NoError(t, err)
	for range 3 {
		send(e[1], to, 0)
	}
	o.rounds()
	require.Equal(t, 3, k.n)
	for range 3 {
		send(e[1], to, 0)
	}
	e[0].Lock()
	e[0].Report(1, killed)
	e[0].Report(1, proc.Cause{Kind: proc.Heartbeat})
	require.Zero(t, e[0].view.Epoch(), "known before what has arrived is delivered")
	require.True(t, e[0].Lookup(1).Reported)
	e[0].Unlock()
	o.rounds()
	require.Equal(t, []string{"process 1: killed by SIGKILL"}, o.told)
	require.Equal(t, 6, o.frames)
	require.Equal(t, killed, e[0].view.Cause(1))

	e[1].Lock()
	for range 3 {
		to.TrySend(fabric.ClassTest, 0, nil)
	}
	e[1].Unlock()
	o.rounds()
	e[0].Lock()
	e[0].Report(1, killed)
	e[0].Unlock()
	o.rounds()
	require.Equal(t, 6, k.n)
	require.Len(t, o.told, 1)
}

// The death of a peer that has knocked and was not polled, and of one that never connected, with
// two providers.
func TestReportOfAnUnconnectedPeer(t *testing.T) {
	for _, knocked := range []bool{false, true} {
		e := pair(t, [2]string{"", ""}, nil)
		k := count(e[0])
		o := endRecords(e[0], k)
		if knocked {
			to, err := e[1].Endpoint(0)
			require.NoError(t, err)
			send(e[1], to, 0)
		}
		e[0].Lock()
		e[0].Report(1, killed)
		require.Equal(t, !knocked, e[0].view.Failed(1))
		e[0].Unlock()
		o.rounds()
		require.Equal(t, []string{"process 1: killed by SIGKILL"}, o.told)
		require.Equal(t, knocked, k.n == 1)
		ep, err := e[0].Endpoint(1)
		require.NoError(t, err)
		require.Equal(t, Failed, ep.State)
		for _, p := range e[0].media {
			_, err := p.Connect(fabric.ConnectSpec{Peer: 1, Address: e[1].shm.Address()})
			require.True(t, knocked || err != nil, "%s connects to the dead", p.Name())
		}
	}
}

// A report wakes a goroutine that sleeps until the death is known.
func TestReportWakes(t *testing.T) {
	for range 200 {
		t.Run("once", func(t *testing.T) { // which closes the engines
			e := engines(t, false)[0]
			var c Completion
			e.OnEnd(func(*Endpoint, proc.Cause) { c.Finish() })
			_, err := e.Endpoint(1)
			require.NoError(t, err)
			e.Host().Go(func() {
				e.Lock()
				e.Report(1, killed)
				e.Unlock()
			})
			e.Lock()
			e.Wait(&c)
			e.Unlock()
		})
	}
}

// ProgressUntilIdle delivers frames in a process that makes no calls, and leaves the work to a
// progressing goroutine.
func TestProgressUntilIdle(t *testing.T) {
	e := engines(t, true)
	k := count(e[0])
	to, err := e[1].Endpoint(0)
	require.NoError(t, err)
	send(e[1], to, 0)
	e[0].Lock()
	defer e[0].Unlock()
	e[0].progressing = true
	e[0].ProgressUntilIdle(maxIdleTime)
	require.Zero(t, k.n)
	e[0].progressing = false
	e[0].ProgressUntilIdle(maxIdleTime)
	require.Equal(t, 1, k.n)
}

// A call of ProgressUntilIdle ends although there is always more to do.
func TestProgressUntilIdleEnds(t *testing.T) {
	const step fabric.Time = 1_000_000
	e, rounds := engines(t, true)[0], 0
	e.OnStall(func() int {
		for start := e.host.Now(); e.host.Now()-start < step; {
		}
		rounds++
		return 1
	})
	e.Lock()
	defer e.Unlock()
	for _, most := range []fabric.Time{fabric.Forever, 3 * step} {
		rounds = 0
		require.Positive(t, e.ProgressUntilIdle(most))
		require.LessOrEqual(t, fabric.Time(rounds), min(most, maxIdleTime)/step)
	}
}
