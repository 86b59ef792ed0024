package main

import (
	"fmt"
	"strings"
)

// osuHelp is the help of a benchmark, and its examples.
type osuHelp struct {
	text     string
	examples []string
}

// osuWords are the help text of each benchmark and its examples.
var osuWords = map[string]osuHelp{
	"latency": {"Half of the mean round trip between two ranks, with blocking calls.",
		[]string{"-m 8:8 -i 1000000 -z --precision 3", "--aware=false --json results/unaware.json"}},
	"bw": {"Rank 0 sends windows of non-blocking messages, rank 1 answers each with a short one.",
		[]string{"-W 128 -m 1024:65536", "--min-time 500ms -c"}},
	"bibw": {"Two ranks send each other windows of non-blocking messages at the same time; the\nbandwidth is that of " +
		"both directions together.",
		[]string{"-m 65536: --min-time 500ms", "-c"}},
	"mbw_mr": {"As bw, by several pairs at once, rank i with rank pairs+i: the bandwidth and the\nmessages per " +
		"second of all pairs together, until the last of them is done. The percentiles of -z\nare of single " +
		"windows: the bandwidth of one pair.",
		[]string{"-n 4", "-p 2 -m 8:8 --min-time 1s", "-V -R 0 -m 8:4096"}},
	"multi_lat": {"As latency, by several pairs at once, rank i with rank pairs+i: the mean of the\npairs.",
		[]string{"-n 4", "-p 2 -z"}},
	"latency_persistent": {"As latency, by persistent requests, which are made once for a size.",
		[]string{"-m 8:8 -i 100000 -z", "-c -m 1:65536"}},
	"bw_persistent":   {"As bw, by persistent requests.", []string{"-W 128 -m 1024:65536", "--min-time 500ms -c"}},
	"bibw_persistent": {"As bibw, by persistent requests.", []string{"-m 65536: --min-time 500ms", "-c"}},
	"bw_fan_in": {"Each rank of the first node receives windows of messages from the rank of each other node\nthat has " +
		"its place there, and answers each. On one node rank 0 receives from all others.\nThe bandwidth is that of all " +
		"together.",
		[]string{"-n 4 -m 1024:65536", "-n 3 -c"}},
	"bw_fan_out": {"As bw_fan_in, in the other direction: each rank of the first node, or rank 0, sends.",
		[]string{"-n 4 -m 1024:65536", "-n 3 -c"}},
	"latency_mt": {"As latency, but the messages are dealt out to goroutines that all call at the same\ntime: half " +
		"of the mean round trip as one of the senders sees it.",
		[]string{"-t 4", "-t 4:4 -c"}},
	"barrier": {"Mean time of a barrier of all ranks, one after the other.",
		[]string{"-n 8 -f", "-n 64 --fabric sim"}},
	"bcast": {"Mean time of a broadcast from rank 0, as each rank sees it; a barrier lies between two\nbroadcasts " +
		"and is not timed.",
		[]string{"-n 8 -f -m 1:65536", "-n 4 -c"}},
	"allreduce": {"Mean time of a sum over all ranks, of 4-byte integers without -T, as each rank sees it; a barrier\nlies " +
		"between two sums and is not timed. With -l the sums replace the\nnumbers.",
		[]string{"-n 8 -f -m 4:65536", "-n 4 -c -z"}},
	"reduce":    {"As allreduce; rank 0 alone gets the sums.", []string{"-n 8 -f -m 4:65536", "-n 4 -c"}},
	"gather":    {"As gatherv; the blocks lie one after the other.", []string{"-n 8 -f -m 1:65536", "-n 4 -c"}},
	"scatter":   {"As scatterv; the blocks lie one after the other.", []string{"-n 8 -f -m 1:65536", "-n 4 -c"}},
	"allgather": {"As allgatherv; the blocks lie one after the other.", []string{"-n 8 -f -m 1:65536", "-n 4 -c"}},
	"alltoall": {"Mean time in which each rank sends each other one a block, as each rank sees it; a barrier\nlies " +
		"between two exchanges and is not timed. A size is that of a block.",
		[]string{"-n 8 -f -m 1:65536", "-n 4 -c"}},
	"allgatherv": {"Mean time in which all ranks get a block of each. All blocks are of the size, and each\nhas a " +
		"length of its own in the call.",
		[]string{"-n 8 -f -m 1:65536", "-n 4 -c"}},
	"gatherv":   {"As allgatherv; rank 0 alone gets the blocks.", []string{"-n 8 -f -m 1:65536", "-n 4 -c"}},
	"scatterv":  {"Mean time in which rank 0 sends each rank a block.", []string{"-n 8 -f -m 1:65536", "-n 4 -c"}},
	"alltoallv": {"As alltoall; each block has a length of its own in the call.", []string{"-n 8 -f -m 1:65536", "-n 4 -c"}},
	"alltoallw": {"As alltoallv, which it is: a block of bytes may lie anywhere, so it needs no type of its own.",
		[]string{"-n 8 -f -m 1:65536", "-n 4 -c"}},
	"reduce_scatter": {"Mean time of a sum over all ranks, of 4-byte integers without -T, of which each rank gets a part. A\n" +
		"size is that of the data of each rank.",
		[]string{"-n 8 -f -m 4:65536", "-n 4 -c"}},
	"reduce_scatter_block": {"As reduce_scatter; a size is that of the block that each rank gets.",
		[]string{"-n 8 -f -m 4:65536", "-n 4 -c"}},
	"scan": {"Mean time in which each rank gets the sum of 4-byte integers over the ranks up to it.",
		[]string{"-n 8 -f -m 4:65536", "-n 4 -c"}},
	"exscan": {"As scan; the sum is over the ranks below it, of which the lowest rank has none.",
		[]string{"-n 8 -f -m 4:65536", "-n 4 -c"}},
	"neighbor_allgather": {"Mean time in which each rank gets a block of each neighbour. The ranks lie in a periodic\ngrid, a ring without -N. A size is that of a block.",
		[]string{"-n 8 -N cart:2:1 -m 1:65536", "-n 4 -c"}},
	"neighbor_allgatherv": {"As neighbor_allgather; each block has a length of its own in the call.",
		[]string{"-n 8 -N cart:2:1 -m 1:65536", "-n 4 -c"}},
	"neighbor_alltoall": {"As neighbor_allgather; a rank has a block of its own for each neighbour.",
		[]string{"-n 8 -N cart:2:1 -m 1:65536", "-n 4 -c"}},
	"neighbor_alltoallv": {"As neighbor_alltoall; each block has a length of its own in the call.",
		[]string{"-n 8 -N cart:2:1 -m 1:65536", "-n 4 -c"}},
	"neighbor_alltoallw": {"As neighbor_alltoallv, which it is: a block of bytes may lie anywhere.",
		[]string{"-n 8 -N cart:2:1 -m 1:65536", "-n 4 -c"}},
	"ibarrier": {"A barrier is started, each rank computes for as long as the barrier takes alone, and waits for\nit. Pure Comm. is the time of the barrier alone, Overlap the share of it that the\ncomputation hides. With -t the request is tested during the computation.",
		[]string{"-n 4 -f -t 100", "-n 64 --fabric sim"}},
	"put_latency": {"Rank 0 puts into the memory of rank 1 and waits until the data are there. With pscw and\nfence " +
		"the ranks do so in turn, and the time is half of both.",
		[]string{"-m 8:8 -z --precision 3", "-s lock -w create -m 1:65536"}},
	"get_latency": {"As put_latency, with reads.",
		[]string{"-m 8:8 -i 100000", "-s pscw -m 1:65536"}},
	"put_bw": {"Rank 0 puts windows of messages into the memory of rank 1 and waits for each window.",
		[]string{"-W 128 -m 1024:65536", "-s fence -m 4096: --min-time 500ms"}},
	"get_bw": {"As put_bw, with reads.",
		[]string{"-W 128 -m 1024:65536", "-s lock_all -m 4096: --min-time 500ms"}},
	"put_bibw": {"Both ranks put windows of messages into the other's memory at the same time.",
		[]string{"-m 65536:", "-s fence -m 1:65536"}},
	"acc_latency": {"As put_latency; the bytes are added to those in the memory, each atomically.",
		[]string{"-m 8:8 -c", "-s lock -m 1:65536"}},
	"get_acc_latency": {"As acc_latency; the old bytes are read as well. Without -w and -s it is\n" +
		"as OSU's manual says, not as its programs do up to version 6.",
		[]string{"-m 8:8 -c", "-s lock -w create -m 1:65536"}},
	"fop_latency": {"Rank 0 adds to 8 bytes in the memory of rank 1 and gets the old value.",
		[]string{"-i 100000 -z", "-s lock_all"}},
	"cas_latency": {"Rank 0 swaps 8 bytes in the memory of rank 1 if they are as expected, which they are.",
		[]string{"-i 100000 -z", "-s lock"}},
}

