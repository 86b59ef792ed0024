package osu

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
)

// Every collective that has one finds no wrong byte with another root, with one that rotates, and in place.
func TestRootsAndPlaces(t *testing.T) {
	rooted, placed := 0, 0
	for _, b := range All {
		o := small(b)
		o.Min, o.Max, o.Iterations, o.Validate, o.MaxTime = 8, 16, 4, true, 0
		for _, root := range []Root{{Rank: 2}, {Rotate: true}} {
			for _, place := range []bool{false, true} {
				o.Root, o.InPlace = root, place && b.op.inPlace
				if !b.op.rooted {
					o.Root = Root{}
				}
				if o.Root == (Root{}) && !o.InPlace {
					continue
				}
				for _, p := range points(t, b.Name, 3, o) {
					require.Zero(t, p.Errors, "%s, root %v, in place %t", b.Name, o.Root, o.InPlace)
				}
			}
		}
		if b.op.rooted {
			rooted++
		}
		if b.op.inPlace {
			placed++
		}
	}
	require.Equal(t, 10, rooted, "reduce, gather(v), scatter(v), blocking and not")
	require.Equal(t, 14+14+12, placed, "all but barrier, bcast and neighbours; scans; persistent ones")
}

// The root's place is used: its data there are sent, and received data are left there.
func TestInPlaceNoticesWrongBytes(t *testing.T) {
	inSim(t, 3, func(w *banyan.World) error {
		o := Options{Max: 64, InPlace: true, Root: Root{Rank: 1}}
		for _, op := range []operation{allreduceOp, reduceOp, gatherOp, allgatherOp, alltoallOp} {
			g := newGroup(w, &o, op)
			g.op.call = func(g *group, size int) error {
				clear(g.sums)
				clear(g.out)
				return op.call(g, size)
			}
			wrong, err := g.validate(64, 2, 0)
			require.NoError(t, err)
			require.Positive(t, wrong)
		}
		return nil
	})
}

func TestParseRoot(t *testing.T) {
	for text, want := range map[string]Root{"fixed:3": {Rank: 3}, "rotate": {Rotate: true}, "ROTATE": {Rotate: true}} {
		got, err := ParseRoot(text)
		require.NoError(t, err)
		require.Equal(t, want, got)
		again, err := ParseRoot(got.String())
		require.NoError(t, err)
		require.Equal(t, got, again)
	}
	for _, text := range []string{"", "fixed", "fixed:", "fixed:x", "fixed:-1", "3", "rotated"} {
		_, err := ParseRoot(text)
		require.ErrorContains(t, err, "fixed:RANK or rotate", text)
	}
	gather := Find("gather")
	o := gather.Defaults
	o.Root.Rank = 4
	require.ErrorContains(t, gather.Check(4, o), "the root is rank 4, and the job has 4 ranks")
	require.NoError(t, gather.Check(5, o))
	require.ErrorContains(t, Find("bcast").Check(5, o), "none that can be chosen")
	o = gather.Defaults
	o.InPlace = true
	require.ErrorContains(t, Find("barrier").Check(5, o), "no such form")
}
