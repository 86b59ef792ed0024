package osu

import (
	"fmt"
	"slices"

	"github.com/banyan-hpc/banyan"
)

// Datatype is the unit of sizes and the type of sums, by the words of OSU's option -T.
type Datatype string

// The types that there are.
const (
	Char  Datatype = "mpi_char"
	Int   Datatype = "mpi_int"
	Float Datatype = "mpi_float"
)

// Datatypes has them all.
var Datatypes = []Datatype{Char, Int, Float}

// number is the length in bytes of an [Int], which sums are of without another type, and of a [Float].
const number = 4

// Check reports an invalid type, and the remedy.
func (d Datatype) Check() error {
	if slices.Contains(Datatypes, d) {
		return nil
	}
	return fmt.Errorf("%q is no data type: use one of %v", string(d), Datatypes)
}

// size is the length of an element in bytes.
func (d Datatype) size() int {
	if d == Char {
		return 1
	}
	return number
}

// element is an element of sums.
type element interface{ int8 | int32 | float32 }

// ofType is a call, given the number of elements of a size, for the type of the group.
func ofType[R any](char, whole, float func(g *group, n int) R) func(g *group, size int) R {
	return func(g *group, size int) R {
		n := size / g.kind.size()
		switch g.kind {
		case Char:
			return char(g, n)
		case Float:
			return float(g, n)
		default:
			return whole(g, n)
		}
	}
}

// The operation is named where nothing is generic: so the library recognizes it, and folds by loops of its own.
var (
	sumChar  = banyan.Sum[int8]
	sumInt   = banyan.Sum[int32]
	sumFloat = banyan.Sum[float32]
)

// The buffers of a rank. A size is that of a rank's send buffer, except for reduce_scatter_block, where it is
// that of a block.
var (
	allreduceOp = summing{call: ofType(allreduce(sumChar), allreduce(sumInt), allreduce(sumFloat))}.operation()
	reduceOp    = summing{call: ofType(reduce(sumChar), reduce(sumInt), reduce(sumFloat)), part: atRootAlone, rooted: true}.operation()
	scanOp      = summing{call: ofType(scan(sumChar), scan(sumInt), scan(sumFloat)), over: upTo}.operation()
	exscanOp    = summing{call: ofType(exscan(sumChar), exscan(sumInt), exscan(sumFloat)), over: before}.operation()

	reduceScatterOp = summing{
		call: ofType(reduceScatter(sumChar), reduceScatter(sumInt), reduceScatter(sumFloat)), part: share,
	}.operation()
	reduceScatterBlockOp = summing{
		call: ofType(reduceBlock(sumChar), reduceBlock(sumInt), reduceBlock(sumFloat)), part: block, each: true,
	}.operation()

	iallreduceOp = allreduceOp.starting(ofType(iallreduce(sumChar), iallreduce(sumInt), iallreduce(sumFloat)))
	ireduceOp    = reduceOp.starting(ofType(ireduce(sumChar), ireduce(sumInt), ireduce(sumFloat)))

	ireduceScatterOp = reduceScatterOp.starting(
		ofType(ireduceScatter(sumChar), ireduceScatter(sumInt), ireduceScatter(sumFloat)))
	ireduceScatterBlockOp = reduceScatterBlockOp.starting(
		ofType(ireduceBlock(sumChar), ireduceBlock(sumInt), ireduceBlock(sumFloat)))
)

func allreduce[T element](sum func(a, b T) T) func(g *group, n int) error {
	return func(g *group, n int) error {
		return banyan.Allreduce(g.c, terms[T](g, n), vector[T](g.sums, n), sum)
	}
}

func reduce[T element](sum func(a, b T) T) func(g *group, n int) error {
	return func(g *group, n int) error {
		return banyan.Reduce(g.c, rootTerms[T](g, n), rootSums[T](g, n), sum, g.root)
	}
}

func scan[T element](sum func(a, b T) T) func(g *group, n int) error {
	return func(g *group, n int) error {
		return banyan.Scan(g.c, terms[T](g, n), vector[T](g.sums, n), sum)
	}
}

func exscan[T element](sum func(a, b T) T) func(g *group, n int) error {
	return func(g *group, n int) error {
		return banyan.Exscan(g.c, terms[T](g, n), vector[T](g.sums, n), sum)
	}
}

func reduceScatter[T element](sum func(a, b T) T) func(g *group, n int) error {
	return func(g *group, n int) error {
		_, mine := share(g, n)
		return banyan.ReduceScatter(g.c, terms[T](g, n), vector[T](g.sums, mine), g.counts, sum)
	}
}

func reduceBlock[T element](sum func(a, b T) T) func(g *group, n int) error {
	return func(g *group, n int) error {
		return banyan.ReduceScatterBlock(g.c, terms[T](g, g.c.Size()*n), vector[T](g.sums, n), sum)
	}
}

func iallreduce[T element](sum func(a, b T) T) func(g *group, n int) banyan.Request {
	return func(g *group, n int) banyan.Request {
		return banyan.Iallreduce(g.c, terms[T](g, n), vector[T](g.sums, n), sum)
	}
}

