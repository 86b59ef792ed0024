package lint

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"sort"
	"strconv"
	"strings"
)

// module is the import path of the root package.
const module = "github.com/banyan-hpc/banyan"

// tree is the parsed project, or a small sample of one.
type tree struct {
	fset  *token.FileSet
	pkgs  []*pkg
	texts []text // every text file, Go sources included
}

// pkg is a directory with Go files. Files of the external test package count
// as its tests.
type pkg struct {
	dir   string // relative to the root with slashes; "." is the root package
	files []*source
}

type source struct {
	path string // relative to the root with slashes
	ast  *ast.File
	src  []byte
}

type text struct {
	path string
	data []byte
}

// finding is one breach of one rule.
type finding struct {
	rule string
	path string
	line int
	msg  string
}

func (f finding) String() string {
	return fmt.Sprintf("%s:%d: %s: %s", f.path, f.line, f.rule, f.msg)
}

// rule is a checker with its name, which exceptions refer to.
type rule struct {
	name  string
	check func(*tree) []finding
}

// skippedDirs hold nothing that is tracked.
var skippedDirs = map[string]bool{".git": true, "bin": true, "results": true}

// load reads and parses every file below the root. A file that does not parse
// is a finding, not an error, so that the others are still checked.
func load(root fs.FS) (*tree, []finding, error) {
	t := &tree{fset: token.NewFileSet()}
	byDir := map[string]*pkg{}
	var broken []finding
	err := fs.WalkDir(root, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if skippedDirs[p] {
				return fs.SkipDir
			}
			return nil
		}
		if p == ".git" { // a file in a linked worktree
			return nil
		}
		if !d.Type().IsRegular() || strings.HasSuffix(p, ".test") || strings.HasSuffix(p, ".prof") {
			return nil
		}
		data, err := fs.ReadFile(root, p)
		if err != nil {
			return err
		}
		if bytes.IndexByte(data, 0) >= 0 {
			return nil
		}
		t.texts = append(t.texts, text{p, data})
		if path.Ext(p) == ".go" && !strings.Contains(p, "testdata/") {
			broken = append(broken, t.parse(byDir, p, data)...)
		}
		return nil
	})
	for _, dir := range sortedKeys(byDir) {
		t.pkgs = append(t.pkgs, byDir[dir])
	}
	return t, broken, err
}

func (t *tree) parse(byDir map[string]*pkg, p string, data []byte) []finding {
	f, err := parser.ParseFile(t.fset, p, data, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return []finding{{"syntax", p, 0, err.Error()}}
	}
	dir := path.Dir(p)
	if byDir[dir] == nil {
		byDir[dir] = &pkg{dir: dir}
	}
	byDir[dir].files = append(byDir[dir].files, &source{path: p, ast: f, src: data})
	return nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

func (s *source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

// code lists the files that are built into a program.
func (p *pkg) code() []*source {
	var out []*source
	for _, f := range p.files {
		if !f.isTest() {
			out = append(out, f)
		}
	}
	return out
}

func (t *tree) line(n ast.Node) int { return t.fset.Position(n.Pos()).Line }

// at makes a finding whose rule's name is filled in by the runner.
func (t *tree) at(s *source, n ast.Node, format string, args ...any) finding {
	return finding{path: s.path, line: t.line(n), msg: fmt.Sprintf(format, args...)}
}

// importPath is the text between the quotes.
func importPath(spec *ast.ImportSpec) string {
	p, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		return spec.Path.Value
	}
	return p
}

// imports reports whether the file imports the package.
func (s *source) imports(want string) bool { return s.localName(want) != "" }

// localName is the local name of an imported package, "" if the file does not
// import it, and "." for a dot import.
func (s *source) localName(want string) string {
	for _, spec := range s.ast.Imports {
		if importPath(spec) != want {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return path.Base(want)
	}
	return ""
}

// uses visits every mention pkgPath.Name in the file.
func (s *source) uses(pkgPath string, visit func(sel *ast.SelectorExpr)) {
	local := s.localName(pkgPath)
	if local == "" {
		return
	}
	ast.Inspect(s.ast, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == local {
				visit(sel)
			}
		}
		return true
	})
}

// ownDir is the directory of an import of ours; ok is false for others'.
func ownDir(imp string) (dir string, ok bool) {
	if imp == module {
		return ".", true
	}
	return strings.CutPrefix(imp, module+"/")
}
