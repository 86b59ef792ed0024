package main

// osuPersistentCmds are the collectives by persistent requests.
type osuPersistentCmds struct {
	BarrierPersistent            osuBarrierCmd `cmd:"" name:"barrier_persistent" help:"Time of a barrier by a persistent request."`
	BcastPersistent              osuCollCmd    `cmd:"" name:"bcast_persistent" help:"Time of a broadcast by a persistent request."`
	AllreducePersistent          osuCollCmd    `cmd:"" name:"allreduce_persistent" help:"Time of a sum over all ranks by a persistent request."`
	ReducePersistent             osuCollCmd    `cmd:"" name:"reduce_persistent" help:"Time of a sum that one rank gets by a persistent request."`
	GatherPersistent             osuCollCmd    `cmd:"" name:"gather_persistent" help:"Time of a gather by a persistent request."`
	GathervPersistent            osuCollCmd    `cmd:"" name:"gatherv_persistent" help:"Time of a gather of slices by a persistent request."`
	ScatterPersistent            osuCollCmd    `cmd:"" name:"scatter_persistent" help:"Time of a scatter by a persistent request."`
	ScattervPersistent           osuCollCmd    `cmd:"" name:"scatterv_persistent" help:"Time of a scatter of slices by a persistent request."`
	AllgatherPersistent          osuCollCmd    `cmd:"" name:"allgather_persistent" help:"Time of an allgather by a persistent request."`
	AllgathervPersistent         osuCollCmd    `cmd:"" name:"allgatherv_persistent" help:"Time of an allgather of slices by a persistent request."`
	AlltoallPersistent           osuCollCmd    `cmd:"" name:"alltoall_persistent" help:"Time of an exchange of all with all by a persistent request."`
	AlltoallvPersistent          osuCollCmd    `cmd:"" name:"alltoallv_persistent" help:"Time of an exchange of all with all, of slices by a persistent request."`
	ReduceScatterPersistent      osuCollCmd    `cmd:"" name:"reduce_scatter_persistent" help:"Time of a sum of which each rank gets a part by a persistent request."`
	ReduceScatterBlockPersistent osuCollCmd    `cmd:"" name:"reduce_scatter_block_persistent" help:"Time of a sum of which each rank gets a block by a persistent request."`
}

func newOsuPersistentCmds(common func(name string) osuOptions) osuPersistentCmds {
	of := func(name string) osuCollCmd { return osuCollCmd{osuOptions: common(name + "_persistent")} }
	return osuPersistentCmds{
		BarrierPersistent:            osuBarrierCmd{osuCommon: common("barrier_persistent").osuCommon},
		BcastPersistent:              of("bcast"),
		AllreducePersistent:          of("allreduce"),
		ReducePersistent:             of("reduce"),
		GatherPersistent:             of("gather"),
		GathervPersistent:            of("gatherv"),
		ScatterPersistent:            of("scatter"),
		ScattervPersistent:           of("scatterv"),
		AllgatherPersistent:          of("allgather"),
		AllgathervPersistent:         of("allgatherv"),
		AlltoallPersistent:           of("alltoall"),
		AlltoallvPersistent:          of("alltoallv"),
		ReduceScatterPersistent:      of("reduce_scatter"),
		ReduceScatterBlockPersistent: of("reduce_scatter_block"),
	}
}
