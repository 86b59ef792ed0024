package agree

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/internal/proc"
)

// Without failures an agreement takes 2(n-1) messages, a uniform one twice as many, for any order
// of events.
func TestMessages(t *testing.T) {
	for n := 1; n <= 40; n++ {
		for _, uniform := range []bool{false, true} {
			w := newWorld(job{n: n, rounds: 2, uniform: uniform})
			rng := rand.New(rand.NewPCG(uint64(n), 1))
			for steps := w.steps(nil); len(steps) > 0; steps = w.steps(steps) {
				w.do(steps[rng.IntN(len(steps))])
			}
			require.NoError(t, w.wrong(true))
			want := 2 * 2 * (n - 1)
			if uniform {
				want *= 2
			}
			require.Equal(t, want, w.sends, "%d members, uniform %v", n, uniform)
		}
	}
}

// pump delivers messages between machines until there are none.
func pump(t *testing.T, ms ...*Machine) (decided []*Decision) {
	t.Helper()
	at := make(map[proc.ID]*Machine)
	for _, m := range ms {
		at[m.self] = m
	}
	for again := true; again; {
		again = false
		for _, m := range ms {
			for a, ok := m.Next(); ok; a, ok = m.Next() {
				switch a.Kind {
				case Send:
					again = true
					require.NoError(t, at[a.To].Receive(m.self, a.Payload))
				case Decide:
					decided = append(decided, a.Decision)
				}
			}
		}
	}
	return decided
}

func machines(t *testing.T, n int, lines ...GroupKey) []*Machine {
	var ms []*Machine
	for r := range n {
		m := New(members(n).Proc(r), Binomial)
		for _, l := range lines {
			require.NoError(t, m.Open(l, members(n)))
		}
		ms = append(ms, m)
	}
	return ms
}

// If members propose different operations all of them get a mismatch, even if some wanted a second
// round, and the next agreement is not affected.
func TestMismatch(t *testing.T) {
	and := func(acc, in []byte) { acc[0] &= in[0] }
	for name, odd := range map[string]Proposal{
		"what":    {What: 9, Value: []byte{1}, Op: and},
		"length":  {What: 1, Value: []byte{1, 2}, Op: and},
		"uniform": {What: 1, Value: []byte{1}, Op: and, Uniform: true},
	} {
		t.Run(name, func(t *testing.T) {
			for at := range 4 {
				ms := machines(t, 4, theGroup)
				for r, m := range ms {
					p := Proposal{What: 1, Value: []byte{3}, Op: and}
					if r == at {
						p = odd
					}
					_, err := m.Propose(theGroup, p)
					require.NoError(t, err)
				}
				decided := pump(t, ms...)
				require.Len(t, decided, 4)
				for _, d := range decided {
					require.True(t, d.Mismatch)
				}
				for r, m := range ms {
					_, err := m.Propose(theGroup, Proposal{What: 1, Value: []byte{byte(r) | 4}, Op: and})
					require.NoError(t, err)
				}
				decided = pump(t, ms...)
				require.Len(t, decided, 4)
				for _, d := range decided {
					require.False(t, d.Mismatch)
					require.Equal(t, []byte{4}, d.Value)
					require.EqualValues(t, 2, d.Seq)
				}
			}
		})
	}
}

// Groups do not wait for each other, a group may be opened late, and proposals made at once are
// decided one after the other.
func TestGroups(t *testing.T) {
	a, b := GroupKey{1, 1}, GroupKey{1, 2}
	ms := machines(t, 3, a)
	for _, m := range ms[:2] {
		require.NoError(t, m.Open(b, members(3)))
		for range 3 {
			_, err := m.Propose(b, Proposal{})
			require.NoError(t, err)
		}
		_, err := m.Propose(a, Proposal{})
		require.NoError(t, err)
	}
	require.Empty(t, pump(t, ms...))
	_, err := ms[2].Propose(b, Proposal{})
	require.ErrorIs(t, err, ErrNotOpen)
	_, err = ms[2].Propose(a, Proposal{})
	require.NoError(t, err)
	require.Len(t, pump(t, ms...), 3, "those of line a")
	require.NoError(t, ms[2].Open(b, members(3)))
	require.Error(t, ms[2].Open(b, members(3)))
	for range 3 {
		_, err := ms[2].Propose(b, Proposal{})
		require.NoError(t, err)
	}
	decided := pump(t, ms...)
	require.Len(t, decided, 9)
	last := make(map[uint32]int)
	for _, d := range decided {
		last[d.Seq]++
	}
	require.Equal(t, map[uint32]int{1: 3, 2: 3, 3: 3}, last)
}

// A decoded frame is one that encode writes, and no input breaks a machine.
func FuzzReceive(f *testing.F) {
	up := frame{kind: kindUp, what: 3, key: theGroup, seq: 1, value: []byte{1, 2},
		ended: []entry{{1, false, true}, {2, true, false}}, unacked: ranks{1}}
	down := up
	down.kind = kindDown
	f.Add(up.encode(nil), down.encode(nil))
	f.Add([]byte{}, []byte{1, 0, 0})
	wake := frame{kind: kindWake, key: theGroup, seq: 1}
	down.flags, down.ballot = flagBallot|flagBinds, 1<<40
	f.Add(wake.encode(nil), down.encode(nil))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		m := New(members(4).Proc(0), Binomial)
		require.NoError(t, m.Open(theGroup, members(4)))
		_, err := m.Propose(theGroup, Proposal{What: 3, Value: []byte{1, 1},
			Op: func(acc, in []byte) { acc[0] &= in[0] }})
		require.NoError(t, err)
		for i, x := range [][]byte{a, b, a} {
			_ = m.Receive(members(4).Proc(1+i), x)
			for act, ok := m.Next(); ok; act, ok = m.Next() {
				if act.Kind == Report {
					m.Died(act.Peer)
				}
			}
			var d, again frame
			if d.decode(x, 4) == nil {
				require.NoError(t, again.decode(d.encode(nil), 4))
				require.Equal(t, d, again)
				require.LessOrEqual(t, len(d.encode(nil)), len(x), "numbers may come longer than needed")
			}
		}
	})
}

// BenchmarkAgree is the work of all machines of a group for one agreement.
func BenchmarkAgree(b *testing.B) {
	const n = 16
	var ms []*Machine
	for r := range n {
		m := New(members(n).Proc(r), Binomial)
		if err := m.Open(theGroup, members(n)); err != nil {
			b.Fatal(err)
		}
		ms = append(ms, m)
	}
	and := func(acc, in []byte) { acc[0] &= in[0] }
	value := []byte{1}
	b.ReportAllocs()
	for b.Loop() {
		for r := n - 1; r >= 0; r-- {
			if _, err := ms[r].Propose(theGroup, Proposal{Value: value, Op: and}); err != nil {
				b.Fatal(err)
			}
			for a, ok := ms[r].Next(); ok; a, ok = ms[r].Next() {
				if a.Kind == Send {
					_ = ms[members(n).Rank(a.To)].Receive(ms[r].self, a.Payload)
				}
			}
		}
		for again := true; again; {
			again = false
			for _, m := range ms {
				for a, ok := m.Next(); ok; a, ok = m.Next() {
					if a.Kind == Send {
						again = true
						_ = ms[members(n).Rank(a.To)].Receive(m.self, a.Payload)
					}
				}
			}
		}
	}
}
