package main

import "github.com/banyan-hpc/banyan/bench/osu"

// osuCmd has a command for each of osu.All, with its name.
type osuCmd struct {
	Latency   osuPairCmd     `cmd:"" help:"One-way time of a ping-pong."`
	Bw        osuWindowCmd   `cmd:"" help:"Throughput of windows of messages."`
	Bibw      osuWindowCmd   `cmd:"" help:"Throughput of windows in both directions at once."`
	MbwMr     osuMultiBwCmd  `cmd:"" name:"mbw_mr" help:"Throughput and message rate of several pairs together."`
	MultiLat  osuMultiLatCmd `cmd:"" name:"multi_lat" help:"Ping-pong of several pairs at once, the mean."`
	LatencyMt osuThreadCmd   `cmd:"" name:"latency_mt" help:"Ping-pong with several goroutines on each side."`
	Hello     osuHelloCmd    `cmd:"" help:"Start a job and print the number of its ranks."`

	LatencyPersistent osuPlainCmd   `cmd:"" name:"latency_persistent" help:"One-way time of a ping-pong with persistent requests."`
	BwPersistent      osuPlainBwCmd `cmd:"" name:"bw_persistent" help:"Throughput of windows of persistent requests."`
	BibwPersistent    osuPlainBwCmd `cmd:"" name:"bibw_persistent" help:"Throughput of windows of persistent requests in both directions at once."`
	BwFanIn           osuPlainBwCmd `cmd:"" name:"bw_fan_in" help:"Throughput of windows from many ranks to one."`
	BwFanOut          osuPlainBwCmd `cmd:"" name:"bw_fan_out" help:"Throughput of windows from one rank to many."`

	Barrier   osuBarrierCmd `cmd:"" help:"Time of a barrier, any number of ranks."`
	Bcast     osuBcastCmd   `cmd:"" help:"Time of a broadcast, any number of ranks."`
	Allreduce osuPlaceCmd   `cmd:"" help:"Time of an allreduce, any number of ranks."`

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
	Exscan             osuPlaceCmd `cmd:"" help:"Time of an exclusive scan."`

	Ibarrier            osuIbarrierCmd     `cmd:"" help:"Overlap of a barrier with computation."`
	Ibcast              osuOverlapCmd      `cmd:"" help:"Overlap of a broadcast with computation."`
	Iallreduce          osuOverlapPlaceCmd `cmd:"" help:"Overlap of an allreduce with computation."`
	Ireduce             osuOverlapRootCmd  `cmd:"" help:"Overlap of a reduce with computation."`
	Igather             osuOverlapRootCmd  `cmd:"" help:"Overlap of a gather with computation."`
	Igatherv            osuOverlapRootCmd  `cmd:"" help:"Overlap of a gather of slices with computation."`
	Iscatter            osuOverlapRootCmd  `cmd:"" help:"Overlap of a scatter with computation."`
	Iscatterv           osuOverlapRootCmd  `cmd:"" help:"Overlap of a scatter of slices with computation."`
	Iallgather          osuOverlapPlaceCmd `cmd:"" help:"Overlap of an allgather with computation."`
	Iallgatherv         osuOverlapPlaceCmd `cmd:"" help:"Overlap of an allgather of slices with computation."`
	Ialltoall           osuOverlapPlaceCmd `cmd:"" help:"Overlap of an alltoall with computation."`
	Ialltoallv          osuOverlapPlaceCmd `cmd:"" help:"Overlap of an alltoall of slices with computation."`
	Ialltoallw          osuOverlapPlaceCmd `cmd:"" help:"Overlap of an alltoall of slices anywhere in memory with computation."`
	IreduceScatter      osuOverlapPlaceCmd `cmd:"" name:"ireduce_scatter" help:"Overlap of a reduce-scatter of parts of any length with computation."`
	IreduceScatterBlock osuOverlapPlaceCmd `cmd:"" name:"ireduce_scatter_block" help:"Overlap of a reduce-scatter of equal blocks with computation."`

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

	NeighborAllgather   osuNeighborCmd  `cmd:"" name:"neighbor_allgather" help:"Time of an allgather among neighbours."`
	NeighborAllgatherv  osuNeighborCmd  `cmd:"" name:"neighbor_allgatherv" help:"Time of an allgather of slices among neighbours."`
	NeighborAlltoall    osuNeighborCmd  `cmd:"" name:"neighbor_alltoall" help:"Time of an alltoall among neighbours."`
	NeighborAlltoallv   osuNeighborCmd  `cmd:"" name:"neighbor_alltoallv" help:"Time of an alltoall of slices among neighbours."`
	NeighborAlltoallw   osuNeighborCmd  `cmd:"" name:"neighbor_alltoallw" help:"Time of an alltoall among neighbours, of slices anywhere in memory."`
	IneighborAllgather  osuIneighborCmd `cmd:"" name:"ineighbor_allgather" help:"Overlap of an allgather among neighbours with computation."`
	IneighborAllgatherv osuIneighborCmd `cmd:"" name:"ineighbor_allgatherv" help:"Overlap of an allgather of slices among neighbours with computation."`
	IneighborAlltoall   osuIneighborCmd `cmd:"" name:"ineighbor_alltoall" help:"Overlap of an alltoall among neighbours with computation."`
	IneighborAlltoallv  osuIneighborCmd `cmd:"" name:"ineighbor_alltoallv" help:"Overlap of an alltoall of slices among neighbours with computation."`
	IneighborAlltoallw  osuIneighborCmd `cmd:"" name:"ineighbor_alltoallw" help:"Overlap of an alltoall among neighbours, of slices anywhere in memory, with computation."`

	PutLatency    osuRemoteCmd   `cmd:"" name:"put_latency" help:"Time of a put into the other rank's memory."`
	GetLatency    osuRemoteCmd   `cmd:"" name:"get_latency" help:"Time of a get from the other rank's memory."`
	PutBw         osuRemoteBwCmd `cmd:"" name:"put_bw" help:"Throughput of windows of puts."`
	GetBw         osuRemoteBwCmd `cmd:"" name:"get_bw" help:"Throughput of windows of gets."`
	PutBibw       osuRemoteBwCmd `cmd:"" name:"put_bibw" help:"Throughput of windows of puts in both directions at once."`
	AccLatency    osuRemoteCmd   `cmd:"" name:"acc_latency" help:"Time of an accumulate."`
	GetAccLatency osuRemoteCmd   `cmd:"" name:"get_acc_latency" help:"Time of an accumulate that reads the old values."`
	FopLatency    osuAtomicCmd   `cmd:"" name:"fop_latency" help:"Time of a fetch-and-add of 8 bytes."`
	CasLatency    osuAtomicCmd   `cmd:"" name:"cas_latency" help:"Time of a compare-and-swap of 8 bytes."`

	Init osuInitCmd `cmd:"" help:"Time of start-up, from Init to the end of a first barrier."`
}

func (c *osuCommon) name(word string) { c.Bench = osu.Find(word) }

// Commands of messages.
type (
	osuPairCmd struct {
		osuOptions
		bufferOption
		memoryFlag
	}
	osuPlainCmd struct {
		osuOptions
		bufferOption
	}
	osuWindowCmd struct {
		osuOptions
		bufferOption
		memoryFlag
		windowOption
	}
	osuPlainBwCmd struct {
		osuOptions
		bufferOption
		windowOption
	}
	osuMultiBwCmd struct {
		osuOptions
		bufferOption
		memoryFlag
		windowOption
		varyOption
		pairsOption
	}
	osuMultiLatCmd struct {
		osuOptions
		bufferOption
		memoryFlag
		pairsOption
	}
	osuThreadCmd struct {
		osuOptions
		threadsOption
	}
)

// Commands of collectives.
type (
	osuCollCmd struct {
		osuOptions
		memoryOption
		fullOption
	}
	osuBcastCmd struct {
		osuCollCmd
		memoryFlag
	}
	osuPlaceCmd struct {
		osuCollCmd
		placeOption
	}
	osuRootCmd struct {
		osuCollCmd
		placeOption
		rootOption
	}
	osuNeighborCmd struct {
		osuCollCmd
		neighborsOption
	}
	osuBarrierCmd struct {
		osuCommon
		fullOption
		Sizes string `short:"m" aliases:"message-size" placeholder:"[MIN:]MAX" help:"Taken, as by OSU, and without effect: a barrier has no size."`
	}
	osuOverlapCmd struct {
		osuOptions
		memoryOption
		overlapOption
	}
	osuOverlapPlaceCmd struct {
		osuOverlapCmd
		placeOption
	}
	osuOverlapRootCmd struct {
		osuOverlapCmd
		placeOption
		rootOption
	}
	osuIneighborCmd struct {
		osuOverlapCmd
		neighborsOption
	}
	osuIbarrierCmd struct {
		osuCommon
		overlapOption
		Sizes string `short:"m" aliases:"message-size" placeholder:"[MIN:]MAX" help:"Taken, as by OSU, and without effect: a barrier has no size."`
	}
)

