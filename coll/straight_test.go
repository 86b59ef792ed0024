package coll

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/internal/proc"
)

// A bcast, a gather, a scatter and an allgather go straight between the ranks, where the way is free and all are on one
// node; elsewhere ranks pass on the blocks of others.
func TestStraight(t *testing.T) {
	const n, root, size = 8, 3, 4096
	pair := ranks(t, 2, true, false)[0] // two ranks, too: sent data are not copied before
	s := pair.coll.blocking(pair.Comm, Allgather, Call{})
	s.allgather(make([]byte, size), make([]byte, 2*size))
	require.Equal(t, stepIrecv, s.steps[0].kind)
	apart := func(id proc.ID) int { return int(id) / 4 }
	for _, c := range []struct {
		name     string
		choice   Choice
		node     func(proc.ID) int
		straight bool
	}{
		{"free", auto, node, true},
		{"two nodes", auto, apart, false},
		{"a chosen tree", Choice{Design: auto.Design}, node, false},
	} {
		straight := map[Kind]bool{Bcast: true, Gather: true, Scatter: true, Allgather: true}
		for _, r := range ranks(t, n, true, false) {
			r.coll = Comm{Trees: Trees{Choice: c.choice, World: &World{Node: c.node}}}
			var rest []int
			for rank := range n {
				if rank != r.Rank() {
					rest = append(rest, rank)
				}
			}
			for kind := range straight {
				s := r.coll.blocking(r.Comm, kind, Call{})
				switch one, all := make([]byte, size), make([]byte, n*size); kind {
				case Bcast:
					s.bcast(one, root)
				case Gather:
					s.gather(one, all, root)
				case Allgather:
					s.allgather(one, all)
				default:
					s.scatter(all, one, root)
				}
				want := rest
				switch {
				case kind == Allgather: // to each and from each
					want = slices.Sorted(slices.Values(slices.Repeat(rest, 2)))
				case r.Rank() != root:
					want = []int{root}
				}
				straight[kind] = straight[kind] && slices.Equal(want, peersOf(s))
			}
		}
		for kind, is := range straight {
			require.Equal(t, c.straight, is, "%s: %v", c.name, kind)
		}
	}
}

// A bcast of more ranks does so only where they share cores.
func TestStraightBcastOfManyRanks(t *testing.T) {
	const n = 17
	for _, crowded := range []bool{false, true} {
		r := ranks(t, n, true, false)[0]
		r.coll = Comm{Trees: Trees{Choice: auto, World: &World{Node: node, Crowded: crowded}}}
		s := r.coll.blocking(r.Comm, Bcast, Call{})
		s.bcast(make([]byte, 4096), 0)
		require.Equal(t, crowded, len(peersOf(s)) == n-1)
	}
}

// peersOf are the ranks with which the steps of a schedule exchange messages.
func peersOf(s *Schedule) (peers []int) {
	for _, st := range s.steps {
		if st.kind < stepWait {
			peers = append(peers, int(st.peer))
		}
	}
	slices.Sort(peers)
	return peers
}

// The first message of a broadcast adds steps, and takes none away: what a leader has sent to others before is handed over.
func TestTurnKeepsWhatWasSent(t *testing.T) {
	r := ranks(t, 4, true, false)[0]
	for _, long := range []bool{false, true} {
		s := r.coll.blocking(r.Comm, Bcast, Call{})
		s.add(stepRelay, 3, nil, nil)
		s.spreadLong(s.o.to(1), make([]byte, 4<<20), segmentedTrees)
		require.Contains(t, peersOf(s), 3)
		s.stream.long, s.stream.total = long, 4<<20
		s.turn()
		require.Contains(t, peersOf(s), 3, "long %v", long)
	}
}

// Two ranks copy nothing where operands may be swapped, in place or not; else the one copies whose part has another place.
func TestSumsOfTwoRanks(t *testing.T) {
	pair := ranks(t, 2, true, false)
	for _, c := range []struct{ swaps, inPlace bool }{{false, false}, {false, true}, {true, false}, {true, true}} {
		for me, r := range pair {
			in, to, scratch := make([]byte, 64), make([]byte, 64), make([]byte, 80)
			if c.inPlace {
				in = to
			}
			s := r.coll.blocking(r.Comm, Allreduce, Call{})
			s.foldStraight(in, to, scratch, Fold{Unit: 8, Swaps: c.swaps})
			copies, folds := 0, 0
			for _, st := range s.steps {
				switch st.kind {
				case stepCopy:
					copies++
				case stepFold:
					folds++
				}
			}
			want := 0
			if !c.swaps && c.inPlace == (me == 1) {
				want = 1
			}
			require.Equal(t, want, copies, "rank %d, %+v", me, c)
			require.Equal(t, 1, folds)
		}
	}
}
