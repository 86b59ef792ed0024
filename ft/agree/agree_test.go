package agree

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/proc"
)

// Without failures an agreement takes 2(n-1) messages, a uniform one twice as many,
// whatever the order of events.
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

// naive is the tree by its definition.
func naive(digit uint, size int, base, gone ranks, rank int) (parent int, alive bool) {
	var dense []int
	for r := range size {
		if !base.has(r) {
			dense = append(dense, r)
		}
	}
	p := slices.Index(dense, rank)
	if p < 0 || gone.has(rank) {
		return 0, false
	}
	for up := p; up > 0; {
		power := 1
		for power<<digit <= up {
			power <<= digit
		}
		up %= power
		if !gone.has(dense[up]) {
			return dense[up], true
		}
	}
	for _, r := range dense {
		if !gone.has(r) {
			if r == rank {
				return -1, true
			}
			return r, true
		}
	}
	panic("nobody lives")
}

// The tree is the naive one, and the children of a member are those whose parent it is.
func TestTree(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		size := 1 + rng.IntN(70)
		var base, gone ranks
		for r := range size {
			switch k := rng.IntN(6); {
			case k == 0:
				base.add(r)
				gone.add(r)
			case k == 1:
				gone.add(r)
			}
		}
		if len(gone) == size {
			continue
		}
		digit := uint(1 + rng.IntN(6))
		tr := tree{digit, size, base, gone}
		children := make(map[int][]int)
		for r := range size {
			parent, alive := naive(digit, size, base, gone, r)
			if !alive {
				continue
			}
			require.Equal(t, r, tr.rank(tr.position(r)))
			require.Equal(t, parent, tr.parent(r), "rank %d of %d, base %v, gone %v", r, size, base, gone)
			children[parent] = append(children[parent], r)
		}
		for r := range size {
			if _, alive := naive(digit, size, base, gone, r); alive {
				got := tr.children(nil, r)
				slices.Sort(got)
				require.Equal(t, children[r], slices.Clip(got), "rank %d of %d, base %v, gone %v", r, size, base, gone)
			}
		}
	}
}

// pump carries messages between machines until there are none.
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
					require.NoError(t, at[a.To].Heard(m.self, a.Payload))
				case Decide:
					decided = append(decided, a.Decision)
				}
			}
		}
	}
	return decided
}