// Commands of one-sided operations.
type (
	osuRemoteCmd struct {
		osuOptions
		remoteOptions
	}
	osuRemoteBwCmd struct {
		osuOptions
		windowOption
		remoteOptions
	}
	osuAtomicCmd struct {
		osuCommon
		remoteOptions
		Sizes    string `short:"m" aliases:"message-size" placeholder:"[MIN:]MAX" help:"Taken, as by OSU, and without effect: there is one size, 8 bytes."`
		Validate bool   `short:"c" aliases:"validation" help:"Check every byte, in a pass of its own."`
	}
)

func (c *osuPairCmd) Run(to *call) error  { return c.run(to, c.bufferOption, c.memoryFlag) }
func (c *osuPlainCmd) Run(to *call) error { return c.run(to, c.bufferOption) }
func (c *osuWindowCmd) Run(to *call) error {
	return c.run(to, c.bufferOption, c.memoryFlag, c.windowOption)
}
func (c *osuPlainBwCmd) Run(to *call) error { return c.run(to, c.bufferOption, c.windowOption) }
func (c *osuMultiLatCmd) Run(to *call) error {
	return c.run(to, c.bufferOption, c.memoryFlag, c.pairsOption)
}

func (c *osuMultiBwCmd) Run(to *call) error {
	if c.VaryWindow && (c.Validate || c.Tail || len(c.Types) > 0) {
		return usagef("osu %s: -V has a column for each window and none for -c, -z or -T: leave them out", c.Bench.Name)
	}
	return c.run(to, c.bufferOption, c.memoryFlag, c.windowOption, c.varyOption, c.pairsOption)
}

func (c *osuThreadCmd) Run(to *call) error {
	if c.simulated() {
		return usagef("osu %s: a simulated rank is one goroutine, this one needs several: use --fabric shm", c.Bench.Name)
	}
	return c.run(to, c.threadsOption)
}

// collective measures with more options than those of all collectives.
func (c *osuCollCmd) collective(to *call, more ...osuOption) error {
	return c.run(to, append(more, c.memoryOption, c.fullOption)...)
}

func (c *osuCollCmd) Run(to *call) error     { return c.collective(to) }
func (c *osuBcastCmd) Run(to *call) error    { return c.collective(to, c.memoryFlag) }
func (c *osuPlaceCmd) Run(to *call) error    { return c.collective(to, c.placeOption) }
func (c *osuRootCmd) Run(to *call) error     { return c.collective(to, c.placeOption, c.rootOption) }
func (c *osuNeighborCmd) Run(to *call) error { return c.collective(to, c.neighborsOption) }

func (c *osuBarrierCmd) Run(to *call) error {
	return (&osuOptions{osuCommon: c.osuCommon}).run(to, c.fullOption)
}

// overlap measures with more options than those of all non-blocking collectives.
func (c *osuOverlapCmd) overlap(to *call, more ...osuOption) error {
	return c.run(to, append(more, c.memoryOption, c.overlapOption)...)
}

func (c *osuOverlapCmd) Run(to *call) error      { return c.overlap(to) }
func (c *osuOverlapPlaceCmd) Run(to *call) error { return c.overlap(to, c.placeOption) }
func (c *osuOverlapRootCmd) Run(to *call) error  { return c.overlap(to, c.placeOption, c.rootOption) }
func (c *osuIneighborCmd) Run(to *call) error    { return c.overlap(to, c.neighborsOption) }

func (c *osuIbarrierCmd) Run(to *call) error {
	return (&osuOptions{osuCommon: c.osuCommon}).run(to, c.overlapOption)
}

func (c *osuRemoteCmd) Run(to *call) error   { return c.run(to, c.remoteOptions) }
func (c *osuRemoteBwCmd) Run(to *call) error { return c.run(to, c.windowOption, c.remoteOptions) }

func (c *osuAtomicCmd) Run(to *call) error {
	return (&osuOptions{osuCommon: c.osuCommon, Validate: c.Validate}).run(to, c.remoteOptions)
}
