package sim

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// plain is a configuration with numbers that are easy to add up: in
// nanoseconds, L 1000, o_send 10, o_recv 20, g 100, G 2 per byte, 1 per byte
// of copying, 5 for an empty poll. Every process is a node of its own.
func plain(procs int) Config {
	cfg := DefaultConfig(procs)
	cfg.Topology = Topology{ProcsPerNode: 1, NodesPerSwitch: procs}
	cfg.Links[fabric.LinkSwitch] = Link{Latency: 1000 * Nanosecond, SendOverhead: 10 * Nanosecond,
		RecvOverhead: 20 * Nanosecond, Gap: 100 * Nanosecond, GapPerByte: 2 * Nanosecond}
	cfg.CPU = CPU{PerByte: Nanosecond, EmptyPoll: 5 * Nanosecond, Yield: 7 * Nanosecond}
	cfg.Detection = Detection{Min: 3000 * Nanosecond, Max: 3000 * Nanosecond}
	cfg.LossAtDeath = 0
	return cfg
}

// receive runs a process that logs every message until the given time.
func receive(tb testing.TB, s *Sim, id proc.ID, until fabric.Time) *node {
	n := &node{}
	spawn(tb, s, id, func(p *Proc) {
		n.init(p)
		n.keep = true
		n.pumpFor(until)
	})
	return n
}

func (n *node) times() []fabric.Time {
	var at []fabric.Time
	for _, m := range n.log {
		at = append(at, m.at)
	}
	return at
}

// TestLogGP compares delivery times with the sums of the model in doc.go.
func TestLogGP(t *testing.T) {
	type send struct {
		at   fabric.Time
		size int
	}
	for _, c := range []struct {
		name  string
		sends []send
		want  []fabric.Time // of the receiver's clock in its function
	}{
		// 0: o 10, L 1000, o_recv 20.
		{"empty frame", []send{{0, 0}}, []fabric.Time{1030}},
		// o 10 + 100 copied, L 1000 + 200 transfer, o_recv 20 + 100 copied.
		{"hundred bytes", []send{{0, 100}}, []fabric.Time{1430}},
		// Enter the port at 10, then at 10+100 and 10+200: g limits, not o.
		{"gap", []send{{0, 0}, {0, 0}, {0, 0}}, []fabric.Time{1030, 1130, 1230}},
		// The first keeps the port from 110 until 110+100+200 = 410. The second
		// is ready at 120, arrives at 410+1000, is received at 1430, while the
		// first is received until 110+1200+120 = 1430: then o_recv again.
		{"gap per byte", []send{{0, 100}, {0, 0}}, []fabric.Time{1430, 1450}},
		{"later", []send{{5000, 0}}, []fabric.Time{6030}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSim(t, plain(2))
			spawn(t, s, 0, func(p *Proc) {
				n := newNode(p)
				conn := n.connect(1)
				for _, m := range c.sends {
					p.Compute(Picos(m.at-n.host.Now()) * Nanosecond) // nothing if that is past
					require.True(t, conn.TrySend(fabric.ClassTest, 0, make([]byte, m.size)))
				}
			})
			got := receive(t, s, 1, 9000)
			require.NoError(t, s.Run())
			require.Equal(t, c.want, got.times())
		})
	}
}

// TestFractionsOfNanoseconds: 3 frames of 1 byte at 400 ps/byte and 0 ns gap
// arrive 400 ps apart; truncation to whole nanoseconds happens only in Now.
func TestFractionsOfNanoseconds(t *testing.T) {
	cfg := plain(2)
	cfg.Links[fabric.LinkSwitch] = Link{Latency: 1000, GapPerByte: 400}
	cfg.CPU.PerByte, cfg.CPU.EmptyPoll = 0, 1
	s := newSim(t, cfg)
	spawn(t, s, 0, func(p *Proc) {
		conn := newNode(p).connect(1)
		for range 3 {
			conn.TrySend(fabric.ClassTest, 0, []byte{1})
		}
	})
	got := receive(t, s, 1, 100)
	require.NoError(t, s.Run())
	require.Equal(t, []fabric.Time{1, 1, 2}, got.times()) // 1.4, 1.8, 2.2
}

// TestBusyReceiver: a frame that arrives while the core computes is received
// when the core is free, and one that arrives during an earlier one's
// reception is not missed by the same Poll.
func TestBusyReceiver(t *testing.T) {
	s := newSim(t, plain(2))
	spawn(t, s, 0, func(p *Proc) {
		conn := newNode(p).connect(1)
		conn.TrySend(fabric.ClassTest, 1, nil) // arrives at 1010
		conn.TrySend(fabric.ClassTest, 2, nil) // arrives at 1110
	})
	var at []fabric.Time
	spawn(t, s, 1, func(p *Proc) {
		n := newNode(p)
		n.sink.Deliver[fabric.ClassTest] = func(_ proc.ID, imm uint64, _ []byte) {
			at = append(at, n.host.Now())
			p.Compute(500 * Nanosecond)
		}
		p.Compute(1050 * Nanosecond)
		require.Equal(t, 2, n.prov.Poll(&n.sink))
	})
	require.NoError(t, s.Run())
	require.Equal(t, []fabric.Time{1070, 1590}, at) // 1050+20, +500+20
}

