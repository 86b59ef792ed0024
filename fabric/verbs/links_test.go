//go:build cgo

package verbs

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
)

// A process without the token of a pair that waits gets no connection, nor does the token of one that is connected help. The lane goes on.
func TestConnectionOfAStranger(t *testing.T) {
	if noAdapter(t) {
		return
	}
	p, c := steady(t)
	if p[0].ports[0].d.links == nil {
		return // its pairs are not connected
	}
	waits, right, _, err := p[1].ports[0].d.newPair(1, true)
	require.NoError(t, err)
	defer waits.free()
	wrong, none := right, right
	wrong.token[15]++
	none.token = [16]byte{}
	for _, theirs := range []*end{&wrong, &none, &c[1].mine, &right} {
		at, mine, _, err := p[0].ports[0].d.newPair(1, true)
		require.NoError(t, err)
		linked, err := p[0].ports[0].d.join(at, &mine, theirs, time.Minute, 1)
		require.NoError(t, err)
		require.False(t, linked)
		ch, ok := p[0].ports[0].d.next()
		for ; !ok || ch.qp != mine.qp; ch, ok = p[0].ports[0].d.next() { // other pairs may be connected only now
			p[1].Poll(&p[1].sink)
		}
		require.Equal(t, theirs == &right, ch.err == nil, ch.err)
		at.free()
	}
	var sent [2]uint64
	sendNumbered(p, c, &sent, 100, func() { poll(p) })
	inOrder(t, p, 100)
	require.True(t, c[0].sending && c[1].sending)
}

// Work that has no answer for too long ends its lane: its frames go over the sockets.
func TestLaneWithoutAnswer(t *testing.T) {
	if noAdapter(t) {
		return
	}
	p, c := steadyWith(t, 1)
	p[0].cfg.Timeout = 40 * time.Millisecond
	c[0].out = append(c[0].out, onWay{slot: noSlot, move: true}) // it is never complete
	c[0].moves++
	p[0].onWay++
	for c[0].sending {
		p[0].Poll(&p[0].sink)
	}
	var sent [2]uint64
	sendNumbered(p, c, &sent, 100, func() { poll(p) })
	inOrder(t, p, 100)
	require.Equal(t, fabric.NoPath, c[0].TryPut(make([]byte, 1), fabric.Region{}, 0))
}

// A message without a completion gets one, and its lane is not given up, however long this process has not looked.
func TestQuietMessageIsProbed(t *testing.T) {
	if noAdapter(t) {
		return
	}
	p, c := steadyWith(t, 1)
	sendNumber(t, c[0], 0)
	require.NotZero(t, c[0].quiet)
	limit := p[0].silence(c[0].port)
	c[0].lookAfter(false)
	c[0].unanswered.since = c[0].unanswered.since.Add(-2 * limit)
	c[0].lookAfter(false)
	require.Zero(t, c[0].quiet)
	for len(c[0].out) > 0 {
		p[0].Poll(&p[0].sink)
	}
	require.True(t, c[0].sending)
}

// A watch counts the time of one piece of work, from when it is the oldest.
func TestWatch(t *testing.T) {
	var w watch
	require.False(t, w.lasts(true, 1, 0), "it begins")
	w.since = w.since.Add(-time.Second)
	require.True(t, w.lasts(true, 1, time.Second))
	require.False(t, w.lasts(true, 1, time.Hour))
	require.False(t, w.lasts(true, 2, 0), "another one is the oldest")
	require.False(t, w.lasts(false, 2, 0), "nothing waits")
	require.False(t, w.lasts(true, 2, 0), "it begins")
}
