package coll

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/coll/choose"
)

// Both trees of a reduction fold the same operands with each other, so sums of floating-point numbers have the same
// bytes.
func TestTreesOfReductionsAgree(t *testing.T) {
	for _, f := range []Fold{{}, {Swaps: true}} {
		for _, n := range []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 20, 64, 67} {
			binomial, knomial := foldings(t, n, choose.Binomial, f), foldings(t, n, choose.Knomial, f)
			require.Equal(t, binomial, knomial, "%d ranks", n)
			if n == 6 && !f.Swaps {
				require.Equal(t, "(((a b) (c d)) (e f))", knomial)
			}
		}
	}
}

// foldings gives the folds of a reduction among n ranks, by an algorithm.
func foldings(t *testing.T, n int, by choose.Algorithm, f Fold) string {
	table := choose.New(choose.Force(choose.Reduce, by))
	sums := map[int]string{}
	for _, r := range ranks(t, n, true, false) {
		r.coll = Comm{Trees: Trees{Choice: Choice{Auto: true, Design: auto.Design, Table: table}, World: &World{Node: node}}}
		s := r.coll.blocking(r.Comm, Reduce, Call{})
		in, out := []byte{0}, []byte{0}
		s.reduce(in, out, f, 0)
		sums[r.Rank()] = sumOf(s, r.Rank())
	}
	whole := sums[0]
	for again := ""; again != whole; { // a rank's part stands for its fold
		again = whole
		for rank, sum := range sums {
			whole = strings.ReplaceAll(whole, name(rank)+"'", sum)
		}
	}
	return whole
}

// name is that of a rank's own buffer.
func name(rank int) string { return string(rune('a' + rank)) }

// sumOf runs the steps of a rank on names.
func sumOf(s *Schedule, me int) string {
	at := map[*byte]string{}
	own := func(b []byte) string {
		if have, ok := at[&b[0]]; ok {
			return have
		}
		return name(me)
	}
	result := name(me)
	for _, st := range s.steps {
		switch st.kind {
		case stepRecv:
			at[&st.to[0]] = name(int(st.peer)) + "'"
		case stepFold:
			left, right := own(st.to), own(st.from)
			if _, received := at[&st.from[0]]; !received { // the operands have changed places
				left, right = right, left
			}
			at[&st.to[0]] = "(" + left + " " + right + ")"
			result = at[&st.to[0]]
		}
	}
	return result
}