func machines(t *testing.T, n int, lines ...Line) []*Machine {
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

// Members that propose different things learn it, all of them, and the next agreement is as if
// nothing had been; also where some of them wanted a second round.
func TestUnlike(t *testing.T) {
	and := func(acc, in []byte) { acc[0] &= in[0] }
	for name, odd := range map[string]Proposal{
		"what":    {What: 9, Value: []byte{1}, Op: and},
		"length":  {What: 1, Value: []byte{1, 2}, Op: and},
		"uniform": {What: 1, Value: []byte{1}, Op: and, Uniform: true},
	} {
		t.Run(name, func(t *testing.T) {
			for at := range 4 {
				ms := machines(t, 4, theLine)
				for r, m := range ms {
					p := Proposal{What: 1, Value: []byte{3}, Op: and}
					if r == at {
						p = odd
					}
					_, err := m.Propose(theLine, p)
					require.NoError(t, err)
				}
				decided := pump(t, ms...)
				require.Len(t, decided, 4)
				for _, d := range decided {
					require.True(t, d.Unlike)
				}
				for r, m := range ms {
					_, err := m.Propose(theLine, Proposal{What: 1, Value: []byte{byte(r) | 4}, Op: and})
					require.NoError(t, err)
				}
				decided = pump(t, ms...)
				require.Len(t, decided, 4)
				for _, d := range decided {
					require.False(t, d.Unlike)
					require.Equal(t, []byte{4}, d.Value)
					require.EqualValues(t, 2, d.Seq)
				}
			}
		})
	}
}

// Lines do not wait for each other, a line may be opened late, and proposals that are
// made at once are decided one after the other.
func TestLines(t *testing.T) {
	a, b := Line{1, 1}, Line{1, 2}
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
	require.ErrorIs(t, err, ErrNoLine)
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

// sends gives what a machine wants sent to a process now.
func sends(m *Machine, to proc.ID) (out [][]byte) {
	for a, ok := m.Next(); ok; a, ok = m.Next() {
		if a.Kind == Send && a.To == to {
			out = append(out, a.Payload)
		}
	}
	return out
}

// What a member sent before it departed counts, though others speak of its departure first.
func TestDepartureIsTheLastWord(t *testing.T) {
	ms := machines(t, 3, theLine)
	id := func(r int) proc.ID { return members(3).Proc(r) }
	for _, m := range ms {
		_, err := m.Propose(theLine, Proposal{})
		require.NoError(t, err)
	}
	var up [3][]byte
	for r := 1; r < 3; r++ {
		up[r] = sends(ms[r], id(0))[0]
		require.NoError(t, ms[0].Heard(id(r), up[r]))
	}
	down := sends(ms[0], id(2))[0] // 0 departs; to 2 this is under way
	f := frame{kind: kindUp, line: theLine, seq: 2, gone: []entry{{0, true, true}}}
	require.NoError(t, ms[2].Heard(id(1), f.encode(nil)))
	a, ok := ms[2].Next()
	require.True(t, ok)
	require.Equal(t, Action{Kind: Report, Peer: id(0), Departed: true}, a)
	ms[2].Died(id(1)) // nobody else can tell what 0 has decided
	require.NoError(t, ms[2].Heard(id(0), down))
	ms[2].Departed(id(0))
	decided := pump(t, ms[2])
	require.Len(t, decided, 1)
	require.Empty(t, decided[0].Gone)
}

// All members learn the same about who has departed, also those to whom it looked like a failure; and
// a departure is nothing to acknowledge.
func TestGoneIsAgreed(t *testing.T) {
	ms := machines(t, 4, theLine)
	departed := members(4).Proc(3)
	for r, m := range ms[:3] {
		if r == 1 {
			m.Died(departed)
		} else {
			m.Departed(departed)
		}
		_, err := m.Propose(theLine, Proposal{})
		require.NoError(t, err)
	}
	for _, d := range pump(t, ms[:3]...) {
		require.Equal(t, []Gone{{departed, true}}, d.Gone)
		require.Empty(t, d.Unacked)
	}
	leaves := members(4).Proc(2) // of which 1 has not heard when it proposes
	ms[0].Departed(leaves)
	for _, m := range ms[:2] {
		_, err := m.Propose(theLine, Proposal{})
		require.NoError(t, err)
	}
	ms[1].Departed(leaves)
	decided := pump(t, ms[:2]...)
	require.Len(t, decided, 2)
	for _, d := range decided {
		require.Equal(t, []Gone{{leaves, true}, {departed, true}}, d.Gone)
		require.Equal(t, []Gone{{leaves, true}}, d.New)
		require.Empty(t, d.Unacked)
	}
}

// Numbers wrap around: the first after the last is a later one.
func TestNumbersWrapAround(t *testing.T) {
	ms := machines(t, 2, theLine)
	ms[0].lines[theLine].cur.seq = 1<<32 - 1
	f := frame{kind: kindUp, line: theLine}
	require.NoError(t, ms[0].Heard(ms[1].self, f.encode(nil)))
	f.seq--
	require.NoError(t, ms[0].Heard(ms[1].self, f.encode(nil)))
	for range 2 {
		_, err := ms[0].Propose(theLine, Proposal{})
		require.NoError(t, err)
		a, ok := ms[0].Next()
		require.True(t, ok)
		require.Equal(t, Send, a.Kind)
		a, ok = ms[0].Next()
		require.True(t, ok)
		require.Equal(t, Decide, a.Kind)
	}
}

// Decisions for a line that is closed are not kept.
func TestLateDecisionsAreDropped(t *testing.T) {
	ms := machines(t, 2, theLine)
	ms[0].Close(theLine)
	f := frame{kind: kindDown, line: theLine, seq: 1}
	for range maxEarly + 1 {
		require.NoError(t, ms[0].Heard(ms[1].self, f.encode(nil)))
	}
	require.Empty(t, ms[0].early)
}

// A decision on something else than what was proposed does not reach the caller.
func TestDecisionOnSomethingElse(t *testing.T) {
	for name, f := range map[string]frame{
		"length":  {what: 3, value: []byte{1}},
		"what":    {what: 4, value: []byte{1, 2}},
		"uniform": {what: 3, value: []byte{1, 2}, flags: flagUniform},
		"confirm": {what: 3, value: []byte{1, 2}, flags: flagConfirm},
	} {
		t.Run(name, func(t *testing.T) {
			ms := machines(t, 2, theLine)
			_, err := ms[1].Propose(theLine, Proposal{What: 3, Value: []byte{1, 2}, Op: func(_, _ []byte) {}})
			require.NoError(t, err)
			f.kind, f.line, f.seq = kindDown, theLine, 1
			require.ErrorIs(t, ms[1].Heard(ms[0].self, f.encode(nil)), ErrFrame)
			f.flags |= flagUnlike
			require.NoError(t, ms[1].Heard(ms[0].self, f.encode(nil)), "that tells that they are unlike")
		})
	}
}

// What came for a line before it was open and is no frame of its group costs its sender the connection, and the line
// is open.
func TestOpenWithGarbage(t *testing.T) {
	ms := machines(t, 2)
	f := frame{kind: kindUp, line: theLine, seq: 1, gone: []entry{{77, false, false}}}
	require.NoError(t, ms[0].Heard(ms[1].self, f.encode(nil)))
	require.NoError(t, ms[0].Open(theLine, members(2)))
	a, ok := ms[0].Next()
	require.True(t, ok)
	require.Equal(t, Report, a.Kind)
	require.ErrorIs(t, a.Why, ErrFrame)
	require.Equal(t, ms[1].self, a.Peer)
	require.Zero(t, ms[0].owed[ms[1].self])
}

// A frame that names many deaths is taken apart again when the last of them is known, not at each.
func TestManyDeathsAtOnce(t *testing.T) {
	const n = 20_000
	m := New(members(n).Proc(0), Shape{})
	require.NoError(t, m.Open(theLine, members(n)))
	f := frame{kind: kindUp, line: theLine, seq: 1}
	for r := int32(2); r < n; r++ {
		f.gone = append(f.gone, entry{r, false, true})
	}
	require.NoError(t, m.Heard(members(n).Proc(1), f.encode(nil)))
	reports := 0
	for a, ok := m.Next(); ok; a, ok = m.Next() {
		require.Equal(t, Report, a.Kind)
		reports++
		m.Died(a.Peer)
	}
	require.Equal(t, n-2, reports)
	require.Empty(t, m.lines[theLine].waiting)
}

// What a peer may make a machine keep is bounded, and what is no frame is refused.
func TestPeersAreBounded(t *testing.T) {
	ms := machines(t, 2, theLine)
	f := frame{kind: kindUp, line: Line{99, 99}, seq: 1}
	b := f.encode(nil)
	var err error
	n := 0
	for ; err == nil; n++ {
		require.LessOrEqual(t, n, maxEarly)
		err = ms[0].Heard(ms[1].self, b)
	}
	require.ErrorIs(t, err, ErrFrame)
	f.line, f.seq = theLine, 5
	require.ErrorIs(t, ms[0].Heard(ms[1].self, f.encode(nil)), ErrFrame, "they count together")
	require.ErrorIs(t, ms[0].Heard(ms[1].self, b[:4]), ErrFrame)
	f.seq = 1
	require.ErrorIs(t, ms[0].Heard(1<<20, f.encode(nil)), ErrFrame, "no member")
	f.kind = kindDown
	require.ErrorIs(t, ms[0].Heard(ms[1].self, f.encode(nil)), ErrFrame, "decided without us")
	ms[0].Close(theLine)
	require.Zero(t, len(ms[0].lines))
}

// A frame that is decoded is one that encode writes, and a machine survives whatever it
// is told.
func FuzzHeard(f *testing.F) {
	up := frame{kind: kindUp, what: 3, line: theLine, seq: 1, value: []byte{1, 2}, gone: []entry{{1, false, true}, {2, true, false}}, unacked: ranks{1}}
	down := up
	down.kind = kindDown
	f.Add(up.encode(nil), down.encode(nil))
	f.Add([]byte{}, []byte{1, 0, 0})
	f.Fuzz(func(t *testing.T, a, b []byte) {
		m := New(members(4).Proc(0), Binomial)
		require.NoError(t, m.Open(theLine, members(4)))
		_, err := m.Propose(theLine, Proposal{What: 3, Value: []byte{1, 1}, Op: func(acc, in []byte) { acc[0] &= in[0] }})
		require.NoError(t, err)
		for i, x := range [][]byte{a, b, a} {
			_ = m.Heard(members(4).Proc(1+i), x)
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

// BenchmarkAgree is all that the machines of a group do for one agreement.
func BenchmarkAgree(b *testing.B) {
	const n = 16
	var ms []*Machine
	for r := range n {
		m := New(members(n).Proc(r), Binomial)
		if err := m.Open(theLine, members(n)); err != nil {
			b.Fatal(err)
		}
		ms = append(ms, m)
	}
	and := func(acc, in []byte) { acc[0] &= in[0] }
	value := []byte{1}
	b.ReportAllocs()
	for b.Loop() {
		for r := n - 1; r >= 0; r-- {
			if _, err := ms[r].Propose(theLine, Proposal{Value: value, Op: and}); err != nil {
				b.Fatal(err)
			}
			for a, ok := ms[r].Next(); ok; a, ok = ms[r].Next() {
				if a.Kind == Send {
					_ = ms[members(n).Rank(a.To)].Heard(ms[r].self, a.Payload)
				}
			}
		}
		for again := true; again; {
			again = false
			for _, m := range ms {
				for a, ok := m.Next(); ok; a, ok = m.Next() {
					if a.Kind == Send {
						again = true
						_ = ms[members(n).Rank(a.To)].Heard(m.self, a.Payload)
					}
				}
			}
		}
	}
}
