package choose

import (
	"fmt"
	"slices"
	"strings"
)

// Op is an operation that has several algorithms.
type Op uint8

// The operations.
const (
	Barrier Op = iota // this and the next also have package coll/corrected
	Bcast
	Reduce
	Allreduce
	Gather
	Scatter
	Allgather
	Allgatherv
	Alltoall
	ReduceScatterBlock
	Scan // an Exscan goes the same way
	NumOps
)

// Algorithm is one of the ways of an operation.
type Algorithm uint8

// The algorithms.
const (
	// Memory of all ranks, which are on one node: package sm.
	Memory Algorithm = iota
	// Levels: in the memory of each node, and by messages among the nodes' lowest ranks.
	Levels
	// Dissemination: in step k each rank sends to the rank 2^k above.
	Dissemination
	// Binomial tree whose subtrees are runs of ranks.
	Binomial
	// Knomial: a tree in which a rank receives from up to seven others at once.
	Knomial
	// Pipelined: over the tree of the shortest lengths in segments.
	Pipelined
	// Chain of ranks, a bcast in segments.
	Chain
	// Straight: a message between each two ranks of which one has data for the other.
	Straight
	// Doubling: recursive doubling; for an allgather among ranks whose number is no power of two, Bruck's
	// algorithm.
	Doubling
	// Halving: recursive halving and doubling.
	Halving
	// Ring: a block goes from each rank to the next one in each step.
	Ring
	numAlgorithms
)

var algorithms = [numAlgorithms]string{
	Memory: "memory", Levels: "levels", Dissemination: "dissemination", Binomial: "binomial", Knomial: "knomial", Pipelined: "pipelined",
	Chain: "chain", Straight: "straight", Doubling: "doubling", Halving: "halving", Ring: "ring",
}

// String is its word in tables.
func (a Algorithm) String() string { return algorithms[a] }

// ParseAlgorithm reads the word of an algorithm.
func ParseAlgorithm(word string) (Algorithm, error) {
	if i := slices.Index(algorithms[:], word); i >= 0 {
		return Algorithm(i), nil
	}
	return 0, fmt.Errorf("there is no algorithm %.32q: take one of %s", word, strings.Join(algorithms[:], ", "))
}

// operation lists the algorithms of an operation.
type operation struct {
	name string
	// first are the algorithms that handle lengths from 0 on, later those that need a length header, or that
	// ranks with other lengths notice. Without later ones, rules of messages do not depend on bytes.
	first, later []Algorithm
	// oneTree: data go up the tree by which headers come, so that of the shortest lengths is the tree of all.
	oneTree bool
}

var operations = [NumOps]operation{
	Barrier:            {name: "barrier", first: []Algorithm{Memory, Levels, Dissemination, Binomial}},
	Bcast:              {name: "bcast", first: []Algorithm{Memory, Levels, Binomial, Straight}, later: []Algorithm{Pipelined, Chain}},
	Reduce:             {name: "reduce", first: []Algorithm{Binomial, Knomial}, later: []Algorithm{Pipelined}, oneTree: true},
	Allreduce:          {name: "allreduce", first: []Algorithm{Memory, Levels, Doubling}, later: []Algorithm{Halving, Straight}},
	Gather:             {name: "gather", first: []Algorithm{Binomial, Straight}},
	Scatter:            {name: "scatter", first: []Algorithm{Binomial, Straight}},
	Allgather:          {name: "allgather", first: []Algorithm{Memory, Levels, Doubling, Straight}, later: []Algorithm{Ring}},
	Allgatherv:         {name: "allgatherv", first: []Algorithm{Memory, Straight}},
	Alltoall:           {name: "alltoall", first: []Algorithm{Memory, Straight}},
	ReduceScatterBlock: {name: "reduce_scatter_block", first: []Algorithm{Memory, Straight}},
	Scan:               {name: "scan", first: []Algorithm{Doubling}, later: []Algorithm{Chain}},
}

// String is its name in tables: that of OSU's program.
func (o Op) String() string { return operations[o].name }

// ParseOp reads the name of an operation.
func ParseOp(word string) (Op, error) {
	for i := range operations {
		if operations[i].name == word {
			return Op(i), nil
		}
	}
	names := make([]string, NumOps)
	for i := range operations {
		names[i] = operations[i].name
	}
	return 0, fmt.Errorf("there is no choice for an operation %.32q: take one of %s", word, strings.Join(names, ", "))
}

// Algorithms returns those of the operation.
func (o Op) Algorithms() []Algorithm { return slices.Concat(operations[o].first, operations[o].later) }

// Sized reports whether the operation has data.
func (o Op) Sized() bool { return o != Barrier }

// Switches reports whether messages of the operation may go by different algorithms at different lengths.
func (o Op) Switches() bool { return len(operations[o].later) > 0 }

// carries reports whether an algorithm of the operation takes lengths from 0 on.
func (o Op) carries(a Algorithm) bool { return slices.Contains(operations[o].first, a) }

// shared reports whether an algorithm is one in memory, of which a longer length shows there.
func (a Algorithm) shared() bool { return a == Memory || a == Levels }

// Lacks returns the reason for which a place does not have an algorithm, as text for the user; "":
// it has it.
func (a Algorithm) Lacks(p Place) string {
	switch {
	case a == Memory && !p.OneNode:
		return "the ranks are on several nodes"
	case a == Levels && p.OneNode:
		return "all ranks are on one node"
	case a == Levels && p.PerNode == 1:
		return "no two ranks share a node"
	}
	return ""
}
