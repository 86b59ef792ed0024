package p2p

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/host"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// scripted is a provider whose peer 1 sends the frames in inbox.
type scripted struct {
	inbox []frame
	sent  []frame
	down  proc.ID      // ends at the next poll, if not 0
	left  proc.ID      // departs at the next poll, if not 0
	full  bool         // it takes nothing
	cut   []proc.Cause // reports about the peer
}

type frame struct {
	class fabric.Class
	imm   uint64
	data  []byte
}

func (s *scripted) Name() string                                    { return "stray" }
func (s *scripted) Address() []byte                                 { return nil }
func (s *scripted) Connect(fabric.ConnectSpec) (fabric.Conn, error) { return s, nil }
func (s *scripted) Lookup(proc.ID) fabric.Conn                      { return s }
func (s *scripted) Inform(_ proc.ID, c proc.Cause)                  { s.cut = append(s.cut, c) }
func (s *scripted) Ready() bool                                     { return len(s.inbox) > 0 }
func (s *scripted) Depart()                                         {}
func (s *scripted) Close() error                                    { return nil }
func (s *scripted) Peer() proc.ID                                   { return 1 }
func (s *scripted) Caps() fabric.Caps                               { return fabric.Caps{MaxFrame: 256, Eager: 1024} }
func (s *scripted) Expose(b []byte) (fabric.Region, error)          { return fabric.Region{}, nil }
func (s *scripted) Get([]byte, fabric.Region, uint64) error         { return fabric.ErrUnsupported }
func (s *scripted) Invalidate()                                     {}

func (s *scripted) TrySend(class fabric.Class, imm uint64, payload []byte) bool {
	if s.full {
		return false
	}
	s.sent = append(s.sent, frame{class, imm, append([]byte(nil), payload...)})
	return true
}

func (s *scripted) Poll(sink *fabric.Sink) int {
	n := len(s.inbox)
	for _, f := range s.inbox {
		sink.Deliver[f.class](1, f.imm, f.data)
	}
	s.inbox = nil
	if s.down != 0 {
		sink.Down(s.down, proc.Cause{Kind: proc.Signaled, Code: 9})
		s.down = 0
		n++
	}
	if s.left != 0 {
		sink.Departed(s.left)
		s.left = 0
		n++
	}
	return n
}

func newScripted(t testing.TB) (*scripted, *Engine, *Comm) {
	s := new(scripted)
	p := progress.New(progress.Config{
		Host: host.New(host.Config{}), Others: []fabric.Provider{s},
		Resolve: func(string, proc.ID) ([]byte, error) { return nil, nil },
	})
	e := New(p, true, Limits{})
	c, err := e.NewComm("world", WorldGroup(2), 0, 1)
	require.NoError(t, err)
	return s, e, c
}

func (e *Engine) poll() {
	e.p.Lock()
	for e.p.Progress() {
	}
	e.p.Unlock()
}

// For any input nothing panics and nothing is written outside of a receive's buffer.
func FuzzFrames(f *testing.F) {
	f.Add([]byte{1, 0, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8})
	f.Add([]byte{2, 0, 0, 8, 16, 0, 0, 0, 0, 0, 0, 0, 3, 1, 0, 4, 1, 2, 3, 4})
	var each []byte
	for class := range byte(7) { // with a number of a request or an announcement, and without
		each = append(append(each, class, 1, 0, 3, 1, 2, 3), class, 2, 1, 8, 0, 0, 0, 0, 0, 0, 0, 0, class, class, 1, 0)
	}
	f.Add(each)
	f.Add([]byte{4, 0, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 40, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, script []byte) {
		s, e, c := newScripted(t)
		guard := make([]byte, 300)
		for i := range guard {
			guard[i] = 0xa5
		}
		buf := guard[100:200:200]
		Irecv[Aware](c, buf[:30:30], AnySource, 0) // before the peer has a link
		for tag := range 2 {
			Irecv[Aware](c, buf[30*tag:30*tag+30:30*tag+30], 1, 1+tag)
		}
		big := make([]byte, 5000)
		Isend[Aware](c, big, 1, 1)
		for len(script) >= 4 {
			class := fabric.Class(script[0]%7) + 1
			// Small immediates hit existing contexts, requests and streams.
			imm := uint64(script[1])
			if script[2]&1 == 0 {
				imm |= 1 << 32
			}
			n := min(int(script[3]), len(script)-4)
			s.inbox = append(s.inbox, frame{class, imm, script[4 : 4+n]})
			script = script[4+n:]
		}
		e.poll()
		for i, b := range guard {
			if (i < 100 || i >= 160) && b != 0xa5 {
				t.Fatalf("byte %d outside of the buffers was written", i)
			}
		}
	})
}

