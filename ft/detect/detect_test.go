package detect

import (
	"errors"
	"math/bits"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

func newMachine(self, n int, rule Rule) *Machine {
	return New(Config{Self: proc.ID(self), Procs: n, Period: 200 * ms, Timeout: 1000 * ms, Partition: rule}, 0)
}

func drained(m *Machine) []Action {
	var out []Action
	for a, ok := m.Next(); ok; a, ok = m.Next() {
		out = append(out, a)
	}
	return out
}

// until ticks a machine whenever it is due and returns all its actions.
func until(m *Machine, end fabric.Time) []Action {
	var out []Action
	for m.Due() <= end {
		m.Tick(m.Due())
		out = append(out, drained(m)...)
	}
	return out
}

func ofKind(actions []Action, k Kind) []Action {
	var out []Action
	for _, a := range actions {
		if a.Kind == k {
			out = append(out, a)
		}
	}
	return out
}

// A process that is silent for the timeout is reported, and not before.
func TestSilenceIsFailure(t *testing.T) {
	m := newMachine(0, 2, Majority)
	require.NoError(t, m.Receive(1, heartbeatFrame, ms))
	require.Empty(t, ofKind(until(m, 1000*ms), Report))
	got := ofKind(until(m, 1400*ms), Report)
	require.Equal(t, []Action{{Kind: Report, Peer: 1, Cause: proc.Cause{Kind: proc.Heartbeat},
		Silent: got[0].Silent}}, got)
}

// A silent process that runs according to its machine's kernel is not reported and counts on this
// side; one that has been stopped is reported.
func TestRunningIsNoSilence(t *testing.T) {
	m := newMachine(3, 4, Majority) // it hears no process and ends itself
	seen := []proc.ID{0, 1}
	var got []Action
	for m.Due() <= 6000*ms {
		now := m.Due()
		for _, id := range m.Doubtful() {
			if slices.Contains(seen, id) {
				m.Running(id, now)
			}
		}
		m.Tick(now)
		got = append(got, drained(m)...)
	}
	require.Empty(t, ofKind(got, Die))
	require.Len(t, ofKind(got, Report), 1)
	require.EqualValues(t, 2, ofKind(got, Report)[0].Peer)
	require.NotEmpty(t, ofKind(until(m, 9000*ms), Die), "no process is seen any more")
}

// A queried process confirms one of its machine that runs according to the kernel.
func TestRunningForOthers(t *testing.T) {
	m := newMachine(3, 5, Majority)
	until(m, 900*ms)
	require.NoError(t, m.Receive(1, appendQuery(nil, 1, []proc.ID{2, 4}), 900*ms))
	asked := m.Queried()
	require.Equal(t, []proc.ID{2, 4}, asked)
	require.Empty(t, m.Queried())
	drained(m)
	m.Running(4, 901*ms)
	require.Equal(t, []Action{{Kind: Send, To: 1, Payload: appendAlive(nil, 4)}}, drained(m))
}

// Of two processes the one with the higher id ends itself.
func TestHigherHalfEnds(t *testing.T) {
	m := newMachine(1, 2, Majority)
	got := until(m, 3000*ms)
	last := got[len(got)-1]
	require.Equal(t, Die, last.Kind)
	var end *EndError
	require.ErrorAs(t, last.Err, &end)
	require.True(t, end.Partition)
	require.ErrorContains(t, last.Err, "1 of 2")
	require.ErrorContains(t, last.Err, "detect.partition")
	require.Equal(t, fabric.Forever, m.Due())
	_, more := m.Next()
	require.False(t, more)
}

// With the rule off it goes on.
func TestPartitionOff(t *testing.T) {
	m := newMachine(1, 2, Off)
	got := until(m, 3000*ms)
	require.Len(t, ofKind(got, Report), 1)
	require.Empty(t, ofKind(got, Die))
}

// Provably failed processes are not counted, silent ones are.
func TestProvenFailuresDoNotCount(t *testing.T) {
	m := newMachine(4, 5, Majority)
	for p := range proc.ID(3) {
		m.Died(p, proc.Cause{Kind: proc.Signaled, Code: 9}, ms)
	}
	got := until(m, 4000*ms)
	end := ofKind(got, Die)
	require.Len(t, end, 1) // 3 is silent and has the lower id
	require.ErrorContains(t, end[0].Err, "1 of 2")
	m = newMachine(3, 5, Majority)
	for p := range proc.ID(3) {
		m.Died(p, proc.Cause{Kind: proc.Signaled, Code: 9}, ms)
	}
	require.Len(t, ofKind(until(m, 4000*ms), Report), 1)
}

// A process that was killed for its silence has provably failed.
func TestFencedDoNotCount(t *testing.T) {
	m := newMachine(3, 5, Majority)
	for p := range proc.ID(3) {
		m.Died(p, proc.Cause{Kind: proc.Heartbeat}, ms)
		m.Died(p, proc.Cause{Kind: proc.Fenced}, 2*ms)
	}
	got := ofKind(until(m, 4000*ms), Report)
	require.Len(t, got, 1)
	require.EqualValues(t, 4, got[0].Peer)
	require.GreaterOrEqual(t, got[0].Silent, 1000*ms)
}

// A failure that another process sends is reported to the engine, once; a departure is not.
func TestUpdateIsReported(t *testing.T) {
	m := newMachine(0, 16, Majority)
	killed := proc.Cause{Kind: proc.Signaled, Code: 9}
	tell := appendUpdate(nil, 0, 0, []entry{{id: 5, cause: killed}, {id: 6, cause: proc.Cause{Kind: proc.Departed}}})
	require.NoError(t, m.Receive(2, tell, ms))
	require.Equal(t, []Action{{Kind: Report, Peer: 5, Cause: killed}}, ofKind(drained(m), Report))
	require.NoError(t, m.Receive(3, tell, 2*ms))
	require.Empty(t, ofKind(drained(m), Report), "once")
}

// A process that learns that it counts as failed ends itself, and names the setting to change.
func TestCondemnedEnds(t *testing.T) {
	for name, tell := range map[string]func(*Machine){
		"refused": func(m *Machine) { m.Fenced(2, ms) },
		"told": func(m *Machine) {
			require.NoError(t, m.Receive(2,
				appendUpdate(nil, flagDirect, 0, []entry{{id: 1, cause: proc.Cause{Kind: proc.Heartbeat}}}), ms))
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(1, 4, Majority)
			tell(m)
			got := drained(m)
			require.Len(t, got, 1)
			require.Equal(t, Die, got[0].Kind)
			require.ErrorContains(t, got[0].Err, "rank 2")
			require.ErrorContains(t, got[0].Err, "detect.timeout")
			var end *EndError
			require.True(t, errors.As(got[0].Err, &end))
		})
	}
}

