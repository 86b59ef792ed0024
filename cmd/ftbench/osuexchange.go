package main

// osuExchangeCmds are the collectives in which each rank has a block for others, and those that leave each
// rank a part of a sum.
type osuExchangeCmds struct {
	Reduce             osuRootCmd  `cmd:"" help:"Time of a reduce."`
	Gather             osuRootCmd  `cmd:"" help:"Time of a gather of contiguous blocks."`
	Scatter            osuRootCmd  `cmd:"" help:"Time of a scatter of contiguous blocks."`
	Allgather          osuPlaceCmd `cmd:"" help:"Time of an allgather of contiguous blocks."`
	Alltoall           osuPlaceCmd `cmd:"" help:"Time of an alltoall, any number of ranks."`
	Allgatherv         osuPlaceCmd `cmd:"" help:"Time of an allgather of slices."`
	Gatherv            osuRootCmd  `cmd:"" help:"Time of a gather of slices."`
	Scatterv           osuRootCmd  `cmd:"" help:"Time of a scatter of slices."`
	Alltoallv          osuPlaceCmd `cmd:"" help:"Time of an alltoall of slices."`
	Alltoallw          osuPlaceCmd `cmd:"" help:"Time of an alltoall of slices anywhere in memory."`
	ReduceScatter      osuPlaceCmd `cmd:"" name:"reduce_scatter" help:"Time of a reduce-scatter of parts of any length."`
	ReduceScatterBlock osuPlaceCmd `cmd:"" name:"reduce_scatter_block" help:"Time of a reduce-scatter of equal blocks."`
	Scan               osuPlaceCmd `cmd:"" help:"Time of a scan."`
}

func newOsuExchangeCmds(common func(name string) osuOptions) osuExchangeCmds {
	of := func(name string) osuPlaceCmd { return osuPlaceCmd{osuCollCmd: osuCollCmd{osuOptions: common(name)}} }
	rooted := func(name string) osuRootCmd { return osuRootCmd{osuCollCmd: osuCollCmd{osuOptions: common(name)}} }
	return osuExchangeCmds{
		Reduce:             rooted("reduce"),
		Gather:             rooted("gather"),
		Scatter:            rooted("scatter"),
		Allgather:          of("allgather"),
		Alltoall:           of("alltoall"),
		Allgatherv:         of("allgatherv"),
		Gatherv:            rooted("gatherv"),
		Scatterv:           rooted("scatterv"),
		Alltoallv:          of("alltoallv"),
		Alltoallw:          of("alltoallw"),
		ReduceScatter:      of("reduce_scatter"),
		ReduceScatterBlock: of("reduce_scatter_block"),
		Scan:               of("scan"),
	}
}
