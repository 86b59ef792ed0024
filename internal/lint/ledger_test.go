package lint

import (
	"fmt"
	"go/ast"
	"regexp"
	"slices"
	"strings"
)

// ledgerPath is the file with the states of bounds and requirements.
const ledgerPath = "docs/status.md"

// requirements counts the numbered requirements of each source document.
var requirements = map[string]int{"S0": 65, "S1": 49, "S2": 37, "S3": 21, "S4": 38}

// Columns of the two kinds of rows.
const (
	boundCommand, boundRatio, boundState = 3, 4, 6
	boundCells                           = 7
	reqState, reqTest                    = 2, 3
	reqCells                             = 4
)

var (
	boundStates = []string{"met", "missed", "undecided", "not built"}
	reqStates   = []string{"built", "not built", "nothing to build"}
	rowID       = regexp.MustCompile(`^([BS]\d+)-(\d+)$`)
	quoted      = regexp.MustCompile("`([^`]+)`")
)

// nothing fills an empty cell.
const nothing = "–"

// row is a line of one of the ledger's tables.
type row struct {
	line  int
	cells []string
}

func (r row) complain(format string, args ...any) finding {
	return finding{path: ledgerPath, line: r.line, msg: r.cells[0] + ": " + fmt.Sprintf(format, args...)}
}

// rows finds the table rows that begin with the number of a bound or of a
// requirement.
func rows(text string) []row {
	var out []row
	for i, line := range strings.Split(text, "\n") {
		inner, ok := strings.CutPrefix(strings.TrimSpace(line), "|")
		if !ok {
			continue
		}
		inner = strings.ReplaceAll(strings.TrimSuffix(inner, "|"), `\|`, "\x00")
		cells := strings.Split(inner, "|")
		for j := range cells {
			cells[j] = strings.ReplaceAll(strings.TrimSpace(cells[j]), "\x00", "|")
		}
		if rowID.MatchString(cells[0]) {
			out = append(out, row{i + 1, cells})
		}
	}
	return out
}

// checkLedger: every requirement stands in the ledger once, states are from the
// list, and every test named there exists.
func checkLedger(t *tree) []finding {
	i := slices.IndexFunc(t.texts, func(f text) bool { return f.path == ledgerPath })
	if i < 0 {
		return []finding{{path: ledgerPath, msg: "is missing"}}
	}
	var out []finding
	seen := map[string]bool{}
	for _, r := range rows(string(t.texts[i].data)) {
		id := r.cells[0]
		if seen[id] {
			out = append(out, r.complain("stands here twice"))
		}
		seen[id] = true
		if id[0] == 'B' {
			out = append(out, checkBound(r)...)
		} else {
			out = append(out, checkRequirement(r)...)
		}
		out = append(out, checkNames(t, r)...)
	}
	return append(out, checkComplete(seen)...)
}

func checkComplete(seen map[string]bool) []finding {
	var out []finding
	for _, doc := range sortedKeys(requirements) {
		for n := 1; n <= requirements[doc]; n++ {
			if id := fmt.Sprintf("%s-%d", doc, n); !seen[id] {
				out = append(out, finding{path: ledgerPath, msg: id + ": is missing"})
			}
		}
	}
	return out
}

// checkBound: a bound that is met or missed has been measured, by a command that a
// reader can repeat.
func checkBound(r row) []finding {
	if len(r.cells) != boundCells {
		return []finding{r.complain("has %d cells, not %d", len(r.cells), boundCells)}
	}
	state, ratio := r.cells[boundState], r.cells[boundRatio]
	measured := state == "met" || state == "missed"
	switch {
	case !slices.Contains(boundStates, state):
		return []finding{r.complain("state %q is none of %q", state, boundStates)}
	case measured && (ratio == nothing || !quoted.MatchString(r.cells[boundCommand])):
		return []finding{r.complain("is %s without a command and a ratio", state)}
	case state == "not built" && ratio != nothing:
		return []finding{r.complain("is not built and has a ratio")}
	}
	return nil
}

// checkRequirement: a built requirement names the tests that fail without its code.
func checkRequirement(r row) []finding {
	if len(r.cells) != reqCells {
		return []finding{r.complain("has %d cells, not %d", len(r.cells), reqCells)}
	}
	state, tests := r.cells[reqState], quoted.FindAllStringSubmatch(r.cells[reqTest], -1)
	switch {
	case !slices.Contains(reqStates, state):
		return []finding{r.complain("state %q is none of %q", state, reqStates)}
	case state == "built" && len(tests) == 0:
		return []finding{r.complain("is built and names no test")}
	case state != "built" && r.cells[reqTest] != nothing:
		return []finding{r.complain("is %s and names a test", state)}
	}
	return nil
}

// checkNames: every test named in a row exists, also among a bound's commands.
// Quoted names in a requirement's last cell are always tests.
func checkNames(t *tree, r row) []finding {
	var out []finding
	for i, cell := range r.cells {
		for _, m := range quoted.FindAllStringSubmatch(cell, -1) {
			mustBeTest := r.cells[0][0] == 'S' && i == reqTest || testName.MatchString(m[1])
			if mustBeTest && !t.hasTest(m[1]) {
				out = append(out, r.complain("test %s does not exist (write folder.TestName, banyan.TestName for the root)", m[1]))
			}
		}
	}
	return out
}

// hasTest looks for folder.TestName, or folder.TestName/subtest, of which the
// subtest is not looked for.
func (t *tree) hasTest(name string) bool {
	m := testName.FindStringSubmatch(name)
	if m == nil {
		return false
	}
	dir := m[1]
	if dir == "banyan" {
		dir = "."
	}
	i := slices.IndexFunc(t.pkgs, func(p *pkg) bool { return p.dir == dir })
	return i >= 0 && t.pkgs[i].hasTest(m[2])
}

var testName = regexp.MustCompile(`^([^.]+)\.((?:Test|Fuzz|Example)\w*)(?:/.*)?$`)

func (p *pkg) hasTest(name string) bool {
	for _, f := range p.files {
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if ok && f.isTest() && fn.Recv == nil && fn.Name.Name == name {
				return true
			}
		}
	}
	return false
}
