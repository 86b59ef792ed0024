package agree

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzReceiveAtBallot: a machine that waits at a ballot, and one that has yet to reach it, handle any frame
// of a member.
func FuzzReceiveAtBallot(f *testing.F) {
	wake := frame{kind: kindWake, key: theGroup, seq: 2}
	down := frame{kind: kindDown, flags: flagBallot, what: 3, key: theGroup, seq: 2, ballot: 7, value: make([]byte, 8)}
	up := frame{kind: kindUp, flags: flagBallot, what: 3, key: theGroup, seq: 2,
		ended: []entry{{0, false, true}}, value: make([]byte, 8)}
	for _, x := range []frame{wake, down, up} {
		f.Add(x.encode(nil), true)
		f.Add(x.encode(nil), false)
	}
	f.Fuzz(func(t *testing.T, b []byte, waits bool) {
		w := newWorld(job{n: 3, rounds: 3, flat: true})
		w.through(1)
		p := w.procs[1]
		require.NotNil(t, p.m.open[theGroup].ballot.Ballot)
		if waits {
			w.propose(1, 0)
			w.drain(1, -1)
		}
		if err := p.m.Receive(members(3).Proc(2), b); err != nil {
			require.ErrorIs(t, err, ErrFrame)
		}
		w.drain(1, -1)
		p.m.Look()
		p.m.Died(members(3).Proc(2))
	})
}

// through lets all members complete so many agreements of the first group.
func (w *world) through(rounds int) {
	for {
		steps := w.steps(nil)
		for _, s := range steps {
			if s.what == 'p' && w.procs[s.at].part[s.from].proposed >= rounds || s.what == 'z' {
				continue
			}
			w.do(s)
			steps = nil
			break
		}
		if steps != nil {
			return
		}
	}
}
