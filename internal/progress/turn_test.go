package progress

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// A wait on shared cores yields at once while the peer that it depends on has no core, and polls for a
// bounded number of rounds in each turn in which it has one.
func TestWaitStaysWhileThePeerRuns(t *testing.T) {
	e := engines(t, false)
	ep, err := e[0].Endpoint(1)
	require.NoError(t, err)
	peer, err := e[1].Endpoint(0)
	require.NoError(t, err)
	h := &sharedHost{Host: e[0].host.(sleepingHost).Host}
	for _, x := range e {
		x.crowded = true
	}
	e[0].host, e[0].yields, e[0].yieldMost = h, 1000, 100
	var done Completion
	var polls, yields []uint64 // of e[0], up to each of its sleeps
	var rounds uint64
	away := func() { assert.Zero(t, peer.shm.Turn()%2, "this process gives its core to others") }
	last := uint32(1)
	h.relaxed = func() {
		away()
		assert.NotEqual(t, last, peer.shm.Turn(), "it had a turn")
		last = peer.shm.Turn()
	}
	h.slept = func() {
		away()
		polls, yields = append(polls, e[0].rounds-rounds), append(yields, uint64(h.yields))
		e[1].setRuns(len(polls)%2 == 1)
		if len(polls) == 4 {
			e[0].Lock()
			done.Finish()
			e[0].Unlock()
		}
		rounds = e[0].rounds
	}
	e[0].Lock()
	e[0].WaitFor(&done, ep)
	e[0].Unlock()
	require.Equal(t, []uint64{2, 4, 6, 8}, yields)
	idle := polls[0]
	require.Equal(t, []uint64{idle, idle + partnerPolls/roundPolls, idle, idle + partnerPolls/roundPolls}, polls)
	require.Nil(t, done.partner)
	require.Equal(t, partnerPolls, ep.patience, "the peer may answer the next wait in the same turn")
	require.True(t, peer.runs(1), "it sleeps no longer")
}

// A peer that answers is waited for again in the same turn; one that does not is not.
func TestPatienceWithARunningPeer(t *testing.T) {
	e := engines(t, false)
	ep, err := e[0].Endpoint(1)
	require.NoError(t, err)
	peer, err := e[1].Endpoint(0)
	require.NoError(t, err)
	for _, x := range e {
		x.crowded, x.awaitLooks, x.awaitSpins = true, 0, 1
	}
	await := func() int { return e[0].Await(ep, fabric.ClassTest, 0, make([]byte, 8)) }
	turns := func() (n int) {
		for ep.runs(1) {
			n++
		}
		return n
	}
	e[1].setRuns(true)
	require.Equal(t, partnerPolls, turns())
	require.Zero(t, turns(), "once in a turn")
	e[1].setRuns(true)
	require.Zero(t, turns(), "it is the same turn")
	ep.answered()
	require.Equal(t, partnerPolls, turns())
	e[1].setRuns(false)
	require.Zero(t, turns())
	e[1].setRuns(true)
	got := count(e[0])
	send(e[1], peer, 0) // Await leaves each 64th frame to Poll
	got.await(1)
	ep.answered()
	require.Negative(t, await())
	require.Zero(t, ep.patience, "Await polls on too")
	var none *Endpoint
	none.answered()
	self, err := e[0].Endpoint(proc.ID(0))
	require.NoError(t, err)
	require.False(t, self.runs(1))
}

// Turn gives other processes one turn and looks at the watchers, and at nothing else; one of patientTurns waits
// does not begin with it.
func TestTurnLooksAtWatchersAlone(t *testing.T) {
	e := engines(t, false)
	peer, err := e[1].Endpoint(0)
	require.NoError(t, err)
	got := count(e[0])
	h := &sharedHost{Host: e[0].host.(sleepingHost).Host}
	e[0].host, e[0].spins, e[0].yields, e[0].yieldMost = h, 0, 1000, 100
	send(e[1], peer, 0)
	looks, moved := 0, 0
	first := &Watcher{Look: func() int { looks++; return moved }, Doze: func() bool { return true }}
	second := &Watcher{Look: func() int { looks++; return 0 }, Doze: func() bool { return true }}
	e[0].Lock()
	defer e[0].Unlock()
	e[0].Turn()
	require.Zero(t, h.yields, "nothing is watched")
	e[0].Watch(first)
	e[0].Watch(second)
	e[0].turns = 0
	for range patientTurns {
		e[0].Turn()
	}
	require.Equal(t, patientTurns-1, h.yields)
	require.Equal(t, 2*(patientTurns-1), looks)
	require.Zero(t, got.n, "no provider has been polled")
	looks, moved = 0, 1
	e[0].Turn()
	require.Equal(t, 1, looks, "the first has moved")
	e[0].spins = 1
	e[0].Turn()
	require.Equal(t, patientTurns, h.yields, "this process has a core")
}

// quiet is a provider that has something now and then.
type quiet struct {
	*busy
	polls, events int
}

func (q *quiet) Poll(*fabric.Sink) int {
	q.polls++
	return q.events
}

// In each turn all providers are polled; those beside shared memory that have long been idle in one turn of some, until
// they deliver again.
func TestTurnsSpareIdleProviders(t *testing.T) {
	e := engines(t, false)[0]
	q := &quiet{busy: &busy{loopback: newLoopback(0, func() {})}}
	e.others = append(e.others, &other{Provider: q})
	turns := func(n int) int {
		q.polls = 0
		for range n {
			e.yieldProcess()
			e.round()
		}
		return q.polls
	}
	e.Lock()
	defer func() {
		e.others = nil
		e.Unlock()
	}()
	require.Equal(t, idlePolls, turns(idlePolls))
	require.Equal(t, 10, turns(10*(turnGap+1)))
	q.events = 1
	require.Equal(t, 3, turns(turnGap+3), "from the next poll on in each turn")
	q.events = 0
	require.Equal(t, idlePolls, turns(idlePolls))
	require.Equal(t, 10, turns(10*(turnGap+1)))
}