func FuzzRTS(f *testing.F) {
	f.Add(appendRTS(nil, rts{sender: 7, total: 100, region: fabric.Region{Addr: 1, Len: 100, Key: []byte("key")}}))
	f.Add(appendRTS(nil, rts{sender: 7, total: 100, lent: true, region: fabric.Region{Addr: 1, Len: 100}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, ok := decodeRTS(b)
		if ok {
			require.Equal(t, b, appendRTS(nil, m))
		}
	})
}

// A stream that is too long, or was never announced, is refused and counted.
func TestMalformedFrames(t *testing.T) {
	length := func(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }
	for name, frames := range map[string][]frame{
		"fragment without a first": {{fabric.ClassFrag, 0, []byte("x")}},
		"fragment beyond the length": {{fabric.ClassFirst, 1 << 32, length(2)},
			{fabric.ClassFrag, 0, []byte("xyz")}},
		"fragment of no request": {{fabric.ClassFrag, 99, []byte("x")}},
		"first within a stream": {{fabric.ClassFirst, 1 << 32, length(2)},
			{fabric.ClassFirst, 1 << 32, length(2)}},
		"first of an absurd length":     {{fabric.ClassFirst, 1 << 32, length(1 << 40)}},
		"first without a length":        {{fabric.ClassFirst, 1 << 32, nil}},
		"first of length 0":             {{fabric.ClassFirst, 1 << 32, length(0)}},
		"fragment of a posted receive":  {{fabric.ClassFrag, 1, nil}},
		"announcement of absurd length": {{fabric.ClassRTS, 1 << 32, appendRTS(nil, rts{total: 1 << 60})}},
		"short announcement":            {{fabric.ClassRTS, 1 << 32, []byte("abc")}},
		"clearance of no request":       {{fabric.ClassCTS, 12345, length(1)}},
		"completion of no request":      {{fabric.ClassFin, 12345, nil}},
	} {
		t.Run(name, func(t *testing.T) {
			s, e, c := newScripted(t)
			Irecv[Aware](c, nil, AnySource, 99) // request 0, without a link
			s.inbox = frames
			e.poll()
			require.EqualValues(t, 1, e.refused)
		})
	}
}

// A fragment for a receive that has not asked for a stream does not end it.
func TestFragmentOfAnEagerReceive(t *testing.T) {
	s, e, c := newScripted(t)
	buf := make([]byte, 300)
	h := Irecv[Aware](c, buf, 1, 0)
	first := binary.LittleEndian.AppendUint64(nil, 300)
	s.inbox = []frame{{fabric.ClassFirst, 1 << 32, first}, {fabric.ClassFrag, 1, nil}}
	e.poll()
	require.EqualValues(t, 1, e.refused)
	s.inbox = []frame{{fabric.ClassFrag, 0, make([]byte, 256)}, {fabric.ClassFrag, 0, make([]byte, 44)}}
	st, err := e.Wait(h)
	require.NoError(t, err)
	require.Equal(t, 300, st.Count)
}

// Announcements without a receive are bounded, for any counts of the sender.
func TestTooManyAnnouncements(t *testing.T) {
	s, e, _ := newScripted(t)
	for i := range uint64(maxAnnounced + 10) {
		s.inbox = append(s.inbox, frame{fabric.ClassRTS, 1 << 32, appendRTS(nil, rts{sender: i, total: 9})})
	}
	e.poll()
	require.EqualValues(t, 10, e.refused)
	require.Equal(t, maxAnnounced, e.unexpected.n)
}

// Messages of any kind for a freed communicator are dropped, and a waiting sender is notified.
func TestMessagesForAFreedCommunicator(t *testing.T) {
	length := binary.LittleEndian.AppendUint64(nil, 300)
	for _, late := range []bool{false, true} {
		s, e, c := newScripted(t)
		d, err := e.NewComm("freed", WorldGroup(2), 0, 7)
		require.NoError(t, err)
		free := func() { require.NoError(t, d.Free()) }
		if late {
			free()
		}
		s.inbox = []frame{
			{fabric.ClassEager, 7<<32 | 1, []byte("eager")},
			{fabric.ClassRTS, 7<<32 | 1, appendRTS(nil, rts{sender: 5, total: 9})},
			{fabric.ClassFirst, 7<<32 | 1, length}, {fabric.ClassFrag, 0, make([]byte, 256)},
		}
		e.poll()
		if !late {
			require.Equal(t, 3, e.unexpected.n)
			free()
		}
		s.inbox = []frame{{fabric.ClassFrag, 0, make([]byte, 44)}, {fabric.ClassEager, 1<<32 | 2, []byte("world")}}
		buf := make([]byte, 8)
		st, err := Recv[Aware](c, buf, 1, 2)
		require.NoError(t, err)
		require.Equal(t, "world", string(buf[:st.Count]))
		require.Zero(t, e.unexpected.n)
		l := e.findLink(1)
		require.Zero(t, l.kept)
		require.Zero(t, l.waiting)
		require.Nil(t, l.in)
		require.Equal(t, 1, s.count(fabric.ClassFin, 5))
		require.Zero(t, e.refused)
	}
}

// The list of freed contexts is bounded and has the last ones; one that is in use again does not count as freed, and one
// that has been freed again counts as new.
func TestFreedContexts(t *testing.T) {
	_, e, _ := newScripted(t)
	for ctx := range uint32(3 * freedMax) {
		e.freed.add(ctx, nil)
		require.LessOrEqual(t, len(e.freed.known), freedMax)
		if ctx%500 == 0 {
			for back := range min(ctx, freedMax-1) {
				require.Contains(t, e.freed.known, ctx-back)
			}
		}
	}
	require.False(t, e.wasFreed((2*freedMax-1)<<32))
	require.True(t, e.wasFreed(2*freedMax<<32))
	const last = 3*freedMax - 1
	require.True(t, e.wasFreed(last<<32))
	_, err := e.NewComm("again", WorldGroup(2), 0, last)
	require.NoError(t, err)
	require.False(t, e.wasFreed(last<<32))

	var f freedContexts
	f.add(7, nil)
	for i := range uint32(freedMax / 2) {
		f.add(1000+i, nil)
	}
	f.add(7, nil)
	for i := range uint32(freedMax - 1) {
		require.Contains(t, f.known, uint32(7))
		f.add(10_000+i, nil)
	}
	f.add(1, nil)
	require.NotContains(t, f.known, uint32(7))
	require.Len(t, f.known, freedMax)
}
