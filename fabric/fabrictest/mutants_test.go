package fabrictest

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// wrapSink changes the sink of Poll.
func wrapSink(b *mutantProvider, change func(s *fabric.Sink, to *fabric.Sink)) {
	b.poll = func(s *fabric.Sink) int {
		to := *s
		change(s, &to)
		return b.memProc.Poll(&to)
	}
}

// endMutants have faults in the evidence of a peer's end.
var endMutants = []mutant{
	{name: "Down twice", in: "die-asleep", fault: func(b *mutantProvider) {
		wrapSink(b, func(s, to *fabric.Sink) {
			to.Down = func(id proc.ID, c proc.Cause) { s.Down(id, c); s.Down(id, c) }
		})
	}},
	{name: "Down again later", in: "die-asleep", fault: func(b *mutantProvider) {
		var dead []proc.ID
		b.poll = func(s *fabric.Sink) int {
			for _, id := range dead {
				s.Down(id, proc.Cause{})
			}
			to := *s
			to.Down = func(id proc.ID, c proc.Cause) { s.Down(id, c); dead = append(dead, id) }
			return b.memProc.Poll(&to)
		}
	}},
	{name: "no Down", in: "die-asleep", fault: func(b *mutantProvider) {
		wrapSink(b, func(_, to *fabric.Sink) { to.Down = func(proc.ID, proc.Cause) {} })
	}},
	{name: "no Down for a sender that waits for credit", in: "die-refusing", fault: func(b *mutantProvider) {
		wrapSink(b, func(_, to *fabric.Sink) { to.Down = func(proc.ID, proc.Cause) {} })
	}},
	{name: "Down without a heartbeat", in: "die-asleep", fault: func(b *mutantProvider) {
		wrapSink(b, func(s, to *fabric.Sink) {
			to.Down = func(id proc.ID, _ proc.Cause) { s.Down(id, proc.Cause{Kind: proc.Heartbeat}) }
		})
	}},
	{name: "wrong signal", in: "die-asleep", fault: func(b *mutantProvider) {
		wrapSink(b, func(s, to *fabric.Sink) {
			to.Down = func(id proc.ID, _ proc.Cause) { s.Down(id, proc.Cause{Kind: proc.Signaled, Code: 11}) }
		})
	}},
	{name: "wrong exit code", in: "exit", fault: func(b *mutantProvider) {
		wrapSink(b, func(s, to *fabric.Sink) {
			to.Down = func(id proc.ID, _ proc.Cause) { s.Down(id, proc.Cause{Kind: proc.Exited, Code: 1}) }
		})
	}},
	{name: "failure as departure", in: "kill-transfer", fault: func(b *mutantProvider) {
		wrapSink(b, func(s, to *fabric.Sink) { to.Down = func(id proc.ID, _ proc.Cause) { s.Departed(id) } })
	}},
	{name: "departure as failure", in: "depart", fault: func(b *mutantProvider) {
		wrapSink(b, func(s, to *fabric.Sink) { to.Departed = func(id proc.ID) { s.Down(id, proc.Cause{}) } })
	}},
	{name: "departure, then failure", in: "depart", fault: func(b *mutantProvider) {
		wrapSink(b, func(s, to *fabric.Sink) {
			to.Departed = func(id proc.ID) { s.Departed(id); s.Down(id, proc.Cause{}) }
		})
	}},
	{name: "does not announce its departure", in: "depart", fault: func(b *mutantProvider) { b.depart = func() {} }},
	{name: "Departed before the last frames", in: "depart-full", fault: func(b *mutantProvider) {
		b.poll = func(s *fabric.Sink) int {
			b.net.mu.Lock()
			for i := range b.inbox {
				if b.inbox[i].kind == memDeparted {
					b.inbox[0], b.inbox[i] = b.inbox[i], b.inbox[0]
				}
			}
			b.net.mu.Unlock()
			return b.memProc.Poll(s)
		}
	}},
	{name: "Down of the living", in: "all-to-all", fault: func(b *mutantProvider) {
		b.poll = func(s *fabric.Sink) int {
			if n := b.memProc.Poll(s); b.polls != 3 {
				return n
			}
			s.Down((b.id+1)%2, proc.Cause{})
			return 1
		}
	}},
	{name: "a frame after Down", in: "kill-transfer", fault: func(b *mutantProvider) {
		wrapSink(b, func(s, to *fabric.Sink) {
			to.Down = func(id proc.ID, c proc.Cause) { s.Down(id, c); s.Deliver[fabric.ClassEager](id, 0, nil) }
		})
	}},
	{name: "a newcomer does not learn of a departure", in: "depart-unmet", fault: func(b *mutantProvider) {
		b.connect = func(spec fabric.ConnectSpec) (fabric.Conn, error) {
			b.net.mu.Lock()
			if q := b.net.procs[spec.Peer]; q.departed && b.out[q.id] == nil {
				b.out[q.id], q.out[b.id] = &memConn{p: b.memProc, to: q}, &memConn{p: q, to: b.memProc}
			}
			b.net.mu.Unlock()
			c, err := b.memProc.Connect(spec)
			if err != nil {
				return nil, err
			}
			return b.wrap(c), nil
		}
	}},
	{name: "Connect does not look for what has come", in: "die-unmet", fault: func(b *mutantProvider) {
		b.connect = func(spec fabric.ConnectSpec) (fabric.Conn, error) {
			b.net.mu.Lock()
			over := b.net.procs[spec.Peer].over
			b.net.mu.Unlock()
			if over {
				return nil, fabric.ErrPeerGone
			}
			c, err := b.memProc.Connect(spec)
			if err != nil {
				return nil, err
			}
			return b.wrap(c), nil
		}
	}},
	{name: "half a frame at death", in: "kill-transfer", fault: func(b *mutantProvider) {
		wrapSink(b, func(s, to *fabric.Sink) {
			to.Down = func(id proc.ID, c proc.Cause) {
				s.Deliver[fabric.ClassEager](id, 0, []byte{1, 2})
				s.Down(id, c)
			}
		})
	}},
	{name: "Close leaves no evidence", in: "close-in-flight", fault: func(b *mutantProvider) {
		b.shut = func() error { b.net.mu.Lock(); defer b.net.mu.Unlock(); b.closed = true; return nil }
	}},
	{name: "a cut covers only peers that were heard", in: "invalidate-unmet", fault: func(b *mutantProvider) {
		heard := false
		wrapSink(b, func(s, to *fabric.Sink) {
			for i, fn := range s.Deliver {
				if fn != nil {
					to.Deliver[i] = func(from proc.ID, imm uint64, p []byte) { heard = true; fn(from, imm, p) }
				}
			}
		})
		b.cut = func(c mutantConn) {
			if heard {
				c.memConn.Invalidate()
			}
		}
	}},
	{name: "frames from the past of a cut", in: "invalidate",
		fault: func(b *mutantProvider) { b.cut = func(mutantConn) {} }},
}

