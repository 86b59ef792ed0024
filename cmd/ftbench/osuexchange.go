package main

// osuExchangeCmds are the collectives in which each rank has a block for others, and those that leave each
// rank a part of a sum.
type osuExchangeCmds struct {
	Reduce             osuCollCmd `cmd:"" help:"Time of a sum over all ranks that one gets."`
	Gather             osuCollCmd `cmd:"" help:"Time in which a rank gets a block of each, one after the other."`
	Scatter            osuCollCmd `cmd:"" help:"Time in which each rank gets a block of one, one after the other."`
	Allgather          osuCollCmd `cmd:"" help:"Time in which all ranks get a block of each, one after the other."`
	Alltoall           osuCollCmd `cmd:"" help:"Time of an exchange of all with all, any number of ranks."`
	Allgatherv         osuCollCmd `cmd:"" help:"Time in which all ranks get a block of each."`
	Gatherv            osuCollCmd `cmd:"" help:"Time in which a rank gets a block of each."`
	Scatterv           osuCollCmd `cmd:"" help:"Time in which each rank gets a block of one."`
	Alltoallv          osuCollCmd `cmd:"" help:"Time of an exchange of all with all, of slices."`
	Alltoallw          osuCollCmd `cmd:"" help:"Time of an exchange of all with all, of slices anywhere in memory."`
	ReduceScatter      osuCollCmd `cmd:"" name:"reduce_scatter" help:"Time of a sum of which each rank gets a part."`
	ReduceScatterBlock osuCollCmd `cmd:"" name:"reduce_scatter_block" help:"Time of a sum of which each rank gets a block."`
	Scan               osuCollCmd `cmd:"" help:"Time of the sums over the ranks up to each."`
}

func newOsuExchangeCmds(common func(name string) osuOptions) osuExchangeCmds {
	of := func(name string) osuCollCmd { return osuCollCmd{osuOptions: common(name)} }
	return osuExchangeCmds{
		Reduce: of("reduce"), Gather: of("gather"), Scatter: of("scatter"), Allgather: of("allgather"),
		Alltoallw: of("alltoallw"), Alltoall: of("alltoall"), Allgatherv: of("allgatherv"), Gatherv: of("gatherv"), Scatterv: of("scatterv"),
		Alltoallv: of("alltoallv"), ReduceScatter: of("reduce_scatter"),
		ReduceScatterBlock: of("reduce_scatter_block"), Scan: of("scan"),
	}
}
