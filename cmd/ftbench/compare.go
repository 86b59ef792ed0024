package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/banyan-hpc/banyan/bench/compare/suite"
	"github.com/banyan-hpc/banyan/bench/figure"
	"github.com/banyan-hpc/banyan/bench/progressbar"
	"github.com/banyan-hpc/banyan/bench/report"
	"github.com/banyan-hpc/banyan/bench/table"
)

type compareCmd struct {
	Only    []string      `enum:"latency,bw,aware,netpipe,match,startup,coll,crowd,hosts,many,ulfm,rma,memory,verbs,tcp,unix,unauthenticated,strangers" default:"latency,bw,aware,netpipe,match,startup,coll,crowd,rma,tcp,unauthenticated" placeholder:"GROUPS" help:"Groups of measures: ${enum}. Default: ${default}."`
	Pairs   int           `default:"9" help:"Pairs below which nothing is decided."`
	MaxTime time.Duration `default:"2m" help:"Budget for each measure. A measure without a decision by then is undecided; a round under way is dropped, except the first."`
	quickFlag
	Sample      time.Duration `default:"40ms" help:"Duration of one sample."`
	Sizes       string        `placeholder:"MIN:MAX" help:"netpipe, memory, tcp, unix: only the runs that measure these sizes, in bytes; for a quicker answer."`
	Entries     []int         `default:"10,100,1000,10000" placeholder:"N" help:"match: lengths of the queue. Default: ${default}."`
	Ranks       int           `short:"n" type:"ranks" default:"64" help:"startup: ranks of the job. Default: ${default}."`
	CrowdRanks  []int         `default:"16,64" placeholder:"RANKS" help:"crowd: numbers of ranks. Default: ${default}."`
	Collectives []string      `placeholder:"NAMES" help:"coll, crowd: collectives, as ftbench osu names them, or all. Default of coll: barrier, bcast, allreduce."`
	Seek        bool          `default:"true" negatable:"" help:"Continue until near and far cores are decided, within the time; --no-seek: measure only the distances that occur."`
	ManyRanks   []int         `default:"16,32" placeholder:"RANKS" help:"many: numbers of ranks. Default: ${default}."`
	ManySizes   []int         `default:"8,4096,65536" placeholder:"BYTES" help:"many: sizes of the messages. Default: ${default}."`
	OSU         string        `name:"osu" placeholder:"DIR" help:"coll, crowd: compare ftbench osu with OSU's own programs, which you have built in DIR/openmpi and DIR/mpich with the compilers of these."`
	ULFM        string        `name:"ulfm" placeholder:"DIR" help:"ulfm: directory with the mpicc and mpiexec of an Open MPI 5 or later. Default: Debian's Open MPI."`
	Plot        string        `placeholder:"FILE" help:"netpipe, memory, tcp, unix, match: draw the curves of all; .svg or .png."`
	JSON        string        `placeholder:"FILE" default:"results/compare.json" help:"Store all samples, ratios and the environment; -: print them, and the tables on standard error. Default: ${default}."`
}

const compareExamples = `

Examples:
  ftbench compare
  ftbench compare --only latency --max-time 30s
  ftbench compare --only aware --max-time 10m --json results/aware.json
  ftbench compare --only netpipe --max-time 10m --plot results/netpipe-peers.svg
  ftbench compare --only netpipe --sizes 65536:1048576 --sample 20ms
  ftbench compare --only tcp --sizes 1:8388608 --plot results/tcp.svg
  ftbench compare --only match --entries 10,1000,100000
  ftbench compare --only startup -n 128
  ftbench compare --only rma --max-time 30s
  ftbench compare --only verbs
  ftbench compare --only many --many-ranks 16 --many-sizes 8,65536
  ftbench compare --only crowd --crowd-ranks 65,128
  ftbench compare --only hosts
  ftbench compare --only coll --collectives all --max-time 5m
  ftbench compare --only crowd --crowd-ranks 8 --collectives bcast,gather
  ftbench compare --only coll --collectives scatter --osu ~/osu-7.4
  ftbench compare --only ulfm --ulfm /opt/openmpi-5/bin`

