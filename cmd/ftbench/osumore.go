package main

// osuMoreCmds are the benchmarks of pairs with persistent requests, and those of one rank and many.
type osuMoreCmds struct {
	LatencyPersistent osuPlainCmd   `cmd:"" name:"latency_persistent" help:"One-way time of a ping-pong with persistent requests."`
	BwPersistent      osuPlainBwCmd `cmd:"" name:"bw_persistent" help:"Throughput of windows of persistent requests."`
	BibwPersistent    osuPlainBwCmd `cmd:"" name:"bibw_persistent" help:"Throughput of windows of persistent requests in both directions at once."`
	BwFanIn           osuPlainBwCmd `cmd:"" name:"bw_fan_in" help:"Throughput of windows from many ranks to one."`
	BwFanOut          osuPlainBwCmd `cmd:"" name:"bw_fan_out" help:"Throughput of windows from one rank to many."`
}

func newOsuMoreCmds(common func(name string) osuOptions) osuMoreCmds {
	bandwidth := func(name string) osuPlainBwCmd { return osuPlainBwCmd{osuOptions: common(name)} }
	return osuMoreCmds{
		LatencyPersistent: osuPlainCmd{osuOptions: common("latency_persistent")},
		BwPersistent:      bandwidth("bw_persistent"), BibwPersistent: bandwidth("bibw_persistent"),
		BwFanIn: bandwidth("bw_fan_in"), BwFanOut: bandwidth("bw_fan_out"),
	}
}

type (
	osuPlainCmd struct {
		osuOptions
		bufferOption
	}
	osuPlainBwCmd struct {
		osuOptions
		bufferOption
		windowOption
	}
)

// Run measures.
func (c *osuPlainCmd) Run(to *call) error {
	o := c.Bench.Defaults
	o.Multiple = c.multiple()
	return c.run(o, osuTable{}, to)
}

// Run measures.
func (c *osuPlainBwCmd) Run(to *call) error {
	o := c.Bench.Defaults
	c.window(&o)
	o.Multiple = c.multiple()
	return c.run(o, osuTable{}, to)
}
