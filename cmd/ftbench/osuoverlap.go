package main

import "github.com/banyan-hpc/banyan/bench/osu"

// osuOverlapCmds are the non-blocking collectives.
type osuOverlapCmds struct {
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