// Help explains the method.
func (compareCmd) Help() string {
	return `Banyan and each peer that is installed are sampled in turn on the same two CPUs, with
a bare cache-line ping-pong before and after each sample. A sample around which that
control changed is dropped, but in group verbs; near and far cores (the host moves them)
have results of their own. Printed is the median of the paired ratios with its 95 %
interval, and whether the bounds of docs/status.md are met. A measure ends when its
interval's half-width is 3 % (0.3 % for aware against unaware, 10 % for rma) on near
cores and on far ones, which the host moves by itself, or its time is spent; with
--no-seek, and in group verbs, on those that were met.

Groups:
  latency, bw  8-byte latency, and bandwidth of six sizes with a window of 64
  aware        what fault awareness costs: Banyan's two engines
  netpipe      Banyan's NetPIPE beside NPopenmpi and NPmpich2: 46 sizes up to
               8 MiB. Runs of few sizes, all with the same -l -u -n and -p 0,
               best of 3 trials
  memory       the same from registered memory, 16 KiB and more; by request only
  tcp, unix    the same over TCP loopback or Unix sockets (BANYAN_FABRIC),
               beside NPtcp and NPopenmpi over TCP: 1 byte, and 64 KiB to
               8 MiB. That the messages of tcp are TCP segments is checked.
               unix has no bounds
  unauthenticated
               8-byte latency over TCP with 1000 unauthenticated connections a
               second to a rank's port over that without; none may be admitted
               (also: strangers)
  match        time of a match with the last of many posted or unexpected
               entries
  startup      from the launcher's start until the last of -n ranks has passed
               a first barrier (CLOCK_MONOTONIC); ftbench run, and mpiexec with
               a C program
  coll, crowd  barrier, broadcast and sum over all, or --collectives, of 2 ranks
               and of --crowd-ranks on these cores: 8 bytes to 1 MiB, in
               buffers that are written once, and written again before each
               call. Each sample starts a job; mean over calls and ranks, and
               the longest call. Without --collectives crowd has one size.
               --osu: OSU's own programs beside ftbench osu, in their buffers
  hosts        barrier, broadcast and sum of 8 ranks on each of 2 and 4 network
               namespaces, beside Open MPI in namespaces of the same kind: ranks
               of one share memory, TCP joins them. By request only; it needs
               the privileges of ftbench run --netns
  rma          put, get and fetch-and-add of 8 bytes on the memory of the other
               rank, each with a flush; bandwidth of puts of 1 MiB, with a
               window of 64; locks, shared and exclusive, that nobody else has.
               The peers' windows are made by MPI_Win_allocate
  verbs        over an RDMA adapter, beside perftest through the same port: 8-byte
               latency; put of 8 bytes and flush over ib_write_lat, which is
               half of a ping-pong, and over a write with its completion (-t 1);
               get; bandwidth of 64 KiB and 1 MiB of registered memory, window
               8; by request only
  many         messages from each of 16 and 32 ranks to all others: the first
               ones in a fresh job (first contact), the second ones, later
               ones; shared memory of the node (ftbench many); by request only
  ulfm         agree, shrink and revoke of 4 to 32 ranks without a failure,
               beside Open MPI 5 with its fault tolerance, for which see
               --ulfm, and processes of bare C that take turns; in jobs too.
               Not among the default groups

Exit code 3: a bound is missed. Peers that lack are named with what installs them,
and those that do not start with what they say; the others are compared.` + compareExamples
}

// Run compares.
func (c *compareCmd) Run(to *call) error {
	o, err := c.prepare()
	if err != nil {
		return usage(err)
	}
	if err := checkFiles(c.JSON, c.Plot); err != nil {
		return err
	}
	ctx, stop := interruptible()
	defer stop()
	file := report.Begin("compare")
	words := to.words(c.JSON)
	all, err := suite.Open(ctx, o)
	if err != nil {
		return orInterrupt(ctx, err)
	}
	announce(to.err, "compare", time.Duration(all.Measures())*c.MaxTime/2, 0)
	if err := table.Printf(words.out, "%s\n", all.Describe()); err != nil {
		return errors.Join(err, all.Close())
	}
	bar := progressbar.Start(to.err, "compare", 0)
	results, err := all.Run(ctx, bar.Over(words.out), bar.Note)
	bar.Stop()
	err = orInterrupt(ctx, err)
	if stored := to.store(file, c.JSON, results); stored == nil {
		fmt.Fprint(words.out, named("all samples:", c.JSON)) // also of a run that was cut short
	} else {
		err = errors.Join(err, stored)
	}
	if err = errors.Join(err, all.Close()); err != nil {
		return err
	}
	if err := c.draw(file, results, words); err != nil {
		return err
	}
	if results.Missed() {
		return exitCode(exitMissed)
	}
	return nil
}

// prepare checks the options before anything is measured.
func (c *compareCmd) prepare() (o suite.Options, err error) {
	for i, group := range c.Only {
		if group == "strangers" { // its former name
			c.Only[i] = "unauthenticated"
		}
	}
	if slices.Equal(c.Collectives, []string{"all"}) {
		c.Collectives = suite.Collectives
	}
	c.shorter(&c.MaxTime, 3*time.Second)
	c.shorter(&c.Sample, 10*time.Millisecond)
	c.atMost(&c.Ranks, 16)
	o = suite.Options{
		Groups: c.Only, Pairs: c.Pairs, MaxTime: c.MaxTime, Sample: c.Sample, Entries: c.Entries, Ranks: c.Ranks,
		Collectives: c.Collectives, NoSeek: !c.Seek, OSU: c.OSU, ULFM: c.ULFM, ManyRanks: c.ManyRanks, ManySizes: c.ManySizes, CrowdRanks: c.CrowdRanks,
	}
	if c.Sizes != "" {
		o.Sizes = suite.SizeRange{Low: 1, High: suite.LargestSize}
		if err := parseSizes(c.Sizes, &o.Sizes.Low, &o.Sizes.High); err != nil {
			return o, err
		}
	}
	if err := o.Check(); err != nil || c.Plot == "" {
		return o, err
	}
	if !slices.ContainsFunc(c.Only, suite.Plots) {
		return o, errors.New("compare: --plot draws the curves of netpipe, tcp, unix and match, and none of them is " +
			"asked for")
	}
	return o, figure.Check(c.Plot)
}

// draw makes the picture, where one is asked for. A run without curves has not failed.
func (c *compareCmd) draw(file *report.File, r *suite.Results, to *call) error {
	if c.Plot == "" {
		return nil
	}
	charts := r.Charts()
	if len(charts) == 0 {
		_, err := fmt.Fprintln(to.out, "curves: none, as no sample was kept: give it more --max-time")
		return err
	}
	if err := figure.Save(c.Plot, figure.WithSource(file.Source, charts...)...); err != nil {
		return err
	}
	_, err := fmt.Fprint(to.out, named("curves:", c.Plot))
	return err
}
