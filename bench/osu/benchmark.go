package osu

import (
	"cmp"
	"fmt"
	"time"

	"github.com/banyan-hpc/banyan"
)

// Benchmark is one of the OSU micro-benchmarks.
type Benchmark struct {
	// Name is that of OSU's program without "osu_".
	Name string
	// Defaults are OSU's options.
	Defaults Options
	// Windowed: Options.Window means something. Multi: any even number of ranks and Options.Pairs.
	// Collective: any number of ranks. The others need two ranks. Threaded: Options.Senders and
	// Receivers; it starts goroutines, which a simulation does not order. OneSided: a window of two
	// ranks, Options.Creation and Sync. Fan: any number of ranks from two on, as many on each node.
	Windowed, Multi, Collective, Threaded, OneSided, Fan bool

	pass   func(o *Options) pass // of a benchmark that is not Collective
	op     operation             // of a Collective one
	access *access               // of a OneSided one
	active bool                  // the target must take part
	in     bool                  // of a Fan: one rank receives
}

// All has the benchmarks in the order in which they are presented.
var All = []*Benchmark{
	{Name: "latency", Defaults: latencyDefaults, pass: latencyPass},
	{Name: "bw", Defaults: bandwidthDefaults, Windowed: true, pass: bandwidthPass},
	{Name: "bibw", Defaults: bandwidthDefaults, Windowed: true, pass: bothWaysPass},
	{Name: "mbw_mr", Defaults: bandwidthDefaults, Windowed: true, Multi: true, pass: bandwidthPass},
	{Name: "multi_lat", Defaults: latencyDefaults, Multi: true, pass: latencyPass},
	{Name: "latency_persistent", Defaults: latencyDefaults.prepared(), pass: latencyPass},
	{Name: "bw_persistent", Defaults: bandwidthDefaults.prepared(), Windowed: true, pass: bandwidthPass},
	{Name: "bibw_persistent", Defaults: bandwidthDefaults.prepared(), Windowed: true, pass: bothWaysPass},
	{Name: "bw_fan_in", Defaults: bandwidthDefaults, Windowed: true, Fan: true, in: true, pass: fanPass},
	{Name: "bw_fan_out", Defaults: bandwidthDefaults, Windowed: true, Fan: true, pass: fanPass},
	{Name: "latency_mt", Defaults: threadDefaults, Threaded: true, pass: threadPass},
	sizeless("barrier", barrierOp),
	moving("bcast", bcastOp),
	adding("allreduce", allreduceOp),
	adding("reduce", reduceOp),
	moving("gather", gatherOp),
	moving("scatter", scatterOp),
	moving("allgather", allgatherOp),
	moving("alltoall", alltoallOp),
	moving("allgatherv", allgathervOp),
	moving("gatherv", gathervOp),
	moving("scatterv", scattervOp),
	moving("alltoallv", alltoallvOp),
	moving("alltoallw", alltoallvOp),
	adding("reduce_scatter", reduceScatterOp),
	adding("reduce_scatter_block", reduceScatterBlockOp),
	adding("scan", scanOp),
	adding("exscan", exscanOp),
	sizeless("ibarrier", ibarrierOp),
	moving("ibcast", ibcastOp),
	adding("iallreduce", iallreduceOp),
	adding("ireduce", ireduceOp),
	moving("igather", igatherOp),
	moving("igatherv", igathervOp),
	moving("iscatter", iscatterOp),
	moving("iscatterv", iscattervOp),
	moving("iallgather", iallgatherOp),
	moving("iallgatherv", iallgathervOp),
	moving("ialltoall", ialltoallOp),
	moving("ialltoallv", ialltoallvOp),
	moving("ialltoallw", ialltoallvOp),
	adding("ireduce_scatter", ireduceScatterOp),
	adding("ireduce_scatter_block", ireduceScatterBlockOp),
	nearby("neighbor_allgather", neighborAllgatherOp),
	nearby("neighbor_allgatherv", neighborAllgathervOp),
	nearby("neighbor_alltoall", neighborAlltoallOp),
	nearby("neighbor_alltoallv", neighborAlltoallvOp),
	nearby("neighbor_alltoallw", neighborAlltoallvOp),
	nearby("ineighbor_allgather", ineighborAllgatherOp),
	nearby("ineighbor_allgatherv", ineighborAllgathervOp),
	nearby("ineighbor_alltoall", ineighborAlltoallOp),
	nearby("ineighbor_alltoallv", ineighborAlltoallvOp),
	nearby("ineighbor_alltoallw", ineighborAlltoallvOp),
	sizeless("barrier_persistent", ibarrierOp.repeated()),
	moving("bcast_persistent", ibcastOp.repeated()),
	adding("allreduce_persistent", iallreduceOp.repeated()),
	adding("reduce_persistent", ireduceOp.repeated()),
	moving("gather_persistent", igatherOp.repeated()),
	moving("gatherv_persistent", igathervOp.repeated()),
	moving("scatter_persistent", iscatterOp.repeated()),
	moving("scatterv_persistent", iscattervOp.repeated()),
	moving("allgather_persistent", iallgatherOp.repeated()),
	moving("allgatherv_persistent", iallgathervOp.repeated()),
	moving("alltoall_persistent", ialltoallOp.repeated()),
	moving("alltoallv_persistent", ialltoallvOp.repeated()),
	adding("reduce_scatter_persistent", ireduceScatterOp.repeated()),
	adding("reduce_scatter_block_persistent", ireduceScatterBlockOp.repeated()),
	oneSided("put_latency", remoteLatency, &putAccess, putAccess.latency),
	oneSided("get_latency", remoteLatency, &getAccess, getAccess.latency),
	oneSided("put_bw", remoteBandwidth, &putAccess, putAccess.bandwidth),
	oneSided("get_bw", remoteBandwidth, &getAccess, getAccess.bandwidth),
	oneSided("put_bibw", remoteBothWays, &putAccess, putAccess.bothWays),
	oneSided("acc_latency", remoteLatency, &accAccess, accAccess.latency),
	oneSided("get_acc_latency", remoteLatency, &getAccAccess, getAccAccess.latency),
	oneSided("fop_latency", atomicLatency, &fopAccess, fopAccess.latency),
	oneSided("cas_latency", atomicLatency, &casAccess, casAccess.latency),
}

