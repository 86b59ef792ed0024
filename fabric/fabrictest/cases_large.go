package fabrictest

import (
	"encoding/binary"
	"errors"
	"runtime"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

func largeCases() []Case {
	return []Case{
		{Name: "large-stream", N: 2, Body: largeStream,
			About: "Messages above MaxFrame, as frames, both ways at once."},
		{Name: "large-get", N: 2, Body: largeGet,
			About: "Get copies exactly the requested bytes; without Caps.Get it returns ErrUnsupported."},
	}
}

const largest = 8 << 20

// largeSizes are the thresholds above a frame, up to 8 MiB.
func largeSizes(c fabric.Caps) []int {
	list := []int{c.MaxFrame + 1, 2*c.MaxFrame - 1, 2*c.MaxFrame + 1, c.Eager - 1, c.Eager, c.Eager + 1}
	for n := 64 << 10; n <= largest; n *= 4 {
		list = append(list, n-1, n+1)
	}
	list = append(list, largest)
	kept := list[:0]
	for _, n := range list {
		if n > 0 && n <= largest {
			kept = append(kept, n)
		}
	}
	return kept
}

// largeStream checks contents as one stream: the messages lie end to end in the pattern, the
// immediate is the position.
func largeStream(e *Env) {
	other := 1 - e.ID
	c := e.Conn(other)
	at := 0
	e.raw = func(from proc.ID, imm uint64, payload []byte) {
		e.Check(imm == uint64(at), "the piece at %d came when that at %d was due", imm, at)
		bad := checkPattern(e.Job.Seed+uint64(from), at, payload)
		e.Check(bad < 0, "the stream is wrong from byte %d on", at+bad)
		at += len(payload)
	}
	sent := 0
	for _, n := range largeSizes(c.Caps()) {
		for n > 0 {
			buf := e.buffer(min(n, c.Caps().MaxFrame))
			fillPattern(e.Job.Seed+uint64(e.ID), sent, buf)
			e.SendRaw(other, rawClass, uint64(sent), buf)
			sent += len(buf)
			n -= len(buf)
		}
	}
	e.Finish(other)
	e.AwaitFinish(other)
	e.Check(at == sent, "%d bytes came, %d were sent", at, sent)
}

// encodeRegion and decodeRegion carry a region in a frame.
func encodeRegion(r fabric.Region) []byte {
	b := binary.LittleEndian.AppendUint64(nil, r.Addr)
	b = binary.LittleEndian.AppendUint64(b, r.Len)
	return append(b, r.Key...)
}

func decodeRegion(b []byte) fabric.Region {
	return fabric.Region{
		Addr: binary.LittleEndian.Uint64(b), Len: binary.LittleEndian.Uint64(b[8:]),
		Key: append([]byte(nil), b[16:]...),
	}
}

// The meaning of raw frames in the cases with Get.
const (
	sayRegion = iota // the payload is a region
	sayDone          // the sender has got its data
)

func largeGet(e *Env) {
	other := 1 - e.ID
	c := e.Conn(other)
	if !c.Caps().Get {
		err := c.Get(make([]byte, 1), fabric.Region{Addr: 1, Len: 1}, 0)
		e.Check(errors.Is(err, fabric.ErrUnsupported), "Get without Caps.Get: %v", err)
		exchange(e, 1)
		return
	}
	var regions []fabric.Region
	done := 0
	e.raw = func(_ proc.ID, imm uint64, payload []byte) {
		if imm == sayRegion {
			regions = append(regions, decodeRegion(payload))
		} else {
			done++
		}
	}
	list := append([]int{1, 2, 7, 8, 9, 63, 64, 65, 4095, 4096, 4097}, largeSizes(c.Caps())...)
	for i, n := range list {
		mine := make([]byte, n)
		fillPattern(e.Job.Seed+uint64(e.ID), n, mine)
		r, err := c.Expose(mine)
		e.Check(err == nil && r.Len == uint64(n), "Expose of %d bytes: %d, %v", n, r.Len, err)
		e.SendRaw(other, rawClass, sayRegion, encodeRegion(r))
		e.pump(forReply, other, func() bool { return len(regions) > i })
		getPieces(e, c, regions[i], n)
		e.SendRaw(other, rawClass, sayDone, nil)
		e.pump(forReply, other, func() bool { return done > i })
		runtime.KeepAlive(mine)
	}
	exchange(e, 1)
}

// getPieces gets all of the peer's n bytes, and some parts of them.
func getPieces(e *Env, c fabric.Conn, r fabric.Region, n int) {
	for _, p := range [][2]int{{0, n}, {n / 2, n - n/2}, {n - 1, 1}, {e.Rand.IntN(n), 0}, {n, 0}} {
		getPiece(e, c, r, p[0], p[1], n)
	}
	for _, p := range [][2]int{{0, n + 1}, {n, 1}, {math64, 1}} {
		err := c.Get(make([]byte, p[1]), r, uint64(p[0]))
		e.Check(err != nil, "Get of %d bytes at %d from %d bytes succeeds", p[1], p[0], n)
	}
}

// math64 is an offset that overflows in an addition.
const math64 = -1

// getPiece checks also that nothing is written beside the piece.
func getPiece(e *Env, c fabric.Conn, r fabric.Region, offset, n, total int) {
	const guard = 0xa5
	buf := make([]byte, n+2)
	buf[0], buf[n+1] = guard, guard
	err := c.Get(buf[1:n+1:n+1], r, uint64(offset))
	e.Check(err == nil, "Get of %d bytes at %d: %v", n, offset, err)
	bad := checkPattern(e.Job.Seed+uint64(c.Peer()), total+offset, buf[1:n+1])
	e.Check(bad < 0, "Get of %d bytes at %d: wrong from byte %d on", n, offset, bad)
	e.Check(buf[0] == guard && buf[n+1] == guard, "Get of %d bytes at %d wrote beside them", n, offset)
}
