package lint

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// rules is everything that is checked.
var rules = []rule{
	{"arrows", checkArrows},
	{"placed", checkPlaced},
	{"floor", checkFloorStated},
	{"bans", checkBans},
	{"waiting", checkWaiting},
	{"format", checkFormat},
	{"package doc", checkPackageDoc},
	{"package name", checkPackageName},
	{"lengths", checkLengths},
	{"root", checkRoot},
	{"unsafe", checkUnsafe},
	{"dot imports", checkDotImports},
	{"skips", checkSkips},
	{"sleeps", checkSleeps},
	{"comments", checkComments},
	{"phrases", checkPhrases},
	{"words", checkWords},
	{"ledger", checkLedger},
	{"decoders", checkDecoders},
}

func (r rule) run(t *tree) []finding {
	found := r.check(t)
	for i := range found {
		found[i].rule = r.name
	}
	return found
}

// project is the whole module, as seen from this folder.
func project(t *testing.T) (*tree, []finding) {
	t.Helper()
	tr, broken, err := load(os.DirFS("../.."))
	require.NoError(t, err)
	require.Greater(t, len(tr.pkgs), 1, "found no packages: is ../.. the root of the module?")
	return tr, broken
}

// TestRules holds the whole module to the house rules.
func TestRules(t *testing.T) {
	tr, found := project(t)
	for _, r := range rules {
		found = append(found, r.run(tr)...)
	}
	for _, f := range except(found, exceptions) {
		t.Error(f)
	}
}

// TestHouseIsOrdered checks the table of floors itself: the longest entry that
// covers a folder decides, so no folder may stand there twice.
func TestHouseIsOrdered(t *testing.T) {
	sorted := slices.IsSortedFunc(house, func(a, b place) int { return a.tenths - b.tenths })
	require.True(t, sorted, "the table is read from the ground up")
	for i, p := range house {
		for _, q := range house[:i] {
			require.NotEqual(t, q.dir, p.dir, "it stands there twice")
		}
	}
}

// TestApplicationIsLight asks the go command for the dependencies of each package
// that an application links, others' packages included.
func TestApplicationIsLight(t *testing.T) {
	tr, _ := project(t)
	args := []string{"list", "-e", "-f", `{{.ImportPath}} {{join .Deps " "}}`}
	for _, p := range tr.pkgs {
		if tenths, ok := placeOf(p.dir); ok && tenths < harnessFloor && len(p.code()) > 0 {
			args = append(args, "./"+p.dir)
		}
	}
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Stderr = "../..", os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err)
	for line := range strings.Lines(string(out)) {
		for _, complaint := range heavy(strings.Fields(line)) {
			t.Error(complaint)
		}
	}
}

// heavy gets a package and its dependencies.
func heavy(pkgAndDeps []string) []string {
	dir, _ := ownDir(pkgAndDeps[0])
	tenths, _ := placeOf(dir)
	var out []string
	for _, b := range bans {
		for _, dep := range pkgAndDeps[1:] {
			if b.deep && b.names(dep) && b.to(dir, tenths) {
				out = append(out, dir+" brings "+dep+" along: "+b.why)
			}
		}
	}
	return out
}

// TestHeavyHasTeeth feeds heavy lists that it must refuse and lists that it must not.
func TestHeavyHasTeeth(t *testing.T) {
	require.Empty(t, heavy([]string{module, "time", "github.com/other/lib"}))
	require.Len(t, heavy([]string{module, "github.com/other/lib", "net/http", "testing"}), 2)
	require.Empty(t, heavy([]string{module + "/" + fabricTest, "testing"}))
}