// The collectives: without data, of bytes, among neighbours, and of numbers.
func sizeless(name string, op operation) *Benchmark { return collective(name, barrierDefaults, op) }
func moving(name string, op operation) *Benchmark   { return collective(name, bcastDefaults, op) }
func nearby(name string, op operation) *Benchmark {
	return collective(name, bcastDefaults.among(Grid{1, 1}), op)
}
func adding(name string, op operation) *Benchmark { return collective(name, allreduceDefaults, op) }

func collective(name string, defaults Options, op operation) *Benchmark {
	return &Benchmark{Name: name, Defaults: defaults, Collective: true, op: op}
}

func oneSided(name string, defaults Options, a *access, pass func(o *Options) pass) *Benchmark {
	return &Benchmark{Name: name, Defaults: defaults, Windowed: defaults.Window > 0, OneSided: true, pass: pass,
		access: a, active: defaults.Sync.active()}
}

// Find returns the benchmark of that name, or nil.
func Find(name string) *Benchmark {
	for _, b := range All {
		if b.Name == name {
			return b
		}
	}
	return nil
}

// pass is a benchmark's use of a Pair. An iteration is the part between two reads of the clock when
// each is timed alone: a round trip or a window.
type pass struct {
	// run does n iterations and returns how long they took on this rank, 0 on those that have no
	// time.
	run func(p *Pair, size, n int) (time.Duration, error)
	// singles does n iterations and returns how long each took, nil on ranks that have no time.
	singles func(p *Pair, size, n int) ([]time.Duration, error)
	// check does perCheck iterations with a pattern and counts the bytes that arrived wrong here.
	check    func(p *Pair, size int, round byte) (wrong int, err error)
	perCheck int
	// count is the number of messages of an iteration that follow each other, and abreast the
	// number of iterations that a pair does at the same time.
	count   int
	abreast int
	// total: the messages of all pairs count together, and their time is the longest; else the time
	// is the mean of the pairs'.
	total bool
}

func latencyPass(*Options) pass {
	return pass{
		run:      (*Pair).Latency,
		singles:  oneByOne(func(p *Pair, size int) error { return p.pingPong(p.sbuf[:size], p.rbuf[:size], 1) }),
		check:    (*Pair).checkPingPong,
		count:    2,
		abreast:  1,
		perCheck: 1,
	}
}

func bandwidthPass(o *Options) pass {
	return pass{
		run: func(p *Pair, size, n int) (time.Duration, error) { return p.Bandwidth(size, o.Window, n) },
		singles: oneByOne(func(p *Pair, size int) error {
			return p.windows(p.sbuf[:size], p.rbuf[:size],
				p.reqs[:o.Window], 1)
		}),
		check:    (*Pair).checkWindow,
		count:    o.Window,
		abreast:  1,
		perCheck: 1,
		total:    true,
	}
}

// bothWaysPass: the messages of both directions count.
func bothWaysPass(o *Options) pass {
	windows := func(p *Pair, size, n int) error {
		return p.bothWindows(p.sbuf[:size], p.rbuf[:size], p.reqs[:2*o.Window], n)
	}
	return pass{
		run: func(p *Pair, size, n int) (time.Duration, error) {
			return p.timed(func() error { return windows(p, size, n) })
		},
		singles:  oneByOne(func(p *Pair, size int) error { return windows(p, size, 1) }),
		check:    (*Pair).checkBothWindows,
		count:    2 * o.Window,
		abreast:  1,
		perCheck: 1,
		total:    true,
	}
}

