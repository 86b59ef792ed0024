package main

// osuExchangeCmds are the collectives in which each rank has a block for others, and those that leave each
// rank a part of a sum.
type osuExchangeCmds struct {
	Reduce             osuRootCmd  `cmd:"" help:"Time of a sum over all ranks that one gets."`
	Gather             osuRootCmd  `cmd:"" help:"Time in which a rank gets a block of each, one after the other."`
	Scatter            osuRootCmd  `cmd:"" help:"Time in which each rank gets a block of one, one after the other."`
	Allgather          osuPlaceCmd `cmd:"" help:"Time in which all ranks get a block of each, one after the other."`
	Alltoall           osuPlaceCmd `cmd:"" help:"Time of an exchange of all with all, any number of ranks."`
	Allgatherv         osuPlaceCmd `cmd:"" help:"Time in which all ranks get a block of each."`
	Gatherv            osuRootCmd  `cmd:"" help:"Time in which a rank gets a block of each."`
	Scatterv           osuRootCmd  `cmd:"" help:"Time in which each rank gets a block of one."`
	Alltoallv          osuPlaceCmd `cmd:"" help:"Time of an exchange of all with all, of slices."`
	Alltoallw          osuPlaceCmd `cmd:"" help:"Time of an exchange of all with all, of slices anywhere in memory."`
	ReduceScatter      osuPlaceCmd `cmd:"" name:"reduce_scatter" help:"Time of a sum of which each rank gets a part."`
	ReduceScatterBlock osuPlaceCmd `cmd:"" name:"reduce_scatter_block" help:"Time of a sum of which each rank gets a block."`
	Scan               osuPlaceCmd `cmd:"" help:"Time of the sums over the ranks up to each."`
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
