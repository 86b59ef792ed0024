package settings

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"

	"github.com/banyan-hpc/banyan/coll/tree"
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/shm"
	"github.com/banyan-hpc/banyan/fabric/tcp"
	"github.com/banyan-hpc/banyan/ft/control"
	"github.com/banyan-hpc/banyan/ft/detect"
	"github.com/banyan-hpc/banyan/p2p"
)

// ID names a knob.
type ID int

// The knobs, in the order in which they are shown.
const (
	Eager ID = iota
	EagerNear
	EagerFar
	EagerReply
	RingLines
	RingBytes
	KernelCopy
	TCPEager
	TCPReply
	TCPOutbox
	TCPHeal
	Unexpected
	MemoryLimit
	Spins
	Yields
	Async
	Flat
	Detect
	DetectPeriod
	DetectTimeout
	DetectPartition
	Errors
	CollDesign
	CollTree
	CollAlgorithms
	Debug
	numKnobs
)

// Unit is the unit of a knob's numbers.
type Unit string

// The units. A switch is 0 or 1, written off and on; milliseconds are written with
// their unit, as 500ms, 30s or 2m; a word is the number of its place in Knob.Words. A file has a name and no number, see
// Set.File.
const (
	Bytes  Unit = "bytes"
	Lines  Unit = "cache lines"
	Polls  Unit = "polls"
	Millis Unit = "milliseconds"
	Switch Unit = "on or off"
	Word   Unit = "a word"
	Path   Unit = "a file"
)

// Auto is the value of a knob whose number the library chooses. No caller passes it by mistake.
const Auto = math.MinInt32

// Knob is one thing that can be set.
type Knob struct {
	// Name is the key in files.
	Name string
	Unit Unit
	// Min and Max bound the numbers, both included.
	Min, Max int
	// PowerOfTwo: no other number is possible.
	PowerOfTwo bool
	// Auto: the word auto is possible.
	Auto bool
	// Words are the possible values if the unit is Word.
	Words   []string
	Default int
	// Meaning describes the knob and the cases for another value, in lines.
	Meaning []string
}

// The words of [Errors].
const (
	Return = iota
	Fatal
)

const (
	onOff    = 1
	maxCount = math.MaxInt32
	// maxMiddle is the largest of the limits that follow the distance: far above
	// any at which copying twice has been seen to be cheaper.
	maxMiddle = 1 << 20
)

var (
	providers = shm.Defaults()
	sockets   = tcp.Defaults()
)

// longestHeal is an hour, as milliseconds; so is the longest silence.
const longestHeal = 3_600_000

// mostMemory is more than a rank allocates.
const mostMemory = 1 << 40

// millis is a time of the contract in this table's unit.
func millis(t fabric.Time) int { return int(t / 1_000_000) }

// table has every knob.
var table = [numKnobs]Knob{
	Eager: {
		Name: "shm.eager", Unit: Bytes, Min: 1, Max: p2p.LongestEager, Auto: true, Default: Auto,
		Meaning: []string{
			"Longest message that is sent without asking the receiver, whatever the distance",
			"of the cores. auto: between shm.eager.far and shm.eager.near, as lines move.",
		},
	},
	EagerNear: {
		Name: "shm.eager.near", Unit: Bytes, Min: 64, Max: maxMiddle, Default: providers.EagerNear,
		Meaning: []string{
			"The eager limit while lines move fast between the cores. Machines differ in what",
			"the kernel takes for a copy and in the size of their caches: ftbench tune.",
		},
	},
	EagerFar: {
		Name: "shm.eager.far", Unit: Bytes, Min: 64, Max: maxMiddle, Default: providers.EagerFar,
		Meaning: []string{
			"The eager limit while lines move slowly, as between sockets; counts as no more",
			"than shm.eager.near. ftbench tune finds it where it meets such cores.",
		},
	},
	EagerReply: {
		Name: "shm.eager.reply", Unit: Bytes, Min: 64, Max: maxMiddle, Default: providers.EagerReply,
		Meaning: []string{
			"The eager limit for a rank that takes turns with its peer, 8k at most while lines move",
			"slowly. Less where the kernel copies fast, or caches are small.",
		},
	},
	RingLines: {
		Name: "shm.ring.lines", Unit: Lines, Min: 64, Max: 1 << 16, PowerOfTwo: true, Default: providers.Lines,
		Meaning: []string{
			"Messages in flight from one peer. Each pair of ranks costs 64 bytes for a line,",
			"twice: fewer with hundreds of ranks on a node, more for bursts of short messages.",
		},
	},
	RingBytes: {
		Name: "shm.ring.bytes", Unit: Bytes, Min: 16 << 10, Max: 64 << 20, PowerOfTwo: true, Default: providers.BulkBytes,
		Meaning: []string{
			"Bytes in flight from one peer, beyond what lines carry. Each pair of ranks takes",
			"them twice: fewer with hundreds of ranks on a node, more for larger caches.",
		},
	},
	KernelCopy: {
		Name: "shm.kernel_copy", Unit: Switch, Max: onOff, Default: onOff,
		Meaning: []string{
			"Whether the kernel copies long messages from process to process where it is",
			"allowed to. off: they are streamed through the ring, as in strict containers.",
		},
	},
	TCPEager: {
		Name: "tcp.eager", Unit: Bytes, Min: 64, Max: p2p.LongestEager, Default: sockets.Eager,
		Meaning: []string{
			"Longest message that goes over sockets without asking the receiver. More on",
			"networks with long round trips, less where receivers fall behind.",
		},
	},
	TCPReply: {
		Name: "tcp.reply", Unit: Bytes, Min: 64, Max: p2p.LongestEager, Default: sockets.Reply,
		Meaning: []string{
			"The same for a rank that takes turns with its peer: a reply has a receiver.",
			"Less where memory is short: a message that comes too early is kept.",
		},
	},
	TCPOutbox: {
		Name: "tcp.outbox", Unit: Bytes, Min: 128 << 10, Max: 1 << 30, PowerOfTwo: true, Default: sockets.Outbox,
		Meaning: []string{
			"Bytes under way to one peer over sockets, kept until it has taken them. More for",
			"fast networks with long round trips, less with thousands of peers.",
		},
	},
	TCPHeal: {
		Name: "tcp.heal", Unit: Millis, Min: 100, Max: longestHeal, Default: int(sockets.Heal.Milliseconds()),
		Meaning: []string{
			"How long a broken connection is tried to be made again before the peer counts as",
			"dead. The less patient of two decides. More than the longest outage of the network.",
		},
	},
	Unexpected: {
		Name: "unexpected", Unit: Bytes, Min: 1, Max: 1 << 30, Default: p2p.DefaultUnexpected,
		Meaning: []string{
			"Short messages, each counted with 256 bytes more, that this rank sends to another",
			"one before that has said that it has room. Less memory, or longer bursts. Of more than",
			"4m the receiver has to have as much, else its own value counts.",
		},
	},
	MemoryLimit: {
		Name: "memory.limit", Unit: Bytes, Min: 1, Max: mostMemory, Auto: true, Default: Auto,
		Meaning: []string{
			"Memory that a rank may allocate with Alloc. auto: half of what the machine, or the",
			"control group, has left at the first call, divided by the ranks of the machine.",
		},
	},
	Spins: {
		Name: "wait.spins", Unit: Polls, Max: maxCount, Auto: true, Default: Auto,
		Meaning: []string{
			"How often a wait looks before it yields. auto: 20000 with a core for each rank,",
			"else 0. Fewer where other programs need the core or power counts.",
		},
	},
	Yields: {
		Name: "wait.yields", Unit: Polls, Max: maxCount, Auto: true, Default: Auto,
		Meaning: []string{
			"How often a wait yields before it sleeps. auto: 10000 with a core for each rank,",
			"else 1000 within a millisecond. More for the last microsecond, fewer for idle cores.",
		},
	},
	Async: {
		Name: "progress.async", Unit: Switch, Max: onOff, Default: 0,
		Meaning: []string{
			"Whether a goroutine of the library answers peers while this rank computes. on:",
			"long messages proceed without a call, for up to a wake-up in a millisecond.",
		},
	},
	Flat: {
		Name: "coll.flat", Unit: Switch, Max: onOff, Default: onOff,
		Meaning: []string{
			"Whether barrier, bcast and allreduce of few bytes go through memory that all ranks",
			"of a communicator share, where they do. off: by messages, as between machines.",
		},
	},
	Detect: {
		Name: "detect", Unit: Switch, Max: onOff, Default: onOff,
		Meaning: []string{
			"Whether ranks observe each other and report deaths. off: for debuggers,",
			"which stop a rank for longer than detect.timeout. Alike on all ranks, as the next three.",
		},
	},
	DetectPeriod: {
		Name: "detect.period", Unit: Millis, Min: 10, Max: longestHeal / detect.MinPeriods, Default: millis(control.DefaultPeriod),
		Meaning: []string{
			"Time between two heartbeats of a rank to the one that observes it. Shorter to find",
			"silent machines sooner, together with detect.timeout; each costs a wake-up. Four times",
			"as long by itself where ranks share cores and neither this nor the timeout is set.",
		},
	},
	DetectTimeout: {
		Name: "detect.timeout", Unit: Millis, Min: 10 * detect.MinPeriods, Max: longestHeal, Default: millis(control.DefaultTimeout),
		Meaning: []string{
			"Silence after which a rank counts as dead and is made so; three periods at least. More",
			"where ranks are stopped, machines suspended, or networks gone for longer. Four times",
			"as long by itself where ranks share cores and neither this nor the period is set.",
		},
	},
	DetectPartition: {
		Name: "detect.partition", Unit: Word, Words: partitions(), Max: int(detect.Off), Default: int(detect.Majority),
		Meaning: []string{
			"The ranks that continue when many fall silent at once. majority: the side with more than",
			"half of those not proven dead; the others end themselves. off: each side continues.",
		},
	},
	Errors: {
		Name: "errors", Unit: Word, Words: []string{"return", "fatal"}, Max: Fatal, Default: Return,
		Meaning: []string{
			"The use of an operation's error where the program sets no handler. return: the",
			"caller gets it. fatal: it ends the job, for programs that do not look at errors.",
		},
	},
	CollDesign: {
		Name: "coll.design", Unit: Word, Words: designs(), Max: int(tree.Corrected), Default: int(tree.Rebalance),
		Meaning: []string{
			"The trees of collectives after failures. rebalance: a tree of the living ranks.",
			"The others are there to be compared with it. Alike on all ranks, as the next.",
		},
	},
	CollTree: {
		Name: "coll.tree", Unit: Word, Words: trees, Max: len(trees) - 1,
		Meaning: []string{
			"The trees of collectives. auto: the operation chooses, and need not take a tree. node: where",
			"messages between nodes cost more than within. Others to be compared.",
		},
	},
	CollAlgorithms: {
		Name: "coll.algorithms", Unit: Path,
		Meaning: []string{
			"A table of the algorithms of collectives, by operation, ranks, ranks per node and bytes, where coll.tree",
			"is auto: ftbench tune coll makes one. none: the library's own. Alike on all ranks.",
		},
	},
	Debug: {
		Name: "debug", Unit: Switch, Max: onOff,
		Meaning: []string{
			"Whether each call is checked for mistakes that MPI leaves to the program, at the cost of speed.",
			"Alike on all ranks.",
		},
	},
}

