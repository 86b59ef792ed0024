package sim

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

var (
	departed  = proc.Cause{Kind: proc.Departed}
	exited    = proc.Cause{Kind: proc.Exited}
	cutOff    = proc.Cause{Kind: proc.Connection}
	quietTime = fabric.Time(50_000) // by when everything in these scenarios is over
)

// stream is the victim's part in the scenarios of this file: it sends numbered frames of different
// sizes and departs.
func stream(n *node, to proc.ID, frames int) {
	conn := n.connect(to)
	for i := range frames {
		n.send(conn, uint64(i), make([]byte, 7*i))
	}
	n.prov.Depart()
}

// requireWholePrefix checks that the log holds the first frames of stream, whole
// and in order, and gives their number.
func requireWholePrefix(t *testing.T, n *node) int {
	t.Helper()
	for i, m := range n.log {
		require.Equal(t, uint64(i), m.imm)
		require.Len(t, m.data, 7*i)
	}
	return len(n.log)
}

// TestKillAtEveryStep kills the sender of a stream in place of each of its
// steps: a prefix of whole frames arrives, then exactly one report, then
// nothing.
func TestKillAtEveryStep(t *testing.T) {
	const frames = 12
	cfg := plain(2)
	cfg.Credits = 3 // so that it is also killed while it waits for credit
	run := func(seed, step uint64) (delivered int, ends []end, steps uint64) {
		cfg.Seed = seed
		cfg.LossAtDeath = float64(seed%2) * 0.7
		s := newSim(t, cfg)
		var victim *Proc
		spawn(t, s, 0, func(p *Proc) {
			victim = p
			stream(newNode(p), 1, frames)
		})
		if step > 0 {
			require.NoError(t, s.KillAtStep(0, step))
		}
		got := receive(t, s, 1, quietTime)
		got.orderly(t)
		require.NoError(t, s.Run())
		return requireWholePrefix(t, got), got.ends, victim.Counters().Steps
	}

	delivered, ends, steps := run(0, 0)
	require.Equal(t, frames, delivered)
	require.Equal(t, []end{{0, departed}}, ends)
	counts := make(map[int]int)
	for seed := range uint64(4) {
		for k := uint64(1); k <= steps; k++ {
			delivered, ends, reached := run(seed, k)
			counts[delivered]++
			require.Equal(t, k, reached)
			switch {
			case len(ends) == 1 && ends[0] == end{0, departed}:
				require.Equal(t, frames, delivered, "a departure comes after every frame")
			case len(ends) == 0:
				require.Equal(t, uint64(1), k, "only a victim that never connected goes unnoticed")
			default:
				require.Equal(t, []end{{0, killed}}, ends)
			}
		}
	}
	require.Len(t, counts, frames+1, "every prefix occurs: %v", counts)
}

// orderly makes the node fail the test when anything arrives from a peer whose end it has seen.
func (n *node) orderly(t *testing.T) {
	n.onFrame = func(m message) {
		for _, e := range n.ends {
			require.NotEqual(t, e.peer, m.from, "a frame after %v", e)
		}
	}
}

// TestKillAtEveryTime kills the sender at each of many instants instead: frames on the wire arrive,
// if no loss is configured.
func TestKillAtEveryTime(t *testing.T) {
	for at := fabric.Time(1); at < 1500; at += 7 {
		cfg := plain(2)
		cfg.Detection = Detection{Min: 100 * Microsecond, Max: 100 * Microsecond} // longer than anything travels
		s := newSim(t, cfg)
		sent := 0
		spawn(t, s, 0, func(p *Proc) {
			conn := newNode(p).connect(1)
			for i := range 100 {
				conn.TrySend(fabric.ClassTest, uint64(i), make([]byte, 7*i))
				sent++
			}
		})
		require.NoError(t, s.Kill(0, at))
		got := receive(t, s, 1, 200_000)
		require.NoError(t, s.Run())
		require.Equal(t, sent, requireWholePrefix(t, got), "killed at %d ns", at)
		cause, ended := s.Ended(0)
		require.True(t, ended)
		require.Equal(t, killed, cause)
		_, ended = s.Ended(7)
		require.False(t, ended)
		require.Equal(t, []end{{0, killed}}, got.ends)
	}
}

// TestDetectionDelay: evidence comes after the configured delay, and frames that are still in
// flight then never arrive.
func TestDetectionDelay(t *testing.T) {
	cfg := plain(3)
	cfg.Detection = Detection{Min: 200 * Nanosecond, Max: 200 * Nanosecond}
	s := newSim(t, cfg)
	spawn(t, s, 0, func(p *Proc) {
		conn := newNode(p).connect(1)
		conn.TrySend(fabric.ClassTest, 0, nil) // arrives at 1010
		p.Compute(900 * Nanosecond)
		conn.TrySend(fabric.ClassTest, 1, nil) // would arrive at 1920
		p.Compute(100 * Nanosecond)
		p.Die(killed) // at 1020
	})
	got := receive(t, s, 1, quietTime)
	var at fabric.Time
	got.onEnd = func() { at = got.host.Now() }
	bystander := receive(t, s, 2, quietTime)
	require.NoError(t, s.Run())
	require.Equal(t, 1, requireWholePrefix(t, got))
	require.Equal(t, []end{{0, killed}}, got.ends)
	require.Equal(t, fabric.Time(1220), at)
	require.Empty(t, bystander.ends, "no connection, no evidence")
}

