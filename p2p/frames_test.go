package p2p

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/host"
	"github.com/banyan-hpc/banyan/proc"
	"github.com/banyan-hpc/banyan/progress"
)

// stray is a provider whose peer 1 says whatever the test puts into inbox.
type stray struct {
	inbox []frame
	sent  []frame
}

type frame struct {
	class fabric.Class
	imm   uint64
	data  []byte
}

func (s *stray) Name() string                                    { return "stray" }
func (s *stray) Address() []byte                                 { return nil }
func (s *stray) Connect(fabric.ConnectSpec) (fabric.Conn, error) { return s, nil }
func (s *stray) Lookup(proc.ID) fabric.Conn                      { return s }
func (s *stray) Ready() bool                                     { return len(s.inbox) > 0 }
func (s *stray) Depart()                                         {}
func (s *stray) Close() error                                    { return nil }
func (s *stray) Peer() proc.ID                                   { return 1 }
func (s *stray) Caps() fabric.Caps                               { return fabric.Caps{MaxFrame: 256, Eager: 1024} }
func (s *stray) Expose(b []byte) (fabric.Region, error)          { return fabric.Region{}, nil }
func (s *stray) Get([]byte, fabric.Region, uint64) error         { return fabric.ErrUnsupported }
func (s *stray) Invalidate()                                     {}

func (s *stray) TrySend(class fabric.Class, imm uint64, payload []byte) bool {
	s.sent = append(s.sent, frame{class, imm, append([]byte(nil), payload...)})
	return true
}

func (s *stray) Poll(sink *fabric.Sink) int {
	n := len(s.inbox)
	for _, f := range s.inbox {
		sink.Deliver[f.class](1, f.imm, f.data)
	}
	s.inbox = nil
	return n
}

func newStray(t testing.TB) (*stray, *Engine, *Comm) {
	s := new(stray)
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

// Whatever a peer says, nothing panics and nothing is written outside of a
// receive's buffer.
func FuzzFrames(f *testing.F) {
	f.Add([]byte{1, 0, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8})
	f.Add([]byte{2, 0, 0, 8, 16, 0, 0, 0, 0, 0, 0, 0, 3, 1, 0, 4, 1, 2, 3, 4})
	f.Add([]byte{4, 0, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 40, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, script []byte) {
		s, e, c := newStray(t)
		guard := make([]byte, 300)
		for i := range guard {
			guard[i] = 0xa5
		}
		buf := guard[100:200:200]
		for tag := range 3 {
			Irecv[Aware](c, buf[:30*tag:30*tag], 1, tag)
		}
		big := make([]byte, 5000)
		Isend[Aware](c, big, 1, 1)
		for len(script) >= 4 {
			class := fabric.Class(script[0]%7) + 1
			// Small immediates hit contexts, requests and streams that exist.
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
	f.Fuzz(func(t *testing.T, b []byte) {
		m, ok := decodeRTS(b, nil)
		if ok {
			require.Equal(t, b, appendRTS(nil, m))
		}
	})
}

// A stream that ends too late, or was never announced, is refused and counted.
func TestFramesThatMakeNoSense(t *testing.T) {
	length := func(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }
	for name, frames := range map[string][]frame{
		"fragment without a first":      {{fabric.ClassFrag, 0, []byte("x")}},
		"fragment beyond the length":    {{fabric.ClassFirst, 1 << 32, length(2)}, {fabric.ClassFrag, 0, []byte("xyz")}},
		"fragment of no request":        {{fabric.ClassFrag, 99, []byte("x")}},
		"first within a stream":         {{fabric.ClassFirst, 1 << 32, length(2)}, {fabric.ClassFirst, 1 << 32, length(2)}},
		"first of an absurd length":     {{fabric.ClassFirst, 1 << 32, length(1 << 40)}},
		"first without a length":        {{fabric.ClassFirst, 1 << 32, nil}},
		"announcement of absurd length": {{fabric.ClassRTS, 1 << 32, appendRTS(nil, rts{total: 1 << 60})}},
		"short announcement":            {{fabric.ClassRTS, 1 << 32, []byte("abc")}},
		"clearance of no request":       {{fabric.ClassCTS, 12345, length(1)}},
		"completion of no request":      {{fabric.ClassFin, 12345, nil}},
	} {
		t.Run(name, func(t *testing.T) {
			s, e, _ := newStray(t)
			s.inbox = frames
			e.poll()
			require.EqualValues(t, 1, e.refused)
		})
	}
}
