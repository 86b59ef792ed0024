package lint

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// sample is a small project. With want it must draw exactly one finding from
// the rule, and that one must contain the words; without it must draw none.
type sample struct {
	rule, name string
	files      map[string]string
	want       string
}

// one is a project of one file.
func one(path, src string) map[string]string { return map[string]string{path: src} }

// in is a Go file of package x that imports a package.
func in(path, imp, body string) map[string]string {
	return one(path, fmt.Sprintf("package x\n\nimport %q\n\n%s\n", imp, body))
}

// fuzzed is a package that decodes, with a target that does something, and a table.
func fuzzed(does, table string) map[string]string {
	return map[string]string{
		securityPath:                table,
		"internal/launch/a.go":      "package x\n\nimport \"strconv\"\n\nfunc parse(s string) { strconv.Atoi(s) }\n\ntype t int\n\nfunc (t) marked() {}",
		"internal/launch/a_test.go": "package x\n\nfunc FuzzA() { " + does + " }",
	}
}

// many is a project with so many files at its root.
func many(n int, name string) map[string]string {
	files := map[string]string{}
	for i := range n {
		files[fmt.Sprintf(name, i)] = "package x\n"
	}
	return files
}

var samples = []sample{
	{"root", "as many as fit", many(maxRootFiles, "a%d.go"), ""},
	{"root", "too many Go files", many(maxRootFiles+1, "a%d.go"), "has 21 Go files, more than 20"},
	{"root", "folders that fit", many(maxRootEntries, "a%d/a.go"), ""},
	{"root", "too many entries", many(maxRootEntries+1, "a%d/a.go"), "has 37 entries, more than 36"},
	{"arrows", "down", in("p2p/a.go", module+"/fabric", ""), ""},
	{"arrows", "up", in("fabric/a.go", module+"/p2p", ""), "fabric (floor 1) imports p2p (floor 4)"},
	{"arrows", "sideways", in("fabric/shm/a.go", module+"/fabric/host", ""), "only lower floors"},
	{"arrows", "to the root", in("coll/a.go", module, ""), "coll (floor 5) imports . (floor 7)"},
	{"arrows", "half a floor", in("fabric/fabrictest/a.go", module+"/fabric", ""), ""},
	{"arrows", "half a floor up", in("fabric/a.go", module+"/fabric/fabrictest", ""), "floor 1.5"},
	{"arrows", "from a test", in("fabric/a_test.go", module+"/p2p", ""), ""},
	{"placed", "in the table", one("internal/proc/a.go", "package proc"), ""},
	{"placed", "by prefix", one("bench/osu/a.go", "package osu"), ""},
	{"placed", "nowhere", one("stuff/a.go", "package stuff"), "is on no floor"},
	{"floor", "stated", one("p2p/doc.go", "// Package p2p sends.\n//\n// Floor 4.\npackage p2p"), ""},
	{"floor", "silent", one("p2p/doc.go", "// Package p2p sends.\npackage p2p"), `does not say "Floor 4"`},
	{"floor", "wrong", one("p2p/doc.go", "// Package p2p sends. Floor 3.\npackage p2p"), "says Floor 3, the table says 4"},
	{"floor", "an example", one("examples/a/doc.go", "// Ring sends.\npackage main"), ""},
	{"floor", "no doc.go", one("p2p/a.go", "package p2p"), ""},
	{"bans", "testing in a program", in("p2p/a.go", "testing", ""), "test support"},
	{"bans", "testing in a test", in("p2p/a_test.go", "testing", ""), ""},
	{"bans", "testing in the suite", in("fabric/fabrictest/a.go", "testing", ""), ""},
	{"bans", "the suite in a program", in("internal/progress/a.go", module+"/fabric/fabrictest", ""), "imported by _test.go"},
	{"bans", "a web server below bench", in("internal/launch/a.go", "net/http/pprof", ""), "does not pay"},
	{"bans", "a command line in a command", in("cmd/ftbench/a.go", "github.com/alecthomas/kong", ""), ""},
	{"words", "in a name", one("p2p/a.go", "package p2p\n\nvar lobbySize = 1"), "handshake queue"},
	{"words", "in a comment", one("p2p/a.go", "package p2p\n\n// The receive has begun."), "non-blocking"},
	{"words", "in a document", one("docs/a.md", "A mood is a distance."), "core distance"},
	{"words", "a name elsewhere", one("fabric/a.go", "package fabric\n\nvar turned = 1"), ""},
	{"words", "a name there", one("coll/a.go", "package coll\n\nvar turned = 1"), "Bruck"},
	{"words", "plain English", one("coll/a.go", "package coll\n\n// It is turned off."), ""},
	{"words", "part of a longer word", one("p2p/a.go", "package p2p\n\nvar challenge = 1"), ""},
	{"words", "a non-blocking collective", one("a.md", "Call IBcast."), "private"},
	{"words", "its name", one("a.md", "Call Ibcast."), ""},
	{"lengths", "a long function of a test", one("p2p/a_test.go", "package p2p\n\nfunc a() {"+strings.Repeat("\n", 61)+"}"), "more than 60"},
	{"bans", "C", in("fabric/shm/a.go", "C", ""), "CGO_ENABLED=0"},
	{"bans", "C in verbs", in("fabric/verbs/a.go", "C", ""), ""},
	{"bans", "a clock in pure logic", in("ft/agree/a.go", "time", ""), "pure logic"},
	{"waiting", "duration", in("p2p/a.go", "time", "var d = time.Second"), ""},
	{"waiting", "clock", in("p2p/a.go", "time", "var d = time.Now()"), "time.Now"},
	{"waiting", "clock by another name", one("p2p/a.go", "package x\n\nimport clock \"time\"\n\nvar d = clock.After(1)"), "time.After"},
	{"waiting", "goroutine", one("ft/detect/a.go", "package x\n\nfunc f() { go f() }"), "go statement"},
	{"waiting", "receive", one("coll/a.go", "package x\n\nfunc f(c chan int) { <-c }"), "receive from a channel"},
	{"waiting", "send", one("coll/a.go", "package x\n\nfunc f(c chan int) { c <- 1 }"), "send to a channel"},
	{"waiting", "select", one("coll/a.go", "package x\n\nfunc f() { select {} }"), "select statement"},
	{"waiting", "condition", in("internal/progress/a.go", "sync", "var c sync.Cond"), "sync.Cond"},
	{"waiting", "mutex", in("internal/progress/a.go", "sync", "var c sync.Mutex"), ""},
	{"waiting", "minus", one("p2p/a.go", "package x\n\nvar d = -c"), ""},
	{"waiting", "another's clock", in("p2p/a.go", "fmt", "var d = time.Now()"), ""},
	{"waiting", "deadline", in("p2p/a.go", "context", "var c, _ = context.WithTimeout(nil, 1)"), "context.WithTimeout"},
	{"waiting", "the real host", one("fabric/host/a.go", "package x\n\nfunc f() { go f() }"), ""},
	{"waiting", "sim", in("fabric/route/a.go", "time", "var d = time.Now()"), "fabric.Host"},
	{"waiting", "an application", one("a.go", "package x\n\nfunc f() { go f() }"), ""},
	{"format", "clean", one("a.go", "package x\n"), ""},
	{"format", "untidy", one("a.go", "package  x\n"), "gofmt"},
	{"package doc", "there", one("a/doc.go", "// Package a is.\npackage a\n"), ""},
	{"package doc", "elsewhere", one("a/a.go", "// Package a is.\npackage a\n"), "no doc.go"},
	{"package doc", "empty", one("a/doc.go", "package a\n"), "no package comment"},
	{"package doc", "other name", one("a/doc.go", "// Package ab is.\npackage a\n"), "no package comment"},
	{"package doc", "command", one("cmd/a/doc.go", "// Ftbench runs.\npackage main\n"), ""},
	{"package doc", "dumb command", one("cmd/a/doc.go", "package main\n"), "no package comment"},
	{"package doc", "example", one("examples/a/main.go", "// Ring sends.\npackage main\n"), ""},
	{"package doc", "dumb example", one("examples/a/main.go", "package main\n"), "no package comment"},
	{"package doc", "only tests", one("a/a_test.go", "package a\n"), ""},
	{"package name", "an idea", one("a/ring.go", "package ring\n"), ""},
	{"package name", "nothing", one("a/a.go", "package utils\n"), "named for nothing"},
	{"package name", "nothing, tested", one("a/a_test.go", "package helpers_test\n"), "named for nothing"},
	{"package name", "folder", one("common/a.go", "package ring\n"), "named for nothing"},
	{"lengths", "function of 60", one("a.go", "package x\n\nfunc f() {"+strings.Repeat("\n", 59)+"}\n"), ""},
	{"lengths", "function of 61", one("a.go", "package x\n\nfunc f() {"+strings.Repeat("\n", 60)+"}\n"), "f has 61 lines"},
	{"lengths", "file of 400", one("a.go", "package x\n"+strings.Repeat("\n", 399)), ""},
	{"lengths", "file of 401", one("a.go", "package x\n"+strings.Repeat("\n", 400)), "more than 400"},
	{"lengths", "test", one("a_test.go", "package x\n"+strings.Repeat("\n", 400)), "more than 400"},
	{"unsafe", "named", in("ring_unsafe.go", "unsafe", ""), ""},
	{"unsafe", "named, one machine", in("ring_unsafe_amd64.go", "unsafe", ""), ""},
	{"unsafe", "not named", in("ring.go", "unsafe", ""), "must end in _unsafe.go"},
	{"unsafe", "named for nothing", one("ring_unsafe.go", "package x\n"), "does not import unsafe"},
	{"unsafe", "test", in("ring_test.go", "unsafe", ""), ""},
	{"dot imports", "plain", in("a.go", "time", ""), ""},
	{"dot imports", "dot", one("a_test.go", "package x\n\nimport . \"time\"\n"), "dot import"},
	{"skips", "skip", in("a_test.go", "testing", "func f(t *testing.T) { t.Skipf(\"\") }"), "skips a test"},
	{"skips", "skip in the suite", in("a.go", "testing", "func f(tb testing.TB) { tb.SkipNow() }"), "skips a test"},
	{"skips", "another's skip", one("a.go", "package x\n\nfunc f(l lexer) { l.Skip() }"), ""},
	{"sleeps", "sleep", in("a_test.go", "time", "func f() { time.Sleep(1) }"), "sleeps in a test"},
	{"sleeps", "duration", in("a_test.go", "time", "var d = time.Second"), ""},
	{"sleeps", "not in a test", in("a.go", "time", "func f() { time.Sleep(1) }"), ""},
	{"sleeps", "sleep in the suite", one("a.go", "package x\n\nimport (\n\t\"testing\"\n\t\"time\"\n)\n\nfunc f() { time.Sleep(1) }"), "sleeps in a test"},
	{"comments", "function", one("a.go", "package x\n\n// F is.\nfunc F() {}"), ""},
	{"comments", "with an article", one("a.go", "package x\n\n// A T is.\ntype T int"), ""},
	{"comments", "silent function", one("a.go", "package x\n\nfunc F() {}"), "exported F has no doc"},
	{"comments", "other name", one("a.go", "package x\n\n// Foo is.\nfunc F() {}"), "does not start with its name"},
	{"comments", "deprecated", one("a.go", "package x\n\n// Deprecated: use G.\nfunc F() {}"), ""},
	{"comments", "unexported", one("a.go", "package x\n\nfunc f() {}"), ""},
	{"comments", "silent method", one("a.go", "package x\n\ntype t int\n\n// T is.\ntype T[E any] int\n\nfunc (*T[E]) M() {}\n\nfunc (t) M() {}"), "exported M"},
	{"comments", "silent type", one("a.go", "package x\n\ntype T int"), "exported T"},
	{"comments", "silent type in a group", one("a.go", "package x\n\n// Words.\ntype (\n\tT int\n)"), "exported T has no doc comment"},
	{"comments", "silent variable", one("a.go", "package x\n\nvar V int"), "exported V has no doc comment"},
	{"comments", "unexported variable", one("a.go", "package x\n\nvar v int"), ""},
	{"comments", "group of constants", one("a.go", "package x\n\n// Words.\nconst (\n\tA = 1\n\tB = 2\n)"), ""},
	{"comments", "silent group", one("a.go", "package x\n\nconst (\n\tA = 1\n\tB = 2 // two\n)"), "exported A"},
	{"comments", "silent contract", one("a.go", "package x\n\n// I is.\ntype I interface {\n\tM()\n}"), "method M of interface I"},
	{"comments", "first of two files", map[string]string{"a.go": "package x\n\nfunc F() {}", "b.go": "package x"}, "exported F"},
	{"comments", "contract in one comment", one("a.go", "package x\n\n// I is. It lets M.\ntype I interface {\n\tM()\n}"), ""},
	{"comments", "contract of others", one("a.go", "package x\n\n// I is.\ntype I interface {\n\tJ\n\tm()\n\t// M is.\n\tM()\n}"), ""},
	{"comments", "test", one("a_test.go", "package x\n\nfunc TestF() {}"), ""},
	{"decoders", "fuzzed", fuzzed("parse(s)", "| `internal/launch.FuzzA` | `parse` | x |"), ""},
	{"decoders", "by a helper, as a value", fuzzed("each(parse)", "| `internal/launch.FuzzA` | `parse` | x |"), ""},
	{"decoders", "named by its type", fuzzed("parse(s)", "| `internal/launch.FuzzA` | `parse`, `t.marked` | x |"), "does not reach t.marked"},
	{"decoders", "not reached", fuzzed("other(s)", "| `internal/launch.FuzzA` | `parse` | x |"), "does not reach parse"},
	{"decoders", "no entry point", fuzzed("parse(s)", "| `internal/launch.FuzzA` | – | x |"), "parse decodes"},
	{"decoders", "target without a row", map[string]string{securityPath: "", "internal/launch/a_test.go": "package x\n\nfunc FuzzA() {}"}, "internal/launch.FuzzA is not in the table"},
	{"decoders", "row without a target", one(securityPath, "| `internal/launch.FuzzA` | – | x |"), "there is no such target"},
	{"decoders", "no such test", one(securityPath, "see `internal/launch.TestA`"), "internal/launch.TestA does not exist"},
	{"decoders", "a row twice", fuzzed("parse(s)", "| `internal/launch.FuzzA` | `parse` | x |\n| `internal/launch.FuzzA` | `parse` | y |"), "twice"},
	{"decoders", "directive", map[string]string{securityPath: "", "internal/launch/a.go": "package x\n\n//banyan:decodes\nfunc f() {}"}, "f decodes"},
	{"decoders", "a harness", map[string]string{securityPath: "", "bench/a.go": "package x\n\n//banyan:decodes\nfunc f() {}"}, ""},
	{"decoders", "no table", one("a.go", "package x"), "is missing"},
	{"phrases", "clean", one("a.md", "todo: nothing. See /var/work/ and http://x/work/y"), ""},
	{"phrases", "undone", one("a.md", "TO"+"DO: all"), "work left undone"},
	{"phrases", "undone in code", one("a.go", "package x // FIX"+"ME"), "work left undone"},
	{"phrases", "a developer's path", one("Makefile", "cp /ro"+"ot/x ."), "developer's machine"},
	{"phrases", "how it came about", one("a.go", "package x // in this com"+"mit"), "say what is"},
	{"phrases", "not tracked", one("bin/a.txt", "TO"+"DO"), ""},
	{"phrases", "checksum", one("go.sum", "TO"+"DO"), ""},
	{"phrases", "test binary", one("p2p/p2p.test", "TO"+"DO"), ""},
	{"phrases", "not text", one("a.png", "\x00 TO"+"DO"), ""},
}

