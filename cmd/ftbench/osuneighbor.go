package main

import "github.com/banyan-hpc/banyan/bench/osu"

// osuNeighborCmds are the collectives among neighbours.
type osuNeighborCmds struct {
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
}

func newOsuNeighborCmds(common func(name string) osuOptions) osuNeighborCmds {
	of := func(name string) osuNeighborCmd {
		return osuNeighborCmd{osuCollCmd: osuCollCmd{osuOptions: common(name)}}
	}
	beside := func(name string) osuIneighborCmd {
		return osuIneighborCmd{osuOverlapCmd: osuOverlapCmd{osuOptions: common(name)}}
	}
	return osuNeighborCmds{
		NeighborAllgather:   of("neighbor_allgather"),
		NeighborAllgatherv:  of("neighbor_allgatherv"),
		NeighborAlltoall:    of("neighbor_alltoall"),
		NeighborAlltoallv:   of("neighbor_alltoallv"),
		NeighborAlltoallw:   of("neighbor_alltoallw"),
		IneighborAllgather:  beside("ineighbor_allgather"),
		IneighborAllgatherv: beside("ineighbor_allgatherv"),
		IneighborAlltoall:   beside("ineighbor_alltoall"),
		IneighborAlltoallv:  beside("ineighbor_alltoallv"),
		IneighborAlltoallw:  beside("ineighbor_alltoallw"),
	}
}

type (
	osuNeighborCmd struct {
		osuCollCmd
		neighborsOption
	}
	osuIneighborCmd struct {
		osuOverlapCmd
		neighborsOption
	}
	neighborsOption struct {
		Neighborhood string `short:"N" default:"cart:1:1" placeholder:"cart:DIMENSIONS:RADIUS" help:"The ranks lie in a periodic grid; the neighbours of each are those up to RADIUS away along each dimension, in both directions. Default: ${default}."`
	}
)

// Run measures.
func (c *osuNeighborCmd) Run(to *call) (err error) {
	o := c.Bench.Defaults
	o.MemoryLimit = c.MemLimit
	if o.Grid, err = osu.ParseGrid(c.Neighborhood); err != nil {
		return usage(err)
	}
	return c.run(o, osuTable{full: c.Full}, to)
}

// Run measures.
func (c *osuIneighborCmd) Run(to *call) (err error) {
	o := c.Bench.Defaults
	o.Tests, o.MemoryLimit = c.Tests, c.MemLimit
	if o.Grid, err = osu.ParseGrid(c.Neighborhood); err != nil {
		return usage(err)
	}
	return c.run(o, osuTable{full: c.Full}, to)
}
