//go:build cgo

package verbs

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// moves counts the parts that a sink reports.
type moves struct{ started, moved, lost int }

func countMoves(p *peer) *moves {
	m := new(moves)
	p.sink.Moved = func(_ proc.ID, n int, lost bool) {
		if m.moved += n; lost {
			m.moved, m.lost = m.moved-n, m.lost+n
		}
	}
	return m
}

func (m *moves) ended() bool { return m.moved+m.lost == m.started }

// all starts to move all of local, and polls while there is no room.
func (m *moves) all(p [2]*peer, try func([]byte, fabric.Region, uint64) int, local []byte, r fabric.Region, at uint64) bool {
	for len(local) > 0 {
		switch n := try(local, r, at); n {
		case fabric.NoRoom:
			poll(p)
		case fabric.NoPath:
			return false
		default:
			m.started++
			local, at = local[n:], at+uint64(n)
		}
	}
	return true
}

// Memory that is shared is written and read where it is meant, from and into registered and other memory.
func TestMoves(t *testing.T) {
	if noAdapter(t) {
		return
	}
	const most = 2*moveBytes + 3*slotBytes + 7
	p, c := steady(t)
	m := countMoves(p[0])
	shared := make([]byte, most+2)
	r, err := p[1].Share(shared[1:][:most])
	require.NoError(t, err)
	for _, local := range [][]byte{registered(p[0], most), randomBytes(most)} {
		for _, n := range []int{1, 8, 129, batchBytes, batchBytes + 1, slotBytes, slotBytes + 1, most - 1, most} {
			clear(shared)
			at := uint64(most - n)
			require.True(t, m.all(p, c[0].TryPut, local[:n], r, at))
			for !m.ended() {
				p[0].Poll(&p[0].sink)
			}
			require.Equal(t, local[:n], shared[1+at:][:n])
			require.Equal(t, make([]byte, 1+at), shared[:1+at], "bytes before")
			require.Zero(t, shared[most+1], "a byte behind")
			back := make([]byte, n+1)
			require.True(t, m.all(p, c[0].TryGet, back[:n], r, at))
			for !m.ended() {
				p[0].Poll(&p[0].sink)
			}
			require.Equal(t, local[:n], back[:n])
			require.Zero(t, back[n])
		}
	}
	require.Zero(t, m.lost)
	require.Equal(t, fabric.NoPath, c[0].TryPut(make([]byte, 2), r, most-1), "beyond the memory")
	require.Equal(t, fabric.NoPath, c[0].TryGet(make([]byte, 1), r, most+1))
	require.Equal(t, fabric.NoPath, c[0].TryPut(make([]byte, 1), fabric.Region{Addr: r.Addr, Len: r.Len}, 0), "no key")
	require.Zero(t, p[0].onWay)
	require.EqualValues(t, 0, c[0].Traffic().Broken)
}

// Short writes that follow each other share a call into C.
func TestShortMovesAreOneBatch(t *testing.T) {
	if noAdapter(t) {
		return
	}
	p, c := steady(t)
	m := countMoves(p[0])
	shared := make([]byte, 8*4*mostMoves)
	r, err := p[1].Share(shared)
	require.NoError(t, err)
	local := randomBytes(len(shared))
	before := p[0].Calls().Busy
	for c[0].TryPut(local[8*m.started:][:8], r, uint64(8*m.started)) == 8 { // the first may be complete at once
		m.started++
	}
	require.GreaterOrEqual(t, m.started, mostMoves)
	require.Equal(t, fabric.NoRoom, c[0].TryPut(local[:8], r, 0))
	require.EqualValues(t, 1, p[0].ports[0].d.calls.Busy-before)
	for !m.ended() {
		p[0].Poll(&p[0].sink)
	}
	require.Equal(t, local[:8*m.started], shared[:8*m.started])
	most := mostMoves / 2
	if p[0].ports[0].d.links != nil { // each is probed
		most = mostMoves
	}
	require.Less(t, p[0].Calls().Busy-before, uint64(most))
}

