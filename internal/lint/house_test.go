package lint

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"
)

// place puts a directory, or with a final slash all below it, on a floor.
//
// Floors are counted in tenths, so that a package can stand between two of the
// design's floors: tenths/10 is the number that its doc.go states.
type place struct {
	dir    string
	tenths int
}

// house is the order of the packages. A package imports only packages with a
// smaller number: packages with equal numbers do not import each other.
var house = []place{
	{"internal/few", 0},                 // a map for few entries
	{"internal/release", 0},             // stores that do not wait
	{"internal/explore", 0},             // all orders of steps of a model, for tests
	{"internal/proc", 0},                // the words that floor 1 shares
	{"internal/exits", 3},               // the log of exits, for readers
	{"internal/exits/hook", 4},          // its privileged side, for the agent above it
	{"internal/warm", 4},                // code, memory and stacks made ready, for code that waits for events
	{"internal/", 5},                    // primitives of the operating system; they may use proc's words
	{"fabric/board", 5},                 // cells that the members of a group share
	{"fabric/bakery", 5},                // a lock in shared memory
	{"internal/flusher", 6},             // sends frames that providers hold back
	{"fabric", 10},                      // the provider contract
	{"fabric/route", 10},                // pure: two processes' cards in, the fabrics between them out
	{"ft", 10},                          // the words of failure
	{"coll/tree", 10},                   // pure: alive set in, plan out
	{"coll/choose", 10},                 // pure: operation, place and bytes in, algorithm out
	{"coll/corrected", 10},              // pure: event in, actions out
	{"ft/agree", 10},                    // pure: event in, actions out
	{"fabric/heap", 15},                 // memory in blocks of a provider
	{"fabric/fabrictest", 15},           // the conformance suite stands on the contract it checks
	{"ft/detect", 15},                   // pure: evidence and time in, deaths and messages out; uses fabric's Time
	{"fabric/host", 20},                 // the real clock, scheduler and sleeping place
	{"fabric/shm", 20},                  // provider: shared memory
	{"fabric/tcp", 20},                  // provider: sockets
	{"fabric/sim", 20},                  // provider: the simulated network, with its Host
	{"internal/launch/pmi", 20},         // the words between ranks and launcher
	{"fabric/verbs", 21},                // provider: RDMA beside the sockets
	{"internal/launch/rendezvous", 21},  // ranks without a launcher
	{"internal/launch/join", 22},        // rank and peers of a process: all that an application links
	{"internal/launch/spawn", 22},       // the ranks of one machine
	{"internal/launch/hosts", 23},       // ranks of other machines
	{"internal/launch", 24},             // the launcher
	{"internal/progress", 30},           // one per process
	{"p2p", 40},                         // communicator core, matching, protocols
	{"ft/control", 40},                  // drivers of agreement and revoke; bypass matching
	{"p2p/rma", 45},                     // windows: one-sided operations on memory of other ranks
	{"coll/sm", 45},                     // collectives in memory that ranks share
	{"coll", 50},                        // collectives over p2p and a plan
	{"ft/repair", 60},                   // agreement and collectives put together
	{"internal/debug", 60},              // mistakes of programs: comparisons, and open operations
	{"internal/settings", 60},           // settings of users, above the layers whose defaults it states
	{"ft/create", 65},                   // communicators from others, by messages and agreement
	{"internal/job", 65},                // one rank's stack, for a launched process and a simulated one
	{".", applicationFloor},             // the public interface
	{"coll/topology", 71},               // grids and graphs of ranks, on the public interface
	{"coll/layout", 71},                 // elements of a slice that do not lie side by side, on the public interface
	{"bench/stats", 71},                 // medians, intervals and distributions, for all harnesses
	{"bench/table", 72},                 // tables as wide as the terminal, for all harnesses
	{"bench/kill", 72},                  // which ranks die, for all that measures or predicts failures
	{"bench/budget", 73},                // how long a measurement may last, for all harnesses
	{"bench/predict", 75},               // collectives in virtual time, for the harnesses above it
	{"bench/", harnessFloor},            // harnesses on the public interface
	{"internal/ranktest", harnessFloor}, // ranks for tests of the whole system
	{"internal/systest/", harnessFloor}, // tests only
	{"fabric/verbs/testbed", 80},        // virtual machines for tests
	{"bench/many", 81},                  // messages among many ranks, in jobs as package peers starts them
	{"bench/compare/suite", 82},         // the measures of ftbench compare, with the programs that they run
	{"bench/predict/sweep", 82},         // predictions over grids of parameters, and their charts
	{"bench/tune", 84},                  // the fastest settings of a machine, measured by the suite's pairs
	{"bench/paper", 85},                 // a report of the measurements of several harnesses
	{"cmd/", commandFloor},              // the command
	{"examples/", commandFloor},         // programs for readers
	{"examples", commandFloor},
}

const (
	applicationFloor = 70
	harnessFloor     = 80
	commandFloor     = 90
)

// placeOf finds the floor of a package: of all places that cover it the one with the longest name.
func placeOf(dir string) (tenths int, ok bool) {
	longest := 0
	for _, p := range house {
		if covers(p.dir, dir) && len(p.dir) > longest {
			tenths, ok, longest = p.tenths, true, len(p.dir)
		}
	}
	return tenths, ok
}

// covers reports whether a directory is the one named or, with a final slash, lies
// below it.
func covers(named, dir string) bool {
	return dir == named || strings.HasSuffix(named, "/") && strings.HasPrefix(dir, named)
}

// checkArrows: a package imports only packages on lower floors.
func checkArrows(t *tree) []finding {
	var out []finding
	eachImport(t, func(p *pkg, f *source, spec *ast.ImportSpec) {
		to, ours := ownDir(importPath(spec))
		if !ours {
			return
		}
		mine, ok1 := placeOf(p.dir)
		theirs, ok2 := placeOf(to)
		if ok1 && ok2 && theirs >= mine {
			out = append(out, t.at(f, spec, "%s (floor %s) imports %s (floor %s): a package imports only lower floors",
				p.dir, floorName(mine), to, floorName(theirs)))
		}
	})
	return out
}

func floorName(tenths int) string {
	if tenths%10 == 0 {
		return fmt.Sprint(tenths / 10)
	}
	return fmt.Sprintf("%d.%d", tenths/10, tenths%10)
}

// eachImport visits the imports of the files that are built into programs.
func eachImport(t *tree, visit func(*pkg, *source, *ast.ImportSpec)) {
	for _, p := range t.pkgs {
		for _, f := range p.code() {
			for _, spec := range f.ast.Imports {
				visit(p, f, spec)
			}
		}
	}
}

// checkPlaced: every package has its place in the house.
func checkPlaced(t *tree) []finding {
	var out []finding
	for _, p := range t.pkgs {
		if _, ok := placeOf(p.dir); !ok {
			out = append(out, finding{path: p.dir, msg: "is on no floor: give it a line in the table `house` and say the floor in its doc.go"})
		}
	}
	return out
}

var floorWord = regexp.MustCompile(`\bFloor (\d)\b`)

// checkFloorStated: doc.go states the floor on which the table has the package. The root and the
// examples are for users and have no floors.
func checkFloorStated(t *tree) []finding {
	var out []finding
	for _, p := range t.pkgs {
		tenths, ok := placeOf(p.dir)
		doc := p.file("doc.go")
		if !ok || doc == nil || p.dir == "." || strings.HasPrefix(p.dir, "examples/") {
			continue
		}
		want := fmt.Sprint(tenths / 10)
		m := floorWord.FindStringSubmatch(doc.ast.Doc.Text())
		switch {
		case m == nil:
			out = append(out, t.at(doc, doc.ast, "the package comment does not say %q", "Floor "+want))
		case m[1] != want:
			out = append(out, t.at(doc, doc.ast, "the package comment says Floor %s, the table says %s", m[1], want))
		}
	}
	return out
}

// ban forbids an import, and all packages below it, to some packages.
type ban struct {
	imports []string
	to      func(dir string, tenths int) bool
	deep    bool // forbids it also at second hand, through others' packages
	why     string
}

var bans = []ban{
	{
		[]string{"testing", "github.com/stretchr/testify", "go.uber.org/goleak"},
		func(dir string, tenths int) bool { return dir != fabricTest && dir != rankTest },
		true,
		"test support is for _test.go files, the conformance suite and the harness of ranks: linked into a program it brings flags and weight",
	},
	{
		[]string{module + "/" + fabricTest, module + "/" + rankTest},
		func(string, int) bool { return true },
		false,
		"the conformance suite and the harness of ranks are imported by _test.go files only: they bring package testing along",
	},
	{
		[]string{"net/http", "github.com/alecthomas/kong", "github.com/HdrHistogram/hdrhistogram-go", "gonum.org/v1/plot", "golang.org/x/perf"},
		func(_ string, tenths int) bool { return tenths <= applicationFloor },
		true,
		"command lines, histograms, figures and web servers belong to harnesses and commands: an application that links Banyan does not pay for them",
	},
	{
		[]string{module + "/internal/netns"},
		func(_ string, tenths int) bool { return tenths < harnessFloor },
		true,
		"an application that links Banyan does not bring along what makes and cuts networks",
	},
	{
		[]string{"github.com/cilium/ebpf"},
		func(dir string, tenths int) bool {
			return tenths < harnessFloor && !strings.HasPrefix(dir, "internal/exits/")
		},
		true,
		"an application reads what the kernel records and does not load programs: internal/exits needs no BPF library",
	},
	{
		[]string{"C"},
		func(dir string, _ int) bool { return dir != "fabric/verbs" },
		false,
		"CGO_ENABLED=0 must build everything; only libibverbs needs C",
	},
	{
		[]string{"os", "net", "time", "syscall", "golang.org/x/sys", "context", "sync", "math/rand"},
		func(dir string, _ int) bool {
			return slices.Contains([]string{"coll/tree", "coll/corrected", "ft/agree", "ft/detect"}, dir)
		},
		false,
		"pure logic has no I/O, clock, lock or source of chance: what it does follows from its input, so the simulator can replay it",
	},
}