func (s sample) tree(t *testing.T) *tree {
	t.Helper()
	fs := fstest.MapFS{}
	for path, src := range s.files {
		fs[path] = &fstest.MapFile{Data: []byte(src)}
	}
	tr, broken, err := load(fs)
	require.NoError(t, err)
	require.Empty(t, broken)
	return tr
}

// TestSamples shows that every rule finds violations, and nothing else.
func TestSamples(t *testing.T) {
	byName := map[string]rule{}
	for _, r := range rules {
		byName[r.name] = r
	}
	for _, s := range samples {
		t.Run(s.rule+"/"+s.name, func(t *testing.T) {
			require.Contains(t, byName, s.rule)
			s.expect(t, byName[s.rule].run(s.tree(t)))
		})
	}
}

func (s sample) expect(t *testing.T, found []finding) {
	t.Helper()
	if s.want == "" {
		assert.Empty(t, found)
		return
	}
	require.Len(t, found, 1)
	assert.Contains(t, found[0].String(), s.want)
}

// TestEveryRuleHasASample keeps the table complete. The ledger's samples are in
// its own test.
func TestEveryRuleHasASample(t *testing.T) {
	bitten := map[string]bool{"ledger": true}
	for _, s := range samples {
		bitten[s.rule] = bitten[s.rule] || s.want != ""
	}
	for _, r := range rules {
		assert.True(t, bitten[r.name], "no sample breaks rule %q", r.name)
	}
}