// trees are the words for trees. Programs may ask for k-nomial ones of other radices.
var trees = []string{
	"auto", "binomial", "knomial:3", "knomial:4", "knomial:8", "knomial:16", "binary", "chain", "flat", "node",
}

// designs are the words for designs, in the order of their numbers.
func designs() (words []string) {
	for d := tree.Unaware; d <= tree.Corrected; d++ {
		words = append(words, d.String())
	}
	return words
}

// partitions are the words for the rules, in the order of their numbers.
func partitions() []string { return []string{detect.Majority.String(), detect.Off.String()} }

// Knobs returns all knobs in the order of their IDs. It is not to be changed.
func Knobs() []Knob { return table[:] }

// Of returns one of them.
func Of(id ID) *Knob { return &table[id] }

// find returns the knob of that name.
func find(name string) (ID, bool) {
	for i := range table {
		if table[i].Name == name {
			return ID(i), true
		}
	}
	return 0, false
}

// Variable is the knob's name in the environment.
func (k *Knob) Variable() string {
	return prefix + strings.ToUpper(strings.ReplaceAll(k.Name, ".", "_"))
}

// prefix begins the names of all variables.
const prefix = "BANYAN_"

// Range describes the possible values: "auto, or 1 … 64m".
func (k *Knob) Range() string {
	if k.Unit == Switch {
		return string(Switch)
	}
	switch k.Unit {
	case Word:
		return strings.Join(k.Words, " or ")
	case Path:
		return NoFile + ", or the name of a file"
	}
	s := fmt.Sprintf("%s … %s", k.Format(k.Min), k.Format(k.Max))
	if k.PowerOfTwo {
		s += ", a power of two"
	}
	if k.Auto {
		s = "auto, or " + s
	}
	return s
}

// Check reports whether v is possible; the error describes the possible values.
func (k *Knob) Check(v int) error {
	switch {
	case v == Auto && k.Auto:
		return nil
	case v < k.Min || v > k.Max || k.PowerOfTwo && bits.OnesCount(uint(v)) != 1:
		return fmt.Errorf("%s = %s: %s is possible", k.Name, k.Format(v), k.Range())
	}
	return nil
}

// Format writes a value as Parse reads it: 24k, auto, on.
func (k *Knob) Format(v int) string {
	switch {
	case v == Auto && k.Auto:
		return "auto"
	case k.Unit == Switch:
		return map[int]string{0: "off", 1: "on"}[v]
	case k.Unit == Path:
		return NoFile
	case k.Unit == Word && v >= k.Min && v <= k.Max:
		return k.Words[v]
	case k.Unit == Bytes:
		return formatBytes(v)
	case k.Unit == Millis:
		return formatMillis(v)
	}
	return strconv.Itoa(v)
}
