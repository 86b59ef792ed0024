package main

import "github.com/banyan-hpc/banyan/bench/osu"

// osuRemoteCmds are the one-sided benchmarks.
type osuRemoteCmds struct {
	PutLatency    osuRemoteCmd   `cmd:"" name:"put_latency" help:"Time of a put into the other rank's memory."`
	GetLatency    osuRemoteCmd   `cmd:"" name:"get_latency" help:"Time of a get from the other rank's memory."`
	PutBw         osuRemoteBwCmd `cmd:"" name:"put_bw" help:"Throughput of windows of puts."`
	GetBw         osuRemoteBwCmd `cmd:"" name:"get_bw" help:"Throughput of windows of gets."`
	PutBibw       osuRemoteBwCmd `cmd:"" name:"put_bibw" help:"Throughput of windows of puts in both directions at once."`
	AccLatency    osuRemoteCmd   `cmd:"" name:"acc_latency" help:"Time of an accumulate."`
	GetAccLatency osuRemoteCmd   `cmd:"" name:"get_acc_latency" help:"Time of an accumulate that reads the old values."`
	FopLatency    osuAtomicCmd   `cmd:"" name:"fop_latency" help:"Time of a fetch-and-add of 8 bytes."`
	CasLatency    osuAtomicCmd   `cmd:"" name:"cas_latency" help:"Time of a compare-and-swap of 8 bytes."`
}

func newOsuRemoteCmds(common func(name string) osuOptions) osuRemoteCmds {
	latency := func(name string) osuRemoteCmd { return osuRemoteCmd{osuOptions: common(name)} }
	bandwidth := func(name string) osuRemoteBwCmd { return osuRemoteBwCmd{osuOptions: common(name)} }
	atomic := func(name string) osuAtomicCmd { return osuAtomicCmd{osuCommon: common(name).osuCommon} }
	return osuRemoteCmds{
		PutLatency: latency("put_latency"), GetLatency: latency("get_latency"),
		PutBw: bandwidth("put_bw"), GetBw: bandwidth("get_bw"), PutBibw: bandwidth("put_bibw"),
		AccLatency: latency("acc_latency"), GetAccLatency: latency("get_acc_latency"),
		FopLatency: atomic("fop_latency"), CasLatency: atomic("cas_latency"),
	}
}

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

// remoteOptions are those of windows.
type remoteOptions struct {
	Creation windowKind `name:"win-option" short:"w" placeholder:"KIND" help:"Memory of the window: allocate, by the library, or create, the program's. Default: allocate."`
	Sync     windowSync `name:"sync-option" short:"s" placeholder:"KIND" help:"flush; lock, lock_all: a lock for each iteration; pscw (start, complete, post and wait), fence: the other rank calls too. Default: flush, of put_bibw pscw."`
}

// windowKind and windowSync are words that osu.Benchmark.Check validates.
type (
	windowKind osu.Creation
	windowSync osu.Synchronization
)

// choices are for the shell.
func (windowKind) choices() []string { return wordsOfOSU(osu.Creations) }

// choices are for the shell.
func (windowSync) choices() []string { return wordsOfOSU(osu.Synchronizations) }

func wordsOfOSU[T ~string](all []T) (words []string) {
	for _, w := range all {
		words = append(words, string(w))
	}
	return words
}

// remote sets the options that were given.
func (c remoteOptions) remote(o *osu.Options) {
	if c.Creation != "" {
		o.Creation = osu.Creation(c.Creation)
	}
	if c.Sync != "" {
		o.Sync = osu.Synchronization(c.Sync)
	}
}

// Run measures.
func (c *osuRemoteCmd) Run(to *call) error {
	o := c.Bench.Defaults
	c.remote(&o)
	return c.run(o, osuTable{}, to)
}

// Run measures.
func (c *osuRemoteBwCmd) Run(to *call) error {
	o := c.Bench.Defaults
	c.window(&o)
	c.remote(&o)
	return c.run(o, osuTable{}, to)
}

// Run measures.
func (c *osuAtomicCmd) Run(to *call) error {
	with := osuOptions{osuCommon: c.osuCommon, Validate: c.Validate}
	o := c.Bench.Defaults
	c.remote(&o)
	return with.run(o, osuTable{}, to)
}