// helpOf gives the words and examples of a benchmark: its own, or those of the operation that it varies.
func helpOf(name string) osuHelp {
	if words, known := osuWords[name]; known {
		return words
	}
	if of, persistent := strings.CutSuffix(name, "_persistent"); persistent {
		return osuHelp{"As " + of + ", by a request that is made once for each size and started for each call.", osuWords[of].examples}
	}
	of := strings.TrimPrefix(name, "i")
	example := strings.Replace(osuWords[of].examples[0], "-n 8", "-n 4", 1)
	return osuHelp{"As " + of + ", with a computation between the call and the wait; see ibarrier for the columns.",
		[]string{example, "-n 4 -t 100 -c"}}
}

func (c osuCommon) Help() string {
	words := helpOf(c.Bench.Name)
	var b strings.Builder
	fmt.Fprintf(&b, `%s

The table is in the format of the OSU micro-benchmarks, whose options are known by
their letters and their long names. Started alone, the command
starts its ranks itself, each bound to a core where there are enough; under ftbench
run, mpiexec (MPICH) or srun --mpi=pmi2, and where RANK and WORLD_SIZE are set, it
joins the job. --fabric sim is for one process alone.

Examples:
  ftbench osu %[2]s
`, words.text, c.Bench.Name)
	for _, args := range words.examples {
		fmt.Fprintf(&b, "  ftbench osu %s %s\n", c.Bench.Name, args)
	}
	if !c.Bench.Threaded {
		fmt.Fprintf(&b, "  ftbench osu %s --fabric sim -m 1024\n", c.Bench.Name)
	}
	fmt.Fprintf(&b, "  mpiexec.mpich -n 2 bin/ftbench osu %s", c.Bench.Name)
	return b.String()
}
