package fabrictest

import (
	"bytes"
	"errors"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

func fetchCases() []Case {
	return []Case{
		{Name: "fetches", N: 2, Body: fetches,
			About: "Several reads are under way at once, each is reported once, with good data and nothing beside them."},
		{Name: "kill-fetch", N: 2, Victims: []proc.ID{0}, Body: killFetch, Reaches: []string{fetchesGood},
			About: "Reads from a peer that dies: good data or errors, and nothing is written or reported after Down."},
	}
}

const fetchesGood = "fetches with good data"

// fetcher is a process that reads memory of the other one.
type fetcher struct {
	e      *Env
	other  proc.ID
	conn   fabric.Fetcher
	theirs fabric.Region // of length 0: not known
	said   int           // by the other: that it has read
	list   []*fetched    // by token
	ended  int
	good   int // of those that have ended
}

// fetched is a read, between two edges.
type fetched struct {
	all  []byte
	done bool
}

func newFetcher(e *Env) *fetcher {
	f := &fetcher{e: e, other: 1 - e.ID}
	e.raw = func(_ proc.ID, imm uint64, payload []byte) {
		if imm == sayRegion {
			f.theirs = decodeRegion(payload)
		} else {
			f.said++
		}
	}
	e.sink.Fetched = f.fetched
	return f
}

// expose lets the other read mem; false: the provider has no reads beside processes.
func (f *fetcher) expose(mem []byte) bool {
	e := f.e
	conn, ok := e.Conn(f.other).(fabric.Fetcher)
	if f.conn = conn; !ok {
		return false
	}
	reg, waits := e.Provider.(fabric.Registrar)
	if waits {
		reg.Register(mem)
	}
	var r fabric.Region
	e.pump(forReply, f.other, func() bool {
		var err error
		r, err = f.conn.Expose(mem)
		e.Check(err == nil || errors.Is(err, fabric.ErrUnsupported), "Expose: %v", err)
		return err == nil || !waits || e.Ended(f.other)
	})
	if len(r.Key) == 0 {
		return false
	}
	e.SendRaw(f.other, rawClass, sayRegion, encodeRegion(r))
	return true
}

func (f *fetcher) fetched(from proc.ID, token uint64, err error) {
	e := f.e
	e.callbacks++
	e.Check(from == f.other && token < uint64(len(f.list)), "read %d of %v has ended", token, from)
	e.Check(!e.Ended(from), "a read from %v has ended after it", from)
	r := f.list[token]
	e.Check(!r.done, "read %d has ended twice", token)
	r.done = true
	if f.ended++; err != nil {
		e.Check(e.Job.Victims != nil, "a read: %v", err)
		return
	}
	f.good++
	n := len(r.all) - 2*edge
	bad := checkPattern(e.Job.Seed+uint64(from), n, r.all[edge:][:n])
	e.Check(bad < 0, "a read of %d bytes is wrong from byte %d on", n, bad)
	e.Check(blank(r.all[:edge]) && blank(r.all[edge+n:]), "memory beside %d bytes has changed", n)
}

// start starts to read all of the other's memory.
func (f *fetcher) start(n int) error {
	r := &fetched{all: make([]byte, edge+n+edge)}
	if reg, ok := f.e.Provider.(fabric.Registrar); ok && len(f.list)%2 == 0 {
		reg.Register(r.all) // until Close
	}
	f.list = append(f.list, r)
	return f.conn.Fetch(r.all[edge:][:n:n], f.theirs, uint64(len(f.list)-1))
}

func fetches(e *Env) {
	f := newFetcher(e)
	const atOnce = 40
	for i, n := range []int{1, 8, 5000, mostMoved} {
		mine := make([]byte, n)
		fillPattern(e.Job.Seed+uint64(e.ID), n, mine)
		if !f.expose(mine) {
			exchange(e, 1)
			return
		}
		e.pump(forReply, f.other, func() bool { return f.theirs.Len == uint64(n) })
		f.list, f.ended = nil, 0
		e.Check(f.conn.Fetch(make([]byte, n+1), f.theirs, 0) != nil, "a read beyond the region")
		for range atOnce {
			err := f.start(n)
			e.Check(err == nil, "a read of %d bytes: %v", n, err)
		}
		e.pump(forReply, f.other, func() bool { return f.ended == atOnce })
		e.SendRaw(f.other, rawClass, sayDone, nil)
		e.pump(forReply, f.other, func() bool { return f.said > i })
		if reg, ok := e.Provider.(fabric.Registrar); ok {
			reg.Deregister(mine)
		}
	}
	exchange(e, 1)
}

func killFetch(e *Env) {
	f := newFetcher(e)
	size := 2 << 10
	if e.Isolated {
		size = 1 << 20
	}
	if e.ID == 0 {
		mine := make([]byte, size)
		fillPattern(e.Job.Seed+uint64(e.ID), size, mine)
		e.greetAll()
		f.expose(mine)
		e.Control.Signal(SignalStarted)
		e.AwaitEnd(f.other) // until it is killed
		fillPattern(0, 0, mine)
	}
	e.MayEnd(0)
	c := e.Conn(0)
	e.greetAll()
	var ok bool
	if f.conn, ok = c.(fabric.Fetcher); ok {
		e.pump(forReply, 0, func() bool { return f.theirs.Len > 0 || e.Ended(0) })
	}
	f.untilEnd(size)
	if c != nil && !f.reads() {
		f.good = 1 // there is nothing to reach
	}
	e.Record(fetchesGood, int64(f.good))
	e.AwaitEnd(0)
	e.checkCause(0, killedCause)
	var before [][]byte
	for _, r := range f.list {
		before = append(before, bytes.Clone(r.all))
	}
	e.Control.Await(0, SignalEnded)
	e.Linger()
	for i, r := range f.list {
		e.Check(bytes.Equal(before[i], r.all), "a read has written after the end")
	}
}

// reads reports whether the provider has reads beside processes.
func (f *fetcher) reads() bool {
	if f.conn == nil {
		return false
	}
	_, ok := f.e.Provider.(fabric.Registrar)
	_, err := f.conn.Expose(make([]byte, 1))
	return ok || err == nil
}

// untilEnd has some reads under way until the other's end is known.
func (f *fetcher) untilEnd(size int) {
	const atOnce, most = 6, 300
	for f.theirs.Len > 0 && !f.e.Ended(f.other) && len(f.list) < most {
		for len(f.list)-f.ended < atOnce {
			if f.start(size) != nil {
				f.list = f.list[:len(f.list)-1]
				break
			}
		}
		f.e.pollOrYield()
	}
}