// A failed process's claim is not believed.
func TestCondemnedByAFailedProcess(t *testing.T) {
	m := newMachine(1, 4, Majority)
	m.Died(2, proc.Cause{Kind: proc.Connection}, ms)
	drained(m)
	m.Fenced(2, 2*ms)
	require.NoError(t, m.Receive(2, appendUpdate(nil, 0, 0,
		[]entry{{id: 1, cause: proc.Cause{Kind: proc.Heartbeat}}}), 2*ms))
	require.Empty(t, drained(m))
	require.NoError(t, m.Receive(2, heartbeatFrame, 3*ms))
	got := drained(m)
	require.Len(t, got, 1)
	require.Equal(t, appendUpdate(nil, flagDirect, 0,
		[]entry{{id: 2, cause: proc.Cause{Kind: proc.Connection}}}), got[0].Payload)
}

// A verdict of others is reported as theirs.
func TestVerdictOfOthers(t *testing.T) {
	m := newMachine(1, 4, Majority)
	silent := proc.Cause{Kind: proc.Heartbeat}
	require.NoError(t, m.Receive(2, appendUpdate(nil, 0, 0, []entry{{id: 3, cause: silent}}), 2*ms))
	require.Equal(t, []Action{{Kind: Report, Peer: 3, Cause: silent}}, ofKind(drained(m), Report))
}

// A pair of processes that cannot reach each other is no failure for the others.
func TestUnreachableIsNotForwarded(t *testing.T) {
	m := newMachine(1, 4, Majority)
	m.Died(2, proc.Cause{Kind: proc.Unreachable, Code: 24}, ms)
	m.Fenced(2, 2*ms)
	require.Empty(t, drained(m))
	require.False(t, m.hasFailed(2))
}

