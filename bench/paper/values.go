package paper

import (
	"github.com/banyan-hpc/banyan/bench/kill"
	"github.com/banyan-hpc/banyan/bench/predict"
	"github.com/banyan-hpc/banyan/coll/tree"
)

// The job of tables 1 and 2, and how both were measured (§4).
const (
	tableRanks  = 512
	tableFailed = 256
	bcastBytes  = 1024
	// Rounds is the length of the inner timing loop.
	Rounds = 300
)

// Cell is a number of table 1 or 2.
type Cell struct {
	Op     predict.Op
	Design tree.Design
	Order  kill.Order
	// Printed is the paper's value, in microseconds.
	Printed float64
}

// Table1 is MPI_Barrier with 256 failures among 512 processes.
var Table1 = []Cell{
	{predict.Barrier, tree.Reroute, kill.Worst, 2734.8},
	{predict.Barrier, tree.Reroute, kill.Average, 1322.5},
	{predict.Barrier, tree.Reroute, kill.Best, 815.9},
	{predict.Barrier, tree.Rebalance, kill.Worst, 1059.4},
	{predict.Barrier, tree.Rebalance, kill.Average, 937.1},
	{predict.Barrier, tree.Rebalance, kill.Best, 813.8},
}

// Table2 is MPI_Bcast of 1 KB, the same.
var Table2 = []Cell{
	{predict.Bcast, tree.Reroute, kill.Worst, 4195.0},
	{predict.Bcast, tree.Reroute, kill.Average, 2096.1},
	{predict.Bcast, tree.Reroute, kill.Best, 1046.9},
	{predict.Bcast, tree.Rebalance, kill.Worst, 944.1},
	{predict.Bcast, tree.Rebalance, kill.Average, 941.6},
	{predict.Bcast, tree.Rebalance, kill.Best, 1044.6},
}

// point2point is §4.1: shared memory, without and with fault awareness.
var point2point = struct{ latency, aware, mbps, awareMbps float64 }{0.84, 0.85, 8957, 8920}

// rebuilds is §4.2: the least, average and largest time in microseconds to rebalance the tree of
// 1024 processes.
var rebuilds = []struct {
	failures          int
	min, average, max float64
}{{0, 4.9, 16.1, 28.4}, {896, 6.4, 50.9, 176.4}}
