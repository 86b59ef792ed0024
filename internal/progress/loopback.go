package progress

import (
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// loopback is the connection of a process to itself: a bounded queue of frames that Poll delivers,
// so that a handler never runs inside a send.
type loopback struct {
	self        proc.ID
	kick        func() // wakes the progressing goroutine if it sleeps
	frames      []frame
	first, used int
}

type frame struct {
	class fabric.Class
	imm   uint64
	data  []byte
}

const (
	loopbackFrames   = 64
	loopbackMaxFrame = 64 << 10
)

func newLoopback(self proc.ID, kick func()) *loopback {
	return &loopback{self: self, kick: kick}
}

func (l *loopback) Name() string    { return "self" }
func (l *loopback) Address() []byte { return nil }
func (l *loopback) Ready() bool     { return l.used > 0 }
func (l *loopback) Depart()         {}
func (l *loopback) Close() error    { return nil }
func (l *loopback) Peer() proc.ID   { return l.self }

func (l *loopback) Inform(proc.ID, proc.Cause) {}

func (l *loopback) Lookup(proc.ID) fabric.Conn { return l }

func (l *loopback) Connect(fabric.ConnectSpec) (fabric.Conn, error) { return l, nil }

func (l *loopback) Caps() fabric.Caps {
	return fabric.Caps{Inline: 64, MaxFrame: loopbackMaxFrame, Eager: loopbackMaxFrame}
}

func (l *loopback) TrySend(class fabric.Class, imm uint64, payload []byte) bool {
	if l.used == len(l.frames) {
		if l.used > 0 {
			return false
		}
		l.frames = make([]frame, loopbackFrames) // the first frame
	}
	f := &l.frames[(l.first+l.used)%len(l.frames)]
	f.class, f.imm = class, imm
	f.data = append(f.data[:0], payload...)
	l.used++
	l.kick() // the sender may be another goroutine than the one that polls
	return true
}

func (l *loopback) Poll(s *fabric.Sink) int {
	n := 0
	for ; l.used > 0 && n < loopbackFrames; n++ {
		// The frame keeps its slot until it is delivered: the handler may send to itself.
		f := &l.frames[l.first]
		if fn := s.Deliver[f.class]; fn != nil {
			fn(l.self, f.imm, f.data)
		}
		l.first = (l.first + 1) % len(l.frames)
		l.used--
	}
	return n
}

func (l *loopback) Expose([]byte) (fabric.Region, error) {
	return fabric.Region{}, fabric.ErrUnsupported
}

func (l *loopback) Get([]byte, fabric.Region, uint64) error { return fabric.ErrUnsupported }

func (l *loopback) Invalidate() {}