// callMutants violate the promises of single calls.
var callMutants = []mutant{
	{name: "takes without bound", in: "pressure", fault: func(b *mutantProvider) {
		b.send = func(c mutantConn, class fabric.Class, imm uint64, p []byte) bool {
			b.net.mu.Lock()
			c.frames, c.bytes = 0, 0
			b.net.mu.Unlock()
			return c.memConn.TrySend(class, imm, p)
		}
	}},
	{name: "drops when full", in: "pressure-both", fault: func(b *mutantProvider) {
		full := 0
		b.send = func(c mutantConn, class fabric.Class, imm uint64, p []byte) bool {
			if c.memConn.TrySend(class, imm, p) {
				return true
			}
			full++
			return full%2 == 0
		}
	}},
	{name: "never has credit again", in: "pressure", fault: func(b *mutantProvider) {
		b.send = func(c mutantConn, class fabric.Class, imm uint64, p []byte) bool {
			if b.frames < 0 || !c.memConn.TrySend(class, imm, p) {
				b.frames = -1
				return false
			}
			return true
		}
	}},
	{name: "dropped frames keep their credit", in: "unhandled", fault: func(b *mutantProvider) {
		lost := 0
		b.send = func(c mutantConn, class fabric.Class, imm uint64, p []byte) bool {
			if class == unhandledClass {
				lost++
			}
			return lost < 10*memFrames && c.memConn.TrySend(class, imm, p)
		}
	}},
	{name: "a class without listener is fatal", in: "unhandled", fault: func(b *mutantProvider) {
		wrapSink(b, func(_, to *fabric.Sink) {
			to.Deliver[unhandledClass] = func(proc.ID, uint64, []byte) { panic("no listener") }
		})
	}},
	{name: "Ready sees nothing", in: "wakeups", fault: func(b *mutantProvider) { b.ready = func() bool { return false } }},
	{name: "Ready is always true", in: "idle", fault: func(b *mutantProvider) { b.ready = func() bool { return true } }},
	{name: "Ready forgets credit", in: "wakeups-credit", fault: func(b *mutantProvider) {
		b.ready = func() bool {
			b.net.mu.Lock()
			defer b.net.mu.Unlock()
			for _, c := range b.out {
				c.refused = false
			}
			return len(b.inbox) > 0
		}
	}},
	{name: "Poll counts nothing", in: "sizes", fault: func(b *mutantProvider) {
		b.poll = func(s *fabric.Sink) int { b.memProc.Poll(s); return 0 }
	}},
	{name: "delivers while sending", in: "sizes", fault: func(b *mutantProvider) {
		var sink *fabric.Sink
		b.poll = func(s *fabric.Sink) int { sink = s; return b.memProc.Poll(s) }
		b.send = func(c mutantConn, class fabric.Class, imm uint64, p []byte) bool {
			if sink != nil {
				b.memProc.Poll(sink)
			}
			return c.memConn.TrySend(class, imm, p)
		}
	}},
	{name: "garbage is an address", in: "connect-garbage", fault: func(b *mutantProvider) {
		b.connect = func(spec fabric.ConnectSpec) (fabric.Conn, error) {
			c, err := b.memProc.Connect(fabric.ConnectSpec{Peer: spec.Peer, Address: memAddress(spec.Peer)})
			return b.wrap(c), err
		}
	}},
	{name: "two connections to one peer", in: "connect", fault: func(b *mutantProvider) {
		b.connect = func(spec fabric.ConnectSpec) (fabric.Conn, error) {
			c, err := b.memProc.Connect(spec)
			if err != nil {
				return nil, err
			}
			twin := *b
			return twin.wrap(c), nil
		}
	}},
	{name: "Lookup gives a typed nil", in: "connect", fault: func(b *mutantProvider) {
		b.lookup = func(id proc.ID) fabric.Conn { return b.out[id] }
	}},
	{name: "Lookup knows only own connections", in: "connect-passive", fault: func(b *mutantProvider) {
		b.lookup = func(proc.ID) fabric.Conn { return nil }
	}},
	{name: "Get from the wrong place", in: "large-get", fault: func(b *mutantProvider) {
		b.get = func(c mutantConn, local []byte, r fabric.Region, offset uint64) error {
			return c.memConn.Get(local, r, offset&^1)
		}
	}},
	{name: "Get does not look at the end", in: "large-get", fault: func(b *mutantProvider) {
		b.get = func(c mutantConn, local []byte, r fabric.Region, offset uint64) error {
			if offset+uint64(len(local)) > r.Len {
				return nil
			}
			return c.memConn.Get(local, r, offset)
		}
	}},
	{name: "Get from the dead", in: "kill-get", fault: func(b *mutantProvider) {
		b.get = func(c mutantConn, local []byte, r fabric.Region, offset uint64) error {
			if err := c.memConn.Get(local, r, offset); !errors.Is(err, fabric.ErrPeerGone) {
				return err
			}
			return nil
		}
	}},
	{name: "Get says only that it failed", in: "kill-get", fault: func(b *mutantProvider) {
		b.get = func(c mutantConn, local []byte, r fabric.Region, offset uint64) error {
			if c.memConn.Get(local, r, offset) != nil {
				return errors.New("input/output error")
			}
			return nil
		}
	}},
	{name: "Close fails", in: "host-sleep", fault: func(b *mutantProvider) {
		b.shut = func() error { _ = b.memProc.Close(); return errors.New("busy") }
	}},
	{name: "takes frames after its departure", in: "depart", fault: func(b *mutantProvider) {
		b.send = func(c mutantConn, class fabric.Class, imm uint64, p []byte) bool {
			return c.memConn.TrySend(class, imm, p) || b.departed && !b.closed
		}
	}},
	{name: "takes frames after Close", in: "connect", fault: func(b *mutantProvider) {
		b.send = func(c mutantConn, class fabric.Class, imm uint64, p []byte) bool {
			return c.memConn.TrySend(class, imm, p) || b.closed
		}
	}},
	{name: "connects after its departure", in: "depart", fault: func(b *mutantProvider) {
		b.connect = func(spec fabric.ConnectSpec) (fabric.Conn, error) {
			if c, _ := b.memProc.Lookup(spec.Peer).(*memConn); c != nil && !b.closed {
				return b.wrap(c), nil
			}
			c, err := b.memProc.Connect(spec)
			if err != nil {
				return nil, err
			}
			return b.wrap(c), nil
		}
	}},
	{name: "Poll finds something after Close", in: "connect", fault: func(b *mutantProvider) {
		b.poll = func(s *fabric.Sink) int {
			if b.closed {
				return 1
			}
			return b.memProc.Poll(s)
		}
	}},
	{name: "lives on after Close", in: "close-in-flight", fault: func(b *mutantProvider) {
		b.shut = func() error { return nil }
	}},
}