// A departed process is no failure, and gets no heartbeats.
func TestDepartedIsNoFailure(t *testing.T) {
	m := newMachine(0, 2, Majority)
	m.Departed(1)
	require.Empty(t, until(m, 300*ms))
	require.Equal(t, fabric.Forever, m.Due())
	m = newMachine(0, 3, Majority)
	m.Departed(2)
	for now := ms; now < 5000*ms; now += 100 * ms {
		require.NoError(t, m.Receive(1, heartbeatFrame, now))
		require.Empty(t, ofKind(until(m, now), Report))
	}
}

// Several failures travel in one message, at once, with their causes.
func TestFailuresShareAFrame(t *testing.T) {
	m := newMachine(0, 16, Majority)
	m.Died(5, proc.Cause{Kind: proc.Exited, Code: -3}, ms)
	m.Died(6, proc.Cause{Kind: proc.Signaled, Code: 11}, ms)
	got := ofKind(drained(m), Send)
	require.Len(t, got, 7) // ±1, ±2, ±4, 8
	var f frame
	for _, a := range got {
		require.NoError(t, f.decode(a.Payload, 16))
		require.Equal(t, []entry{{id: 5, cause: proc.Cause{Kind: proc.Exited, Code: -3}},
			{id: 6, cause: proc.Cause{Kind: proc.Signaled, Code: 11}}}, f.entries)
	}
}

// A process that was held up does not take its own lateness for the others' silence.
func TestOwnLateness(t *testing.T) {
	m := newMachine(0, 2, Majority)
	for now := ms; now < 3000*ms; now += 100 * ms {
		require.NoError(t, m.Receive(1, heartbeatFrame, now))
		until(m, now)
	}
	m.Tick(13000 * ms)
	got := drained(m)
	require.Empty(t, ofKind(got, Report))
	require.Empty(t, ofKind(until(m, 13500*ms), Report))
	require.Len(t, ofKind(until(m, 14500*ms), Report), 1)
}

// Without other faults all of 512 processes learn of a failure in a logarithmic number of hops, at
// the cost of two frames for each pair of neighbours.
func TestHops(t *testing.T) {
	const n = 512
	var ms512 [n]*Machine
	for i := range ms512 {
		ms512[i] = newMachine(i, n, Majority)
	}
	cause := proc.Cause{Kind: proc.Signaled, Code: 9}
	ms512[7].Died(8, cause, ms)
	hops, tells, frames, known := 0, 0, 0, 1
	for wave := []int{7}; ; hops++ {
		type mail struct {
			from proc.ID
			Action
		}
		var box []mail
		for _, i := range wave {
			for _, a := range drained(ms512[i]) {
				if a.Kind == Send && a.To != 8 {
					box = append(box, mail{proc.ID(i), a})
				}
			}
		}
		if len(box) == 0 {
			break
		}
		wave = wave[:0]
		for _, e := range box {
			frames++
			if e.Payload[0] == kindUpdate {
				tells++
			}
			to := ms512[e.To]
			if !to.hasFailed(8) {
				known++
			}
			require.NoError(t, to.Receive(e.from, e.Payload, ms))
			wave = append(wave, int(e.To))
		}
		if known == n-1 {
			require.LessOrEqual(t, hops+1, bits.Len(n-1)/2+2)
			known++
		}
	}
	require.Equal(t, n, known)
	require.LessOrEqual(t, tells, n*2*bits.Len(n))
	require.LessOrEqual(t, frames, 2*n*2*bits.Len(n))
	t.Logf("%d tells, %d frames", tells, frames)
}

// The costs of a job of the largest size grow with its logarithm.
func TestLargestJob(t *testing.T) {
	m := newMachine(12345, proc.MaxIDs, Majority)
	require.Len(t, m.neighbours, 2*20-1)
	m.Died(12346, proc.Cause{Kind: proc.Connection}, ms)
	drained(m)
	require.NoError(t, m.Receive(12344, heartbeatFrame, 2*ms))
	allocs := testing.AllocsPerRun(10, func() {
		m.Tick(m.Due())
		_ = m.Receive(12344, heartbeatFrame, m.now)
		m.sends, m.sent = m.sends[:0], 0
	})
	require.Less(t, allocs, 100.0)
}

