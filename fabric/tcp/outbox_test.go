package tcp

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
)

// modelOutbox is an outbox without limits of memory and time.
type modelOutbox struct {
	frames []kept // not taken
	first  uint32
	urgent []byte // goes before everything else
	at     int    // how much of the frames has been written
}

type kept struct {
	wire []byte // header and payload
	ring int    // how much of it is in the ring
	lent bool
}

func (s *modelOutbox) unsent() []byte {
	all := bytes.Clone(s.urgent)
	skip := s.at
	for _, k := range s.frames {
		n := min(skip, len(k.wire))
		all = append(all, k.wire[n:]...)
		skip -= n
	}
	return all
}

func (s *modelOutbox) used() (n int) {
	for _, k := range s.frames {
		n += k.ring
	}
	return n
}

// taken releases n frames, and returns the same as an outbox.
func (s *modelOutbox) taken(n int) int {
	if n < 0 || n > len(s.frames) {
		return -1
	}
	size, loans := 0, 0
	for _, k := range s.frames[:n] {
		size += len(k.wire)
		if k.lent {
			loans++
		}
	}
	if size > s.at {
		return -1
	}
	s.frames, s.at, s.first = s.frames[n:], s.at-size, s.first+uint32(n)
	return loans
}

// resume is taken over another connection: all frames count as written.
func (s *modelOutbox) resume(n int, got uint32) int {
	s.at, s.urgent = 0, nil
	for _, k := range s.frames {
		s.at += len(k.wire)
	}
	loans := s.taken(n)
	s.at = 0
	for _, k := range s.frames {
		h, _ := parseHeader(k.wire)
		h.taken = got
		h.put(k.wire)
	}
	return loans
}

// addFrame adds a frame to both, if it fits.
func (s *modelOutbox) addFrame(t testing.TB, o *outbox, op byte, a, b int, got uint32) {
	h := header{kind: kind(fabric.ClassTest), imm: uint64(a)<<32 | uint64(b), taken: got}
	payload := bytes.Repeat([]byte{op ^ byte(a+b)}, a*b%(o.size/4))
	lent := op%8 == 1
	inRing := headerBytes + len(payload)
	if lent {
		payload = append(payload, 1)
		h.flags, inRing = flagLent, headerBytes
	}
	fits := s.used()+inRing <= o.size-byeRoom
	require.Equal(t, fits, o.room(inRing-headerBytes))
	if !fits {
		return
	}
	h.length = uint32(len(payload))
	o.add(&h, inRing-headerBytes)
	if lent {
		o.lend(payload)
	} else {
		o.append(payload)
	}
	wire := make([]byte, headerBytes)
	h.put(wire)
	s.frames = append(s.frames, kept{append(wire, payload...), inRing, lent})
}

// writeSome writes a part of the pending data of both.
func (s *modelOutbox) writeSome(t testing.TB, o *outbox, a, b int) {
	pieces := make([][]byte, 3+a%6)
	n := o.gather(pieces)
	listed := bytes.Join(pieces[:n], nil)
	want := s.unsent()
	require.LessOrEqual(t, len(listed), len(want))
	require.True(t, bytes.Equal(want[:len(listed)], listed), "gather lists the wrong bytes")
	require.Equal(t, len(want) > 0, len(listed) > 0, "gather lists nothing")
	step := 0
	if len(listed) > 0 {
		step = a * b % (len(listed) + 1)
	}
	before := o.progress()
	o.wrote(step)
	require.Equal(t, step > 0, o.progress() != before)
	head := min(step, len(s.urgent))
	s.urgent = s.urgent[head:]
	s.at += step - head
}

// compareWithModel applies the script to both, and compares them; false: the outbox has detected an
// impossible acknowledgement.
func compareWithModel(t testing.TB, size int, script []byte) bool {
	o, s := &outbox{size: size}, new(modelOutbox)
	o.first, o.next = ^uint32(0)-3, ^uint32(0)-3 // the numbers come round
	s.first = o.first
	var got uint32
	for len(script) > 2 {
		op, a, b := script[0], int(script[1]), int(script[2])
		script = script[3:]
		switch op % 8 {
		case 0, 1: // a frame, lent or not
			s.addFrame(t, o, op, a, b, got)
		case 2, 3, 4: // some of it is written
			s.writeSome(t, o, a, b)
		case 5: // the peer has taken some
			n := a - 8
			have := o.taken(s.first + uint32(n))
			require.Equal(t, s.taken(n), have)
			if have < 0 {
				return false
			}
			if op&8 != 0 { // the memory of an idle connection is given back
				o.shrink()
				require.Less(t, len(o.buf), max(2*s.used(), 2*firstRing))
			}
		case 6: // another connection
			got += uint32(b)
			n := a % (len(s.frames) + 1)
			have := o.resume(s.first+uint32(n), got)
			require.Equal(t, s.resume(n, got), have)
		case 7: // a part of a confirmation that the socket did not take
			if len(s.unsent()) == 0 {
				o.urgent = bytes.Repeat([]byte{byte(a)}, b%headerBytes)
				s.urgent = bytes.Clone(o.urgent)
			}
		}
		require.Equal(t, s.first, o.first)
		require.Equal(t, len(s.frames) > 0, o.kept())
		require.Equal(t, len(s.unsent()) > 0, o.unsent())
		require.Equal(t, s.used(), int(o.tail-o.head))
	}
	return true
}

func TestOutbox(t *testing.T) {
	r := rand.New(rand.NewPCG(seedOf(t), 0))
	caught := 0
	for range 4000 {
		script := make([]byte, 3*(1+r.IntN(200)))
		for i := range script {
			script[i] = byte(r.Uint32())
		}
		for i := 0; i < len(script); i += 3 {
			if script[i]%8 == 5 { // mostly a valid acknowledgement
				script[i+1] = byte(8 + r.IntN(3))
				if r.IntN(20) == 0 {
					script[i+1] = byte(r.Uint32())
				}
			}
		}
		if !compareWithModel(t, 256<<r.IntN(4), script) {
			caught++
		}
	}
	require.Positive(t, caught)
}

func FuzzOutbox(f *testing.F) {
	f.Add([]byte{0, 9, 9, 1, 5, 5, 2, 7, 7, 5, 9, 0, 6, 1, 1, 2, 200, 200, 7, 3, 9, 2, 1, 1})
	f.Fuzz(func(t *testing.T, script []byte) { compareWithModel(t, 512, script) })
}
