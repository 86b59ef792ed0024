package main

// osuPersistentCmds are the collectives by persistent requests.
type osuPersistentCmds struct {
	BarrierPersistent            osuBarrierCmd `cmd:"" name:"barrier_persistent" help:"Time of a barrier by a persistent request."`
	BcastPersistent              osuCollCmd    `cmd:"" name:"bcast_persistent" help:"Time of a broadcast by a persistent request."`
	AllreducePersistent          osuPlaceCmd   `cmd:"" name:"allreduce_persistent" help:"Time of an allreduce by a persistent request."`
	ReducePersistent             osuPlaceCmd   `cmd:"" name:"reduce_persistent" help:"Time of a reduce by a persistent request."`
	GatherPersistent             osuPlaceCmd   `cmd:"" name:"gather_persistent" help:"Time of a gather by a persistent request."`
	GathervPersistent            osuPlaceCmd   `cmd:"" name:"gatherv_persistent" help:"Time of a gather of slices by a persistent request."`
	ScatterPersistent            osuPlaceCmd   `cmd:"" name:"scatter_persistent" help:"Time of a scatter by a persistent request."`
	ScattervPersistent           osuPlaceCmd   `cmd:"" name:"scatterv_persistent" help:"Time of a scatter of slices by a persistent request."`
	AllgatherPersistent          osuPlaceCmd   `cmd:"" name:"allgather_persistent" help:"Time of an allgather by a persistent request."`
	AllgathervPersistent         osuPlaceCmd   `cmd:"" name:"allgatherv_persistent" help:"Time of an allgather of slices by a persistent request."`
	AlltoallPersistent           osuPlaceCmd   `cmd:"" name:"alltoall_persistent" help:"Time of an alltoall by a persistent request."`
	AlltoallvPersistent          osuPlaceCmd   `cmd:"" name:"alltoallv_persistent" help:"Time of an alltoall of slices by a persistent request."`
	ReduceScatterPersistent      osuPlaceCmd   `cmd:"" name:"reduce_scatter_persistent" help:"Time of a reduce-scatter of parts of any length by a persistent request."`
	ReduceScatterBlockPersistent osuPlaceCmd   `cmd:"" name:"reduce_scatter_block_persistent" help:"Time of a reduce-scatter of equal blocks by a persistent request."`
}

func newOsuPersistentCmds(common func(name string) osuOptions) osuPersistentCmds {
	plain := func(name string) osuCollCmd { return osuCollCmd{osuOptions: common(name + "_persistent")} }
	of := func(name string) osuPlaceCmd { return osuPlaceCmd{osuCollCmd: plain(name)} }
	return osuPersistentCmds{
		BarrierPersistent:            osuBarrierCmd{osuCommon: common("barrier_persistent").osuCommon},
		BcastPersistent:              plain("bcast"),
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