// Check reports the reason for which a run with so many ranks is impossible, and the remedy.
func (b *Benchmark) Check(ranks int, o Options) error {
	for _, err := range []error{o.check(), b.checkKind(&o), b.checkWindow(&o)} {
		if err != nil {
			return fmt.Errorf("osu %s: %w", b.Name, err)
		}
	}
	bounded, _ := b.Bounded(max(1, ranks), o)
	switch {
	case bounded.Max < o.first(b.unit(&o)) && bounded.Max < o.Max:
		return fmt.Errorf("osu %s: a memory limit of %d bytes for %d ranks: not even messages of %d bytes fit: raise it (-M)",
			b.Name, o.MemoryLimit, ranks, o.first(b.unit(&o)))
	case b.op.rooted && ranks > 1 && o.Root.Rank >= ranks:
		return fmt.Errorf("osu %s: the root is rank %d, and the job has %d ranks: choose another one", b.Name, o.Root.Rank,
			ranks)
	case (b.Collective || b.Fan) && ranks < 2:
		return fmt.Errorf("osu %s: the job has %d ranks, at least 2 are needed: start it with -n 2", b.Name, ranks)
	case b.Collective || b.Fan:
		return nil
	case !b.Multi && ranks != 2:
		return fmt.Errorf("osu %s: the job has %d ranks, exactly 2 are needed: start it with -n 2", b.Name, ranks)
	case !b.Multi:
		return nil
	case ranks < 2:
		return fmt.Errorf("osu %s: the job has %d ranks, at least 2 are needed: start it with -n 2", b.Name, ranks)
	case o.Pairs == 0 && ranks%2 != 0:
		return fmt.Errorf("osu %s: the job has %d ranks, an even number is needed for pairs: start it with -n %d, or "+
			"leave ranks out with --pairs",
			b.Name, ranks, ranks+1)
	case 2*o.Pairs > ranks:
		return fmt.Errorf("osu %s: the job has %d ranks, %d are needed for %d pairs: start it with -n %d", b.Name,
			ranks, 2*o.Pairs, o.Pairs, 2*o.Pairs)
	}
	return nil
}

// Pairs returns how many pairs measure in a job of so many ranks that Check finds right.
func (b *Benchmark) Pairs(ranks int, o Options) int {
	if b.Multi && o.Pairs > 0 {
		return o.Pairs
	}
	return ranks / 2
}

// Bounded returns the options without the sizes of which a collective's longest buffer, that of all ranks' blocks
// where it has one, would be over the memory limit of a rank, and whether there are any. A limit below 1 MiB
// counts as that, as in OSU.
func (b *Benchmark) Bounded(ranks int, o Options) (_ Options, lowered bool) {
	if !b.Collective || b.op.unit == 0 || o.MemoryLimit == 0 {
		return o, false
	}
	largest := max(o.MemoryLimit, leastMemory)
	if b.op.each {
		if b.op.around {
			ranks = o.Grid.degree()
		}
		largest /= ranks
	}
	lowered = o.Max > largest
	o.Max = min(o.Max, largest)
	return o, lowered
}

// Rows returns how many points a run emits.
func (b *Benchmark) Rows(o Options) int {
	if b.Collective && b.op.unit == 0 {
		return 1
	}
	rows := 0
	for size := o.first(b.unit(&o)); size <= o.Max; size = next(size) {
		rows++
	}
	return rows * max(1, len(o.Windows))
}

// Run measures each size. All ranks of w call it with the same options. emit is called on rank 0
// after each size and window, and its error ends the run on rank 0 with that error. Ranks that
// belong to no pair return at once.
//
// Errors: options or a job that do not fit, a message that failed, and validation ([*CorruptError])
// after the size has been emitted. A sweep that the bound of its time has cut short is a
// [*CutError], on all ranks that measure.
func (b *Benchmark) Run(w *banyan.World, o Options, emit func(Point) error) error {
	if err := b.Check(w.Comm().Size(), o); err != nil {
		return err
	}
	if b.Collective {
		g := newGroup(w, &o, b.op)
		if err := g.open(&o); err != nil {
			return err
		}
		return cmp.Or(g.sweep(&o, emit), g.free(&o))
	}
	pairs := b.Pairs(w.Comm().Size(), o)
	if w.Comm().Rank() >= 2*pairs && !b.Fan {
		return nil
	}
	for _, window := range o.Windows {
		o.Window = max(o.Window, window)
	}
	s := sweep{o: &o, bound: bound{o: &o}}
	open := func() (*Pair, error) { return newPair(w, pairs, &o) }
	switch {
	case b.Fan:
		open = func() (*Pair, error) { return openFan(w, &o, b.in) }
	case b.OneSided:
		open = func() (*Pair, error) { return openRemote(w, &o, b.access) }
	}
	var err error
	if s.Pair, err = open(); err != nil {
		return fmt.Errorf("osu %s: open: %w", b.Name, err)
	}
	for _, window := range o.windows() {
		o := o
		o.Window = window
		s.passes = append(s.passes, b.pass(&o))
	}
	err = s.all(emit)
	if b.OneSided {
		return s.closeRemote(err)
	}
	return cmp.Or(err, s.free(&o))
}