// A wrong configuration is refused with a reason.
func TestCheck(t *testing.T) {
	good := Config{Self: 1, Procs: 2, Period: 1, Timeout: MinPeriods}
	require.NoError(t, good.Check())
	for text, spoil := range map[string]func(*Config){
		"processes":        func(c *Config) { c.Procs = 0 },
		"process 2":        func(c *Config) { c.Self = 2 },
		"detect.period":    func(c *Config) { c.Period = 0 },
		"detect.timeout":   func(c *Config) { c.Timeout = 2 },
		"detect.partition": func(c *Config) { c.Partition = 2 },
	} {
		c := good
		spoil(&c)
		require.ErrorContains(t, c.Check(), text)
		require.Panics(t, func() { New(c, 0) })
	}
	require.True(t, strings.Contains(Majority.String()+Off.String(), "majorityoff"))
}

// A process that has not heard a suspect itself does not confirm it, even if it does not suspect it
// yet: because it has just started to observe it, or by another's report.
func TestAliveOnlyAfterAFrame(t *testing.T) {
	said := func(m *Machine) (kinds []byte) {
		for _, a := range ofKind(drained(m), Send) {
			if k := a.Payload[0]; k == kindAlive || k == kindPing {
				kinds = append(kinds, k)
			}
		}
		return kinds
	}
	m := newMachine(2, 5, Majority)
	require.NoError(t, m.Receive(4, appendQuery(nil, 1, []proc.ID{1}), 10*ms)) // its first heartbeat has time
	require.Equal(t, []byte{kindPing}, said(m))
	m.Died(1, proc.Cause{Kind: proc.Signaled, Code: 9}, 20*ms)
	drained(m)
	require.NoError(t, m.Receive(4, appendQuery(nil, 2, []proc.ID{0}), 30*ms)) // observed for 10 ms
	require.Equal(t, []byte{kindPing}, said(m))
	require.NoError(t, m.Receive(3, appendAlive(nil, 0), 40*ms))
	require.NoError(t, m.Receive(4, appendQuery(nil, 3, []proc.ID{0}), 150*ms))
	require.Equal(t, []byte{kindPing}, said(m))
	require.NoError(t, m.Receive(0, heartbeatFrame, 160*ms))
	require.Equal(t, []byte{kindAlive}, said(m))
	require.NoError(t, m.Receive(4, appendQuery(nil, 4, []proc.ID{0}), 170*ms))
	require.Equal(t, []byte{kindAlive}, said(m))
}

// Two processes that cannot reach each other, with no others left, are silent to each other and
// live: neither ends because of that.
func TestUnreachableIsNotJudged(t *testing.T) {
	for self := range 2 {
		m := newMachine(self, 3, Majority)
		m.Died(2, proc.Cause{Kind: proc.Signaled, Code: 9}, ms)
		m.Died(proc.ID(1-self), proc.Cause{Kind: proc.Unreachable, Code: 24}, ms)
		got := until(m, 9000*ms)
		require.Empty(t, ofKind(got, Die))
		require.Empty(t, ofKind(got, Report))
	}
}

// A process that is missing while all finalize is not expected, counted or sent, until it is known
// how it ended.
func TestMissing(t *testing.T) {
	m := newMachine(4, 5, Majority)
	for p := range proc.ID(3) {
		m.Missing(p)
	}
	m.Departed(3)
	got := until(m, 5000*ms)
	require.Empty(t, ofKind(got, Die))
	require.Empty(t, ofKind(got, Report))
	require.Equal(t, 1, m.counted)
	require.NoError(t, m.Receive(1, appendUpdate(nil, flagDirect, 0,
		[]entry{{id: 0, cause: proc.Cause{Kind: proc.Heartbeat}}}), 5000*ms))
	require.Equal(t, 2, m.counted)
	require.Equal(t, []Action{{Kind: Report, Peer: 0, Cause: proc.Cause{Kind: proc.Heartbeat}}},
		ofKind(drained(m), Report))
}