const (
	fabricTest = "fabric/fabrictest"
	rankTest   = "internal/ranktest"
)

// checkBans: no package imports a forbidden one.
func checkBans(t *tree) []finding {
	var out []finding
	eachImport(t, func(p *pkg, f *source, spec *ast.ImportSpec) {
		tenths, ok := placeOf(p.dir)
		if !ok {
			return
		}
		for _, b := range bans {
			if b.names(importPath(spec)) && b.to(p.dir, tenths) {
				out = append(out, t.at(f, spec, "imports %s: %s", importPath(spec), b.why))
			}
		}
	})
	return out
}

func (b ban) names(imp string) bool {
	return slices.ContainsFunc(b.imports, func(x string) bool {
		return imp == x || strings.HasPrefix(imp, x+"/")
	})
}

const launches = "starts and waits for operating-system processes, before there is a Host"

// ownWaiting lists the packages below the root package that wait, tell the time
// or start goroutines by themselves. All others go through fabric.Host, so that
// the simulator can own time and order.
var ownWaiting = map[string]string{
	"internal/":         "primitives of the operating system, from which the real Host is made",
	"internal/proc":     "",
	"internal/progress": "",
	"internal/settings": "",
	"fabric/host":       "it is the real Host",
	"fabric/sim":        "it is the simulated Host: every rank is a goroutine that it alone lets run",
	"fabric/tcp":        "talks to other machines, whose silence has to be timed, and has a helper thread; it never runs inside the simulator",
	"fabric/verbs":      "waits for the adapters of peers when it closes; it never runs inside the simulator",
	"fabric/shm":        "talks to other processes by futex and by helper threads; it never runs inside the simulator",
	"fabric/fabrictest": "its watchdogs must bite when the Host under test is stuck",
	"internal/launch":   launches,
	"internal/launch/":  launches,
	"internal/job":      "its log and its warnings must not wait for what they report on; the rest goes through the Host",
}

// waitsByItself follows the longest entry that covers a package; one without a reason forbids it.
func waitsByItself(dir string) bool {
	longest, reason := "", ""
	for d, why := range ownWaiting {
		if covers(d, dir) && len(d) > len(longest) {
			longest, reason = d, why
		}
	}
	return reason != ""
}

// waiting are the standard library's ways to wait, to tell the time and to
// start an activity.
var waiting = map[string][]string{
	"time":    {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick"},
	"context": {"WithTimeout", "WithTimeoutCause", "WithDeadline", "WithDeadlineCause", "AfterFunc"},
	"runtime": {"Gosched"},
	"sync":    {"Cond", "NewCond", "WaitGroup"},
}

// checkWaiting: below the root package, time, waiting and concurrency come from
// fabric.Host.
func checkWaiting(t *tree) []finding {
	var out []finding
	for _, p := range t.pkgs {
		tenths, ok := placeOf(p.dir)
		if !ok || tenths >= applicationFloor || waitsByItself(p.dir) {
			continue
		}
		for _, f := range p.code() {
			out = append(out, waitingIn(t, f)...)
		}
	}
	return out
}

func waitingIn(t *tree, f *source) []finding {
	var out []finding
	complain := func(n ast.Node, what string) {
		out = append(out, t.at(f, n, "%s: time, waiting and concurrency below the root package go through fabric.Host", what))
	}
	for _, imp := range sortedKeys(waiting) {
		f.uses(imp, func(sel *ast.SelectorExpr) {
			if slices.Contains(waiting[imp], sel.Sel.Name) {
				complain(sel, imp+"."+sel.Sel.Name)
			}
		})
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			complain(n, "go statement")
		case *ast.SelectStmt:
			complain(n, "select statement")
		case *ast.SendStmt:
			complain(n, "send to a channel")
		case *ast.UnaryExpr:
			if n.Op == token.ARROW {
				complain(n, "receive from a channel")
			}
		}
		return true
	})
	return out
}