// ringLossHost loses the rings after one Arm in so many.
type ringLossHost struct {
	fabric.Host
	every, arms int
}

func (h *ringLossHost) Arm() {
	h.Host.Arm()
	if h.arms++; h.arms%h.every == 0 {
		h.Host.Disarm()
	}
}

// lateSleepHost loses a ring before Sleep.
type lateSleepHost struct{ fabric.Host }

func (h lateSleepHost) Sleep(until fabric.Time) {
	h.Host.Arm()
	h.Host.Sleep(until)
}

// unparkLossHost has parkers that lose an Unpark.
type unparkLossHost struct{ fabric.Host }

type unparkLossParker struct{ fabric.Parker }

func (h unparkLossHost) NewParker() fabric.Parker { return unparkLossParker{h.Host.NewParker()} }

func (k unparkLossParker) Park() {
	k.Parker.(*memParker).token.Store(false)
	k.Parker.Park()
}

// shortPauseHost pauses for too short a time.
type shortPauseHost struct{ fabric.Host }

func (h shortPauseHost) Pause(d fabric.Time) { h.Host.Pause(d / 2) }

var hostMutants = []mutant{
	{name: "loses one ring in a hundred", in: "wakeups",
		host: func(h fabric.Host) fabric.Host { return &ringLossHost{Host: h, every: 100} }},
	{name: "hears no ring at all", in: "host-ring",
		host: func(h fabric.Host) fabric.Host { return &ringLossHost{Host: h, every: 1} }},
	{name: "forgets a ring before Sleep", in: "host-sleep",
		host: func(h fabric.Host) fabric.Host { return lateSleepHost{h} }},
	{name: "pauses for too short a time", in: "host-pause",
		host: func(h fabric.Host) fabric.Host { return shortPauseHost{h} }},
	{name: "forgets an Unpark", in: "host-parker", host: func(h fabric.Host) fabric.Host { return unparkLossHost{h} }},
}

// TestMutants: the case for a mutant's fault must fail on it, and passes on the correct provider
// (TestCorrectProvider).
func TestMutants(t *testing.T) {
	for _, group := range [][]mutant{frameMutants, endMutants, fetchMutants, informMutants, callMutants, hostMutants} {
		for _, m := range group {
			t.Run(m.name, func(t *testing.T) {
				c, err := findCase(m.in)
				require.NoError(t, err)
				d := memDriver{bend: func(p *memProc) (fabric.Provider, fabric.Host) {
					b := &mutantProvider{memProc: p}
					var h fabric.Host = memHost{p}
					if m.fault != nil {
						m.fault(b)
					}
					if m.host != nil {
						h = m.host(h)
					}
					return b, h
				}}
				const tries = 50 // for a fault that some orders of its goroutines do not show
				for seed := uint64(1); err == nil && seed <= tries; seed++ {
					err = Verify(d, c, Budget{Kills: 50, Wakeups: 1000, Rounds: 10}, seed)
				}
				require.Error(t, err)
				t.Log(err)
			})
		}
	}
}