// TestObserversHaveDifferentDelays: each within the bounds.
func TestObserversHaveDifferentDelays(t *testing.T) {
	cfg := plain(9)
	cfg.Detection = Detection{Min: 1000 * Nanosecond, Max: 9000 * Nanosecond}
	s := newSim(t, cfg)
	seen := make(map[fabric.Time]bool)
	for id := proc.ID(1); id < 9; id++ {
		n := receive(t, s, id, quietTime)
		n.onEnd = func() {
			seen[n.host.Now()] = true
			require.GreaterOrEqual(t, n.host.Now(), fabric.Time(1000))
			require.LessOrEqual(t, n.host.Now(), fabric.Time(9100))
		}
	}
	spawn(t, s, 0, func(p *Proc) {
		for id := proc.ID(1); id < 9; id++ {
			newNode(p).connect(id)
		}
		p.Die(proc.Cause{Kind: proc.Exited, Code: 3})
	})
	require.NoError(t, s.Run())
	require.Greater(t, len(seen), 4)
}

// TestWaysToEnd: the report of each to a connected peer.
func TestWaysToEnd(t *testing.T) {
	for name, c := range map[string]struct {
		body  func(*Proc)
		ends  []end
		cause proc.Cause
	}{
		"depart and close": {func(p *Proc) { p.Provider().Depart(); _ = p.Provider().Close() }, []end{{0, departed}},
			departed},
		"depart":       {func(p *Proc) { p.Provider().Depart() }, []end{{0, departed}}, departed},
		"depart twice": {func(p *Proc) { p.Provider().Depart(); p.Provider().Depart() }, []end{{0, departed}}, departed},
		"depart and die": {func(p *Proc) { p.Provider().Depart(); p.Compute(5 * Microsecond); p.Die(killed) },
			[]end{{0, departed}}, killed},
		"return": {func(*Proc) {}, []end{{0, exited}}, exited},
		"close":  {func(p *Proc) { _ = p.Provider().Close() }, []end{{0, cutOff}}, exited},
		"exit code": {func(p *Proc) { p.Die(proc.Cause{Kind: proc.Exited, Code: 3}) }, []end{{0,
			proc.Cause{Kind: proc.Exited, Code: 3}}}, proc.Cause{Kind: proc.Exited, Code: 3}},
		"kill oneself": {func(p *Proc) { _ = p.Sim().Kill(p.ID(), 0); p.Compute(1) }, []end{{0, killed}}, killed},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSim(t, plain(3))
			spawn(t, s, 0, func(p *Proc) {
				conn := newNode(p).connect(1)
				require.True(t, conn.TrySend(fabric.ClassTest, 0, nil))
				c.body(p)
				if p.end.departed {
					require.False(t, conn.TrySend(fabric.ClassTest, 1, nil))
				}
			})
			got := receive(t, s, 1, quietTime)
			late := &node{}
			spawn(t, s, 2, func(p *Proc) {
				p.Compute(20 * Microsecond)
				late.init(p)
				late.connect(0) // to one that has ended
				late.pumpFor(quietTime)
			})
			require.NoError(t, s.Run())
			require.Equal(t, 1, requireWholePrefix(t, got), "what was sent before arrives")
			require.Equal(t, c.ends, got.ends)
			cause, ended := s.Ended(0)
			require.True(t, ended)
			require.Equal(t, c.cause, cause)
			require.Len(t, late.ends, 1)
		})
	}
}

// TestInvalidate: nothing from the peer is delivered, not even arrived frames, and frames to it are
// accepted and dropped.
func TestInvalidate(t *testing.T) {
	s := newSim(t, plain(2))
	spawn(t, s, 0, func(p *Proc) {
		n := newNode(p)
		conn := n.connect(1)
		for range 5 {
			n.send(conn, 0, nil)
			p.Compute(Microsecond)
		}
		n.pumpFor(20_000)
		require.Zero(t, n.got)
	})
	spawn(t, s, 1, func(p *Proc) {
		n := newNode(p)
		p.Compute(2500 * Nanosecond)
		conn := n.connect(0)
		conn.Invalidate()
		require.True(t, conn.TrySend(fabric.ClassTest, 0, nil))
		n.pumpFor(quietTime)
		require.Zero(t, n.got)
		require.Empty(t, n.ends)
	})
	require.NoError(t, s.Run())
}

// TestDeathUnwindsEverything: deferred functions run, once, and every call that
// could wait ends the function that makes it.
func TestDeathUnwindsEverything(t *testing.T) {
	s := newSim(t, plain(2))
	var unwound []string
	spawn(t, s, 0, func(p *Proc) {
		h := p.Host()
		defer func() { unwound = append(unwound, "body") }()
		for name, wait := range map[string]func(){
			"park":  func() { h.NewParker().Park() },
			"sleep": func() { h.Sleep(fabric.Forever) },
		} {
			h.Go(func() {
				defer func() { unwound = append(unwound, name) }()
				defer func() {
					_ = p.Provider().Close() // harmless
					h.Ring()
					h.Disarm()
					h.NewParker().Unpark()
					p.Provider().Poll(&fabric.Sink{})
					unwound = append(unwound, "unreachable")
				}()
				wait()
			})
		}
		h.Yield()
		h.Go(func() { unwound = append(unwound, "never started") })
		_ = s.Kill(0, 100)
		for {
			p.Compute(Nanosecond)
			if h.Now() > 90 {
				h.Go(func() { p.Compute(Second) })
			}
		}
	})
	require.NoError(t, s.Run())
	require.Contains(t, unwound, "body")
	require.Contains(t, unwound, "park")
	require.Contains(t, unwound, "sleep")
	require.NotContains(t, unwound, "unreachable")
}
