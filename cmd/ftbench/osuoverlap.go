package main

import "github.com/banyan-hpc/banyan/bench/osu"

// osuOverlapCmds are the non-blocking collectives.
type osuOverlapCmds struct {
	Ibarrier            osuIbarrierCmd     `cmd:"" help:"How much of a barrier a computation hides."`
	Ibcast              osuOverlapCmd      `cmd:"" help:"How much of a broadcast a computation hides."`
	Iallreduce          osuOverlapPlaceCmd `cmd:"" help:"How much of a sum over all ranks a computation hides."`
	Ireduce             osuOverlapRootCmd  `cmd:"" help:"How much of a sum that one rank gets a computation hides."`
	Igather             osuOverlapRootCmd  `cmd:"" help:"How much of a gather a computation hides."`
	Igatherv            osuOverlapRootCmd  `cmd:"" help:"How much of a gather of slices a computation hides."`
	Iscatter            osuOverlapRootCmd  `cmd:"" help:"How much of a scatter a computation hides."`
	Iscatterv           osuOverlapRootCmd  `cmd:"" help:"How much of a scatter of slices a computation hides."`
	Iallgather          osuOverlapPlaceCmd `cmd:"" help:"How much of an allgather a computation hides."`
	Iallgatherv         osuOverlapPlaceCmd `cmd:"" help:"How much of an allgather of slices a computation hides."`
	Ialltoall           osuOverlapPlaceCmd `cmd:"" help:"How much of an exchange of all with all a computation hides."`
	Ialltoallv          osuOverlapPlaceCmd `cmd:"" help:"How much of an exchange of all with all, of slices a computation hides."`
	Ialltoallw          osuOverlapPlaceCmd `cmd:"" help:"How much of an exchange of all with all, of slices anywhere in memory a computation hides."`
	IreduceScatter      osuOverlapPlaceCmd `cmd:"" name:"ireduce_scatter" help:"How much of a sum of which each rank gets a part a computation hides."`
	IreduceScatterBlock osuOverlapPlaceCmd `cmd:"" name:"ireduce_scatter_block" help:"How much of a sum of which each rank gets a block a computation hides."`
}

func newOsuOverlapCmds(common func(name string) osuOptions) osuOverlapCmds {
	of := func(name string) osuOverlapCmd { return osuOverlapCmd{osuOptions: common(name)} }
	placed := func(name string) osuOverlapPlaceCmd { return osuOverlapPlaceCmd{osuOverlapCmd: of(name)} }
	rooted := func(name string) osuOverlapRootCmd { return osuOverlapRootCmd{osuOverlapCmd: of(name)} }
	return osuOverlapCmds{
		Ibarrier:            osuIbarrierCmd{osuCommon: common("ibarrier").osuCommon},
		Ibcast:              of("ibcast"),
		Iallreduce:          placed("iallreduce"),
		Ireduce:             rooted("ireduce"),
		Igather:             rooted("igather"),
		Igatherv:            rooted("igatherv"),
		Iscatter:            rooted("iscatter"),
		Iscatterv:           rooted("iscatterv"),
		Iallgather:          placed("iallgather"),
		Iallgatherv:         placed("iallgatherv"),
		Ialltoall:           placed("ialltoall"),
		Ialltoallv:          placed("ialltoallv"),
		Ialltoallw:          placed("ialltoallw"),
		IreduceScatter:      placed("ireduce_scatter"),
		IreduceScatterBlock: placed("ireduce_scatter_block"),
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
func (c *osuOverlapCmd) Run(to *call) error { return c.overlap(to) }

// overlap measures with more options set.
func (c *osuOverlapCmd) overlap(to *call, more ...func(*osu.Options) error) error {
	o := c.Bench.Defaults
	o.Tests, o.MemoryLimit = c.Tests, c.MemLimit
	for _, set := range more {
		if err := set(&o); err != nil {
			return err
		}
	}
	return c.run(o, osuTable{full: c.Full}, to)
}

// Run measures.
func (c *osuIbarrierCmd) Run(to *call) error {
	with := osuOptions{osuCommon: c.osuCommon}
	o := c.Bench.Defaults
	o.Tests = c.Tests
	return with.run(o, osuTable{full: c.Full}, to)
}