// TestBrokenSource: a file that does not parse is a finding.
func TestBrokenSource(t *testing.T) {
	_, broken, err := load(fstest.MapFS{"a.go": {Data: []byte("package")}})
	require.NoError(t, err)
	require.Len(t, broken, 1)
	assert.Equal(t, "syntax", broken[0].rule)
}

// TestExceptions: an exception covers the named findings, needs a reason, and is
// reported once it is unused.
func TestExceptions(t *testing.T) {
	found := []finding{{"lengths", "a.go", 3, "f has 71 lines"}, {"lengths", "a.go", 90, "g has 80 lines"}}
	left := except(found, []exception{{"lengths", "a.go", "f has", "one clear loop"}})
	assert.Equal(t, found[1:], left)

	left = except(found[:1], []exception{{"lengths", "a.go", "", ""}, {"skips", "b.go", "", "needs two hosts"}})
	require.Len(t, left, 2)
	assert.Contains(t, left[0].msg, "gives no reason")
	assert.Contains(t, left[1].msg, "nothing needs the exception")
}

// ledgerSample is a complete ledger with some lines replaced and one test that
// it may name.
func ledgerSample(t *testing.T, replace map[string]string) *tree {
	t.Helper()
	var b strings.Builder
	for _, doc := range sortedKeys(requirements) {
		for n := 1; n <= requirements[doc]; n++ {
			id := fmt.Sprintf("%s-%d", doc, n)
			line, ok := replace[id]
			if !ok {
				line = "| " + id + " | words | not built | – |"
			}
			b.WriteString(line + "\n")
		}
	}
	b.WriteString(replace["bounds"])
	return sample{files: map[string]string{
		ledgerPath:      b.String(),
		"p2p/a_test.go": "package p2p\n\nfunc TestA() {}",
		"a_test.go":     "package banyan\n\nfunc FuzzB() {}",
	}}.tree(t)
}

