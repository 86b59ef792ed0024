package fabrictest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

func moveCases() []Case {
	return []Case{
		{Name: "moves", N: 2, Body: moves,
			About: "Processes write and read each other's shared memory, where it is meant, and nothing beside it; a notice " +
				"comes when all that was written before it is there."},
	}
}

// mover is a process that moves, with the memory that it shares: most bytes between two edges.
type mover struct {
	e              *Env
	conn           fabric.Mover
	other          proc.ID
	mem            []byte
	theirs         fabric.Region
	said, heard    [sayGone + 1]int
	started, ended int
}

const mostMoved, edge = 300_001, 16

// moves has each process write to the other's memory and read it back.
func moves(e *Env) {
	m := &mover{e: e, other: 1 - e.ID, mem: make([]byte, edge+mostMoved+edge)}
	s, shares := e.Provider.(fabric.Sharer)
	var ok bool
	var mine fabric.Region
	if m.conn, ok = e.Conn(m.other).(fabric.Mover); shares && ok {
		var err error
		if mine, err = s.Share(m.mem[edge:][:mostMoved]); errors.Is(err, fabric.ErrUnsupported) {
			ok = false
		} else {
			e.Check(err == nil && mine.Len == mostMoved, "Share: %+v, %v", mine, err)
		}
	}
	if !shares || !ok {
		exchange(e, 1)
		return
	}
	e.raw, e.sink.Moved = m.hears, m.moved
	m.meet(sayName, append(binary.LittleEndian.AppendUint64(nil, mine.Addr), mine.Key...))
	e.pump(forReply, m.other, m.conn.Moves)
	for _, n := range []int{1, 8, 5000, mostMoved} {
		m.round(n, false)
		m.round(n, true)
	}
	e.Check(m.conn.TryPut(m.mem[:2], m.theirs, mostMoved-1) == fabric.NoPath, "a move beyond the memory")
	e.Check(m.conn.TryGet(m.mem[:1], m.theirs, mostMoved+1) == fabric.NoPath, "a move behind the memory")
	exchange(e, 1)
	s.Unshare(mine)
}

func (m *mover) hears(_ proc.ID, imm uint64, payload []byte) {
	if m.heard[imm]++; imm == sayName {
		m.theirs = fabric.Region{Addr: binary.LittleEndian.Uint64(payload), Len: mostMoved, Key: slices.Clone(payload[8:])}
	}
}

func (m *mover) moved(from proc.ID, n int, lost bool) {
	m.e.callbacks++
	m.e.Check(from == m.other && !lost, "moves of %v have ended, lost: %t", from, lost)
	m.ended += n
}

// meet sends a message, and waits until the other process has sent as many.
func (m *mover) meet(imm uint64, payload []byte) {
	m.said[imm]++
	m.e.SendRaw(m.other, rawClass, imm, payload)
	m.e.pump(forReply, m.other, func() bool { return m.heard[imm] >= m.said[imm] })
}

// round writes n bytes to the end of the other's memory, and reads them. Notify: the other learns of them by a notice.
func (m *mover) round(n int, notify bool) {
	e, at := m.e, mostMoved-n
	local, back := make([]byte, n), make([]byte, n+edge)
	fillPattern(e.Job.Seed+uint64(e.ID), n, local)
	if notify {
		m.start(m.conn.TryPut, local[:n/2], uint64(at))
		m.start(m.tryNotify, local[n/2:], uint64(at+n/2))
		m.said[sayWrote]++
		e.pump(forReply, m.other, func() bool { return m.heard[sayWrote] >= m.said[sayWrote] })
	} else {
		m.all(m.conn.TryPut, local, uint64(at))
		m.meet(sayWrote, nil)
	}
	bad := checkPattern(e.Job.Seed+uint64(m.other), n, m.mem[edge+at:][:n])
	e.Check(bad < 0, "the other's %d bytes are wrong from byte %d on", n, bad)
	e.Check(blank(m.mem[:edge+at]) && blank(m.mem[edge+mostMoved:]), "memory beside %d bytes has changed", n)
	m.end()
	m.all(m.conn.TryGet, back[:n], uint64(at))
	e.Check(bytes.Equal(local, back[:n]) && blank(back[n:]), "%d bytes that were read", n)
	m.meet(sayRead, nil)
	clear(m.mem)
	m.meet(sayGone, nil)
}

// tryNotify notifies the other process that this one has written.
func (m *mover) tryNotify(local []byte, r fabric.Region, at uint64) int {
	return m.conn.TryNotify(local, r, at, rawClass, sayWrote, nil)
}

// all moves all of local.
func (m *mover) all(try func([]byte, fabric.Region, uint64) int, local []byte, at uint64) {
	m.start(try, local, at)
	m.end()
}

// start starts to move all of local.
func (m *mover) start(try func([]byte, fabric.Region, uint64) int, local []byte, at uint64) {
	e := m.e
	for len(local) > 0 {
		n := 0
		e.pump(forCredit, m.other, func() bool {
			n = try(local, m.theirs, at)
			return n != fabric.NoRoom
		})
		e.Check(n > 0 && n <= len(local), "a part of %d bytes of %d", n, len(local))
		m.started++
		local, at = local[n:], at+uint64(n)
	}
}

// end waits until all moves have ended.
func (m *mover) end() {
	e := m.e
	e.pump(forReply, m.other, func() bool { return m.ended >= m.started })
	e.Check(m.ended == m.started, "%d moves have ended, of %d", m.ended, m.started)
}

func blank(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }
