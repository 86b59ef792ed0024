package main

// osuOverlapCmds are the non-blocking collectives.
type osuOverlapCmds struct {
	Ibarrier            osuIbarrierCmd `cmd:"" help:"How much of a barrier a computation hides."`
	Ibcast              osuOverlapCmd  `cmd:"" help:"How much of a broadcast a computation hides."`
	Iallreduce          osuOverlapCmd  `cmd:"" help:"How much of a sum over all ranks a computation hides."`
	Ireduce             osuOverlapCmd  `cmd:"" help:"How much of a sum that one rank gets a computation hides."`
	Igather             osuOverlapCmd  `cmd:"" help:"How much of a gather a computation hides."`
	Igatherv            osuOverlapCmd  `cmd:"" help:"How much of a gather of slices a computation hides."`
	Iscatter            osuOverlapCmd  `cmd:"" help:"How much of a scatter a computation hides."`
	Iscatterv           osuOverlapCmd  `cmd:"" help:"How much of a scatter of slices a computation hides."`
	Iallgather          osuOverlapCmd  `cmd:"" help:"How much of an allgather a computation hides."`
	Iallgatherv         osuOverlapCmd  `cmd:"" help:"How much of an allgather of slices a computation hides."`
	Ialltoall           osuOverlapCmd  `cmd:"" help:"How much of an exchange of all with all a computation hides."`
	Ialltoallv          osuOverlapCmd  `cmd:"" help:"How much of an exchange of all with all, of slices a computation hides."`
	Ialltoallw          osuOverlapCmd  `cmd:"" help:"How much of an exchange of all with all, of slices anywhere in memory a computation hides."`
	IreduceScatter      osuOverlapCmd  `cmd:"" name:"ireduce_scatter" help:"How much of a sum of which each rank gets a part a computation hides."`
	IreduceScatterBlock osuOverlapCmd  `cmd:"" name:"ireduce_scatter_block" help:"How much of a sum of which each rank gets a block a computation hides."`
}

func newOsuOverlapCmds(common func(name string) osuOptions) osuOverlapCmds {
	of := func(name string) osuOverlapCmd { return osuOverlapCmd{osuOptions: common(name)} }
	return osuOverlapCmds{
		Ibarrier:            osuIbarrierCmd{osuCommon: common("ibarrier").osuCommon},
		Ibcast:              of("ibcast"),
		Iallreduce:          of("iallreduce"),
		Ireduce:             of("ireduce"),
		Igather:             of("igather"),
		Igatherv:            of("igatherv"),
		Iscatter:            of("iscatter"),
		Iscatterv:           of("iscatterv"),
		Iallgather:          of("iallgather"),
		Iallgatherv:         of("iallgatherv"),
		Ialltoall:           of("ialltoall"),
		Ialltoallv:          of("ialltoallv"),
		Ialltoallw:          of("ialltoallw"),
		IreduceScatter:      of("ireduce_scatter"),
		IreduceScatterBlock: of("ireduce_scatter_block"),
	}
}

type (
	osuOverlapCmd struct {
		osuOptions
		memoryOption
		overlapOption
	}
	osuIbarrierCmd struct {
		osuCommon
		overlapOption
		Sizes string `short:"m" aliases:"message-size" placeholder:"[MIN:]MAX" help:"Taken, as by OSU, and without effect: a barrier has no size."`
	}
	overlapOption struct {
		Full  bool `short:"f" help:"Add columns with the parts of the time, and the least and the most of the ranks' means of the communication alone."`
		Tests int  `short:"t" name:"num-test-calls" placeholder:"CALLS" help:"Test the request so often during the computation. Default: 0."`
	}
)

// Run measures.
func (c *osuOverlapCmd) Run(to *call) error {
	o := c.Bench.Defaults
	o.Tests, o.MemoryLimit = c.Tests, c.MemLimit
	return c.run(o, osuTable{full: c.Full}, to)
}

// Run measures.
func (c *osuIbarrierCmd) Run(to *call) error {
	with := osuOptions{osuCommon: c.osuCommon}
	o := c.Bench.Defaults
	o.Tests = c.Tests
	return with.run(o, osuTable{full: c.Full}, to)
}