func ireduce[T element](sum func(a, b T) T) func(g *group, n int) banyan.Request {
	return func(g *group, n int) banyan.Request {
		return banyan.Ireduce(g.c, rootTerms[T](g, n), rootSums[T](g, n), sum, g.root)
	}
}

func ireduceScatter[T element](sum func(a, b T) T) func(g *group, n int) banyan.Request {
	return func(g *group, n int) banyan.Request {
		_, mine := share(g, n)
		return banyan.IreduceScatter(g.c, terms[T](g, n), vector[T](g.sums, mine), g.counts, sum)
	}
}

func ireduceBlock[T element](sum func(a, b T) T) func(g *group, n int) banyan.Request {
	return func(g *group, n int) banyan.Request {
		return banyan.IreduceScatterBlock(g.c, terms[T](g, g.c.Size()*n), vector[T](g.sums, n), sum)
	}
}

// terms are a rank's summands, in place where its sums are stored.
func terms[T element](g *group, n int) []T {
	if g.inPlace {
		return vector[T](g.sums, n)
	}
	return vector[T](g.buf, n)
}

// rootTerms are terms where the root alone gets sums.
func rootTerms[T element](g *group, n int) []T {
	if g.c.Rank() != g.root {
		return vector[T](g.buf, n)
	}
	return terms[T](g, n)
}

// rootSums is the result of a reduction, which the root alone gives.
func rootSums[T element](g *group, n int) []T {
	if g.c.Rank() != g.root {
		return nil
	}
	return vector[T](g.sums, n)
}

// share divides n elements among the ranks, the first of which have one more, and returns this rank's part.
func share(g *group, n int) (first, count int) {
	ranks := len(g.counts)
	for rank := range g.counts {
		g.counts[rank] = (n + ranks - 1 - rank) / ranks
		if rank < g.c.Rank() {
			first += g.counts[rank]
		}
	}
	return first, g.counts[g.c.Rank()]
}

func block(g *group, n int) (first, count int) { return g.c.Rank() * n, n }

func atRootAlone(g *group, n int) (first, count int) {
	if g.c.Rank() != g.root {
		n = 0
	}
	return 0, n
}

// upTo and before give the number of the lowest ranks over which a scan sums.
func upTo(g *group) int { return g.c.Rank() + 1 }

// The lowest rank has no sum: in place its own terms stay.
func before(g *group) int {
	if g.inPlace {
		return max(1, g.c.Rank())
	}
	return g.c.Rank()
}

// summing is an operation that leaves a part of a sum over the ranks, or over the lowest ones.
type summing struct {
	call func(g *group, size int) error
	// part is which of the sums of n elements, or of a block of n for each rank, a rank gets; nil: all.
	part   func(g *group, n int) (first, count int)
	over   func(g *group) int // over how many ranks; nil: all
	each   bool
	rooted bool // the root alone gets any
}

func (s summing) operation() operation {
	return operation{call: s.call, apart: true, unit: number, each: s.each, gives: s.each, fill: s.fill, wrong: s.wrong,
		rooted: s.rooted, inPlace: true}
}

func (s summing) fill(g *group, size int, round byte) {
	n := size / g.kind.size()
	if s.each {
		n *= g.c.Size()
	}
	clear(g.sums)
	defer g.place(n * g.kind.size())
	switch g.kind {
	case Char:
		fillTerms[int8](g, n, round)
	case Float:
		fillTerms[float32](g, n, round)
	default:
		fillTerms[int32](g, n, round)
	}
}

func (s summing) wrong(g *group, size int, round byte) int {
	first, count := 0, size/g.kind.size()
	if s.part != nil {
		first, count = s.part(g, count)
	}
	ranks := g.c.Size()
	if s.over != nil {
		ranks = s.over(g)
	}
	times := ranks * (ranks + 1) / 2
	switch g.kind {
	case Char:
		return wrongSums[int8](g, first, count, times, round)
	case Float:
		return wrongSums[float32](g, first, count, times, round)
	default:
		return wrongSums[int32](g, first, count, times, round)
	}
}

// term is the summand of rank 0 at place i; rank r adds r+1 times as much, so that a rank that is left out or
// counted twice is detected. Floating-point terms are small whole numbers, of which sums are exact.
func term[T element](i int, round byte) T {
	whole := int32(uint32(i+1)*2654435761) + int32(round)
	if T(1)/2 != 0 {
		whole &= 7
	}
	return T(whole)
}

func fillTerms[T element](g *group, n int, round byte) {
	times := T(g.c.Rank() + 1)
	all := vector[T](g.buf, n)
	for i := range all {
		all[i] = times * term[T](i, round)
	}
}

func wrongSums[T element](g *group, first, count, times int, round byte) (wrong int) {
	for i, v := range vector[T](g.sums, count) {
		if v != T(times)*term[T](first+i, round) {
			wrong += g.kind.size()
		}
	}
	return wrong
}

// place copies a rank's summands to their place in place.
func (g *group) place(size int) {
	if g.inPlace {
		copy(g.sums, g.buf[:size])
	}
}