// TestCausality: a process that ran ahead by computing sees all earlier events, in the order of
// time, when it polls.
func TestCausality(t *testing.T) {
	s := newSim(t, plain(3))
	got := receive(t, s, 0, 9000)
	for id := range proc.ID(2) {
		spawn(t, s, 1+id, func(p *Proc) {
			conn := newNode(p).connect(0)
			p.Compute(Picos(2-id) * 300 * Nanosecond) // the later id sends first
			conn.TrySend(fabric.ClassTest, 0, nil)
		})
	}
	require.NoError(t, s.Run())
	require.Equal(t, []fabric.Time{1330, 1630}, got.times())
	require.Equal(t, proc.ID(2), got.log[0].from)
}

// TestCredits: two credits; the third frame waits until the receiver's function
// has returned for the first, plus L.
func TestCredits(t *testing.T) {
	cfg := plain(2)
	cfg.Credits = 2
	s := newSim(t, cfg)
	var sent []fabric.Time
	spawn(t, s, 0, func(p *Proc) {
		n := newNode(p)
		conn := n.connect(1)
		for i := range uint64(4) {
			n.send(conn, i, nil)
			sent = append(sent, n.host.Now())
		}
		require.Equal(t, uint64(2), p.Counters().Refused, "one refusal per wait: woken by the credit")
		require.Equal(t, uint64(4), p.Counters().Sent)
	})
	got := receive(t, s, 1, 9000)
	require.NoError(t, s.Run())
	// Received at 1030 and 1130, so credit is back at 2030 and 2130.
	require.Equal(t, []fabric.Time{10, 20, 2040, 2140}, sent)
	require.Equal(t, []fabric.Time{1030, 1130, 3060, 3160}, got.times())
}

// TestBackPressure: without polls, no more frames than the credits are accepted.
func TestBackPressure(t *testing.T) {
	cfg := plain(2)
	s := newSim(t, cfg)
	spawn(t, s, 0, func(p *Proc) {
		conn := newNode(p).connect(1)
		taken := 0
		for range 10 * cfg.Credits {
			if conn.TrySend(fabric.ClassTest, 0, nil) {
				taken++
			}
			p.Compute(Microsecond)
		}
		require.Equal(t, cfg.Credits, taken)
	})
	spawn(t, s, 1, func(p *Proc) { p.Compute(Second) })
	require.NoError(t, s.Run())
}

// TestReadyReportsCreditOnce: a refused send that its owner has given up must
// not keep the process awake.
func TestReadyReportsCreditOnce(t *testing.T) {
	cfg := plain(2)
	cfg.Credits = 1
	s := newSim(t, cfg)
	spawn(t, s, 0, func(p *Proc) {
		conn, prov := newNode(p).connect(1), p.Provider()
		require.True(t, conn.TrySend(fabric.ClassTest, 0, nil))
		require.False(t, conn.TrySend(fabric.ClassTest, 0, nil))
		require.False(t, prov.Ready())
		p.Compute(10 * Microsecond)
		require.True(t, prov.Ready())
		require.False(t, prov.Ready())
		require.True(t, conn.TrySend(fabric.ClassTest, 0, nil))
		require.False(t, conn.TrySend(fabric.ClassTest, 0, nil))
		p.Compute(10 * Microsecond)
		require.True(t, prov.Ready())
	})
	receive(t, s, 1, 30_000)
	require.NoError(t, s.Run())
}

// TestClassWithoutListener: frames of a class without a function are dropped, counted,
// and give their credit back.
func TestClassWithoutListener(t *testing.T) {
	cfg := plain(2)
	cfg.Credits = 1
	s := newSim(t, cfg)
	spawn(t, s, 0, func(p *Proc) {
		n := newNode(p)
		conn := n.connect(1)
		for range 5 {
			n.send(conn, 0, nil)
		}
	})
	spawn(t, s, 1, func(p *Proc) {
		n := newNode(p)
		n.sink.Deliver[fabric.ClassTest] = nil
		n.pumpFor(30_000)
		require.Equal(t, Counters{Steps: p.Counters().Steps, Dropped: 5}, p.Counters())
	})
	require.NoError(t, s.Run())
}

// TestSelf: a process may talk to itself.
func TestSelf(t *testing.T) {
	s := newSim(t, plain(1))
	spawn(t, s, 0, func(p *Proc) {
		n := newNode(p)
		n.keep = true
		n.send(n.connect(0), 3, []byte("me"))
		n.pumpUntil(func() bool { return n.got == 1 })
		require.Equal(t, "me", n.log[0].data)
		n.prov.Depart()
		require.NoError(t, n.prov.Close())
	})
	require.NoError(t, s.Run())
}