// TestLedgerSamples shows rows that the ledger's rule accepts and refuses.
func TestLedgerSamples(t *testing.T) {
	const s, b = "S0-1", "bounds"
	for name, c := range map[string]struct{ row, line, want string }{
		"built":             {s, "| S0-1 | w | built | `p2p.TestA`, `banyan.FuzzB`, `p2p.TestA/8.5 bytes` |", ""},
		"built, untested":   {s, "| S0-1 | w | built | – |", "names no test"},
		"no such test":      {s, "| S0-1 | w | built | `p2p.TestB` |", "does not exist"},
		"test elsewhere":    {s, "| S0-1 | w | built | `coll.TestA` |", "does not exist"},
		"test without home": {s, "| S0-1 | w | built | `TestA` |", "does not exist"},
		"quoted, no test":   {s, "| S0-1 | w | built | `make test` |", "does not exist"},
		"tested, not built": {s, "| S0-1 | w | not built | `p2p.TestA` |", "names a test"},
		"state":             {s, "| S0-1 | w | nearly | – |", "is none of"},
		"missing":           {s, "", "S0-1: is missing"},
		"twice":             {s, "| S0-1 | w | not built | – |\n| S0-1 | w | not built | – |", "twice"},
		"cells":             {s, "| S0-1 | w | not built |", "3 cells"},
		"bound":             {b, "| B2-1 | m | ≤ 1 | `x a\\|b` | 0.9 | 0.8…1.0 | met |", ""},
		"bound, not built":  {b, "| B2-1 | m | ≤ 1 | – | – | – | not built |", ""},
		"bound, unmeasured": {b, "| B2-1 | m | ≤ 1 | `x` | – | – | met |", "without a command and a ratio"},
		"bound, no command": {b, "| B2-1 | m | ≤ 1 | – | 2.0 | – | missed |", "without a command and a ratio"},
		"bound, dreamt":     {b, "| B2-1 | m | ≤ 1 | – | 0.5 | – | not built |", "has a ratio"},
		"bound, state":      {b, "| B2-1 | m | ≤ 1 | – | – | – | built |", "is none of"},
		"bound by a test":   {b, "| B2-1 | m | 0 | `p2p.TestA` | 0 | – | met |", ""},
		"bound by no test":  {b, "| B2-1 | m | 0 | `p2p.TestB` | 0 | – | met |", "does not exist"},
		"head of a table":   {b, "| id | words | state |\n|---|---|---|\n", ""},
		"bound, cells":      {b, "| B2-1 | m | ≤ 1 | – | – | met |", "6 cells"},
	} {
		t.Run(name, func(t *testing.T) {
			tr := ledgerSample(t, map[string]string{c.row: c.line})
			sample{want: c.want}.expect(t, checkLedger(tr))
		})
	}
	require.Len(t, checkLedger(sample{files: one("a.md", "")}.tree(t)), 1)
}