// A lane that fails, because the peer shares the memory no more or for another reason, loses moves, and no frame.
// Nothing is written by a lost one once it has been reported.
func TestMovesOfALaneThatFails(t *testing.T) {
	if noAdapter(t) {
		return
	}
	for name, breaks := range map[string]func(*peer, *Conn, fabric.Region){
		"unshared": func(p *peer, _ *Conn, r fabric.Region) { p.Unshare(r) },
		"failed": func(_ *peer, c *Conn, _ fabric.Region) {
			if c.pair != (pair{}) { // both sides may know already
				c.pair.fail()
			}
		},
		"ours": func(_ *peer, _ *Conn, _ fabric.Region) {},
	} {
		p, c := steadyWith(t, 1)
		m := countMoves(p[0])
		shared := make([]byte, 4<<20)
		r, err := p[1].Share(shared)
		require.NoError(t, err)
		local, into := registered(p[0], len(shared)), registered(p[0], len(shared))
		var sent [2]uint64
		sendNumbered(p, c, &sent, 100, func() { poll(p) })
		for at := 0; m.moved < 20; at = (at + moveBytes) % len(shared) {
			m.all(p, c[0].TryPut, local[at:][:moveBytes], r, uint64(at))
			m.all(p, c[0].TryGet, into[at:][:moveBytes], r, uint64(at))
			poll(p)
		}
		for i := range 4 { // short ones wait for each other
			breaks(p[1], c[1], r)
			m.all(p, c[0].TryPut, local[8*i:][:8], r, uint64(8*i))
			m.all(p, c[0].TryGet, into[8*i:][:8], r, uint64(8*i))
		}
		if name == "ours" {
			c[0].fails(nil)
		}
		for !m.ended() {
			poll(p)
		}
		require.NotZero(t, m.lost, name)
		clear(shared)
		clear(into)
		sendNumbered(p, c, &sent, 500, func() { poll(p) })
		inOrder(t, p, 500)
		require.Equal(t, make([]byte, len(shared)), shared, name)
		require.Equal(t, make([]byte, len(into)), into, name)
		require.Equal(t, fabric.NoPath, c[0].TryPut(local[:8], r, 0))
		require.Zero(t, p[0].onWay)
		require.EqualValues(t, 1, c[0].Traffic().Broken)
	}
}

// A peer that has ended writes nothing to memory of this process afterwards, and no buffer of a read is written.
func TestMovesOfAPeerThatEnds(t *testing.T) {
	if noAdapter(t) {
		return
	}
	for side := range 2 {
		p, c := steady(t)
		m := countMoves(p[0])
		shared := make([]byte, 4<<20)
		r, err := p[1].Share(shared)
		require.NoError(t, err)
		local, into := registered(p[0], len(shared)), registered(p[0], len(shared))
		for range 3 {
			m.all(p, c[0].TryPut, local[:8*moveBytes], r, 0)
			m.all(p, c[0].TryGet, into[:4*moveBytes], r, 0)
		}
		c[side].Invalidate()
		p[side].Poll(&p[side].sink)
		mem := [][]byte{into, shared}[side]
		before, told := append([]byte(nil), mem...), m.moved+m.lost
		for len(p[1-side].downs)+p[1-side].leaves == 0 {
			poll(p)
		}
		require.Equal(t, before, mem)
		if side == 0 {
			require.Equal(t, told, m.moved+m.lost, "told of moves after the end")
		}
		require.Equal(t, fabric.NoPath, c[0].TryPut(local[:8], r, 0))
		require.Zero(t, p[0].onWay)
	}
}

// A notice comes when its move is done at the peer, and the moves before it; with a lane that fails it is lost, and comes never.
func TestNotices(t *testing.T) {
	if noAdapter(t) {
		return
	}
	p, c := steady(t)
	m := countMoves(p[0])
	shared := make([]byte, 2*moveBytes)
	r, err := p[1].Share(shared)
	require.NoError(t, err)
	local := registered(p[0], len(shared))
	number, length := uint64(0), 0
	var got []uint64
	p[1].sink.Deliver[fabric.ClassRMA] = func(_ proc.ID, imm uint64, payload []byte) {
		got = append(got, imm)
		require.Equal(t, []byte("notice"), payload)
		if imm == number { // else the lane has failed
			require.Equal(t, local[:length], shared[:length])
		}
	}
	notify := func(local []byte, r fabric.Region, at uint64) int {
		return c[0].TryNotify(local, r, at, fabric.ClassRMA, number, []byte("notice"))
	}
	for _, length = range []int{2, 16, 3000, 2 * slotBytes, moveBytes, 2 * moveBytes} {
		for range max(4, min(2*mostCredit, slotBytes/length)) {
			number++
			copy(local, randomBytes(length))
			require.True(t, m.all(p, c[0].TryPut, local[:length/2], r, 0))
			require.True(t, m.all(p, notify, local[length/2:length], r, uint64(length/2)))
			for len(got) < int(number) {
				poll(p)
			}
			for !m.ended() {
				poll(p)
			}
		}
	}
	require.Zero(t, m.lost)
	require.EqualValues(t, number, c[1].Traffic().Received-c[1].Conn.Traffic().Received)
	for number++; c[0].Moves(); number++ {
		if c[1].pair.at != nil && len(got)%8 == 7 {
			c[1].pair.fail()
		}
		m.all(p, notify, local[:8], r, 0)
		p[1].Poll(&p[1].sink)
	}
	for !m.ended() {
		poll(p)
	}
	require.NotZero(t, m.lost)
	before := len(got)
	var sent [2]uint64
	sendNumbered(p, c, &sent, 100, func() { poll(p) })
	inOrder(t, p, 100)
	require.Len(t, got, before)
	for i, imm := range got {
		require.EqualValues(t, i+1, imm, "a notice is missing, or comes twice")
	}
}
