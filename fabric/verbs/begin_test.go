//go:build cgo

package verbs

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/tcp"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// Frames that wait for the first lane go over the sockets where the peer, or this process, cannot make its end.
func TestFirstLaneThatCannotBegin(t *testing.T) {
	if noAdapter(t) {
		return
	}
	for _, who := range []int{0, 1} {
		p := newPeers(t)
		p[0].cfg.Wait, p[1].cfg.Wait = true, true
		p[who].credit = 1 << 24 // no adapter makes a queue pair for so many messages
		made, err := p[0].Connect(fabric.ConnectSpec{Peer: 1, Address: p[1].Address()})
		require.NoError(t, err)
		for c := made.(*Conn); !c.TrySend(fabric.ClassTest, 0, make([]byte, 8)); {
			poll(p)
		}
		for c := p[1].Lookup(0).(*Conn); !c.TrySend(fabric.ClassTest, 0, make([]byte, 8)); {
			poll(p)
		}
	}
}

// A lane has a buffer to send from before it begins, or goes to the sockets.
func TestLaneHasBuffers(t *testing.T) {
	if noAdapter(t) {
		return
	}
	p := newPeers(t)
	made, err := p[0].Connect(fabric.ConnectSpec{Peer: 1, Address: p[1].Address()})
	require.NoError(t, err)
	for c := made.(*Conn); c.pair == (pair{}); {
		poll(p)
	}
	require.NotEmpty(t, p[0].ports[0].outgoing.free)
}

// A message that brings credit before this side's frames go over the lane is not taken for a frame of the next lane, and its
// completion is asked for like theirs.
func TestCreditBeforeTheFrames(t *testing.T) {
	if noAdapter(t) {
		return
	}
	for _, failing := range []bool{true, false} {
		p, c := steadyWith(t, 1)
		free := len(p[0].ports[0].outgoing.free)
		c[0].sending = false
		require.True(t, c[0].post(0, 0, nil))
		if failing {
			c[0].fails(errors.New("broken"))
		} else {
			p[0].settle()
			c[0].sending = true
			for len(c[0].out) > 0 {
				poll(p)
			}
		}
		require.Empty(t, c[0].out)
		require.Zero(t, p[0].onWay)
		require.Len(t, p[0].ports[0].outgoing.free, free)
	}
}

// No frame goes over the sockets before the note that says where the lane's frames end.
func TestNoFrameOvertakesANote(t *testing.T) {
	c := &Conn{p: new(Provider), notes: [][]byte{new(note).encode()}, wanted: true} // the sockets are not there: see pump
	c.Conn = new(tcp.Conn)
	require.False(t, c.TrySend(fabric.ClassTest, 0, nil))
	require.True(t, c.starving)
}

// A frame that is sent as the note over leaves goes over the lane, as those after it.
func TestFrameAfterTheNoteOver(t *testing.T) {
	if noAdapter(t) {
		return
	}
	p, c := steadyWith(t, 1)
	before := c[0].carried
	c[0].sending, c[0].wantsTo = false, true
	c[0].notes = append(c[0].notes, (&note{word: over}).encode())
	sendNumber(t, c[0], 0)
	require.True(t, c[0].sending)
	require.Equal(t, before+1, c[0].carried)
	for len(p[1].got) < 1 {
		poll(p)
	}
}

// Work of a former lane that had the same number ends nothing.
func TestCompletionOfAFormerLane(t *testing.T) {
	c := &Conn{p: new(Provider), first: 5, next: 5}
	o := &openPort{lanes: map[uint32]*Conn{7: c}}
	c.out = make([]onWay, 3)
	c.p.complete(o, &completion{id: 3, qp: 7})
	require.Len(t, c.out, 3)
}

// The endings of a connection are done in their order, so that none is ready that Poll does not settle.
func TestEndingsAreDoneInOrder(t *testing.T) {
	p := new(Provider)
	c := &Conn{p: p}
	first := &ending{c: c, done: make(chan struct{})}
	p.endings = append(p.endings, first)
	p.freeLater(&ending{c: c})
	for range 1000 {
		runtime.Gosched()
	}
	require.False(t, p.endings[1].isDone())
	close(first.done)
	p.freeing.Wait()
	p.settleEndings()
	require.Empty(t, p.endings)
}

// A peer that has departed, and whose last frames its adapter never sends, has failed.
func TestDepartureOfASilentAdapter(t *testing.T) {
	if noAdapter(t) {
		return
	}
	p, c := steadyWith(t, 1)
	for i := range p {
		p[i].cfg.Timeout = 100 * time.Millisecond
	}
	c[1].Farewell(c[1].sent + 1)
	p[1].Provider.Provider.Depart()
	for len(p[0].downs) == 0 {
		poll(p)
	}
	require.Equal(t, proc.Connection, p[0].downs[0].Kind)
}
