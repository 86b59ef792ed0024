package lint

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// Lengths in lines. The habit is shorter (functions under ten, files under 300).
const (
	maxFuncLines = 60
	maxFileLines = 400
)

// checkFormat: sources are as gofmt writes them.
func checkFormat(t *tree) []finding {
	return eachFile(t, func(_ *pkg, f *source) []finding {
		want, err := format.Source(f.src)
		if err != nil || bytes.Equal(want, f.src) {
			return nil
		}
		return []finding{t.at(f, f.ast, "is not gofmt-clean")}
	})
}

// eachFile gathers the findings in every Go file, tests included.
func eachFile(t *tree, check func(*pkg, *source) []finding) []finding {
	var out []finding
	for _, p := range t.pkgs {
		for _, f := range p.files {
			out = append(out, check(p, f)...)
		}
	}
	return out
}

// checkPackageDoc: every package has a package comment in doc.go. An example is
// one file that is read from top to bottom, so there the file itself has it.
func checkPackageDoc(t *tree) []finding {
	var out []finding
	for _, p := range t.pkgs {
		code := p.code()
		if len(code) == 0 {
			continue
		}
		doc := p.file("doc.go")
		if strings.HasPrefix(p.dir, "examples/") {
			doc = code[0]
		}
		if doc == nil {
			out = append(out, finding{path: p.dir, msg: "has no doc.go"})
			continue
		}
		text := doc.ast.Doc.Text()
		if start := "Package " + doc.ast.Name.Name; doc.ast.Name.Name == "main" && text == "" ||
			doc.ast.Name.Name != "main" && !strings.HasPrefix(text, start+" ") {
			out = append(out, t.at(doc, doc.ast, "has no package comment that starts with %q (any, for package main)", start))
		}
	}
	return out
}

func (p *pkg) file(name string) *source {
	for _, f := range p.files {
		if path.Base(f.path) == name {
			return f
		}
	}
	return nil
}

var emptyNames = []string{"util", "utils", "common", "helper", "helpers", "misc", "shared", "base", "lib"}

// checkPackageName: a package is named for its one idea.
func checkPackageName(t *tree) []finding {
	return eachFile(t, func(p *pkg, f *source) []finding {
		name := strings.TrimSuffix(f.ast.Name.Name, "_test")
		if slices.Contains(emptyNames, name) || slices.Contains(emptyNames, path.Base(p.dir)) {
			return []finding{t.at(f, f.ast.Name, "package %s is named for nothing: name it for its idea", name)}
		}
		return nil
	})
}

// checkLengths: functions and files can be read at a sitting.
func checkLengths(t *tree) []finding {
	return eachFile(t, func(_ *pkg, f *source) []finding {
		var out []finding
		if n := bytes.Count(f.src, []byte("\n")); n > maxFileLines {
			out = append(out, finding{path: f.path, line: n, msg: "has more than 400 lines: two topics"})
		}
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			n := t.fset.Position(fn.End()).Line - t.line(fn) + 1
			if n > maxFuncLines {
				out = append(out, t.at(f, fn, "%s has %d lines, more than %d", fn.Name.Name, n, maxFuncLines))
			}
		}
		return out
	})
}

// The list of the root folder fits a screen. Entries are files and folders at the root that may be tracked.
const (
	maxRootFiles   = 20
	maxRootEntries = 36
)

// checkRoot: the root has few Go files, tests included, and few entries. The code of one topic goes into one
// file, and code without a communicator below internal.
func checkRoot(t *tree) []finding {
	entries, files := map[string]bool{}, 0
	for _, f := range t.texts {
		first, _, below := strings.Cut(f.path, "/")
		entries[first] = true
		if !below && path.Ext(first) == ".go" {
			files++
		}
	}
	var out []finding
	if files > maxRootFiles {
		msg := fmt.Sprintf("has %d Go files, more than %d: join those of one topic", files, maxRootFiles)
		out = append(out, finding{path: ".", msg: msg})
	}
	if len(entries) > maxRootEntries {
		msg := fmt.Sprintf("has %d entries, more than %d: move some into folders", len(entries), maxRootEntries)
		out = append(out, finding{path: ".", msg: msg})
	}
	return out
}

// unsafeName matches ring_unsafe.go and ring_unsafe_amd64.go.
var unsafeName = regexp.MustCompile(`_unsafe(_[a-z0-9]+)*\.go$`)

// checkUnsafe: the danger shows in a listing of the folder, and only there.
func checkUnsafe(t *tree) []finding {
	return eachFile(t, func(_ *pkg, f *source) []finding {
		if f.isTest() {
			return nil
		}
		named, used := unsafeName.MatchString(f.path), f.imports("unsafe")
		switch {
		case used && !named:
			return []finding{t.at(f, f.ast, "imports unsafe: its name must end in _unsafe.go (or _unsafe_GOARCH.go)")}
		case named && !used:
			return []finding{t.at(f, f.ast, "is named _unsafe and does not import unsafe")}
		}
		return nil
	})
}

// checkDotImports: a reader must see where a name comes from.
func checkDotImports(t *tree) []finding {
	return eachFile(t, func(_ *pkg, f *source) []finding {
		var out []finding
		for _, spec := range f.ast.Imports {
			if spec.Name != nil && spec.Name.Name == "." {
				out = append(out, t.at(f, spec, "dot import of %s", importPath(spec)))
			}
		}
		return out
	})
}

// checkSkips: a test that is skipped proves nothing; a test that cannot run here
// is an exception with its reason.
func checkSkips(t *tree) []finding {
	return eachFile(t, func(_ *pkg, f *source) []finding {
		if !f.imports("testing") {
			return nil
		}
		var out []finding
		ast.Inspect(f.ast, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if ok && slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, sel.Sel.Name) {
				out = append(out, t.at(f, sel, "skips a test"))
			}
			return true
		})
		return out
	})
}

// checkSleeps: sleeping is no synchronisation. Outside of tests the rule
// `waiting` covers it.
func checkSleeps(t *tree) []finding {
	return eachFile(t, func(_ *pkg, f *source) []finding {
		var out []finding
		if f.isTest() || f.imports("testing") {
			f.uses("time", func(sel *ast.SelectorExpr) {
				if sel.Sel.Name == "Sleep" {
					out = append(out, t.at(f, sel, "sleeps in a test: wait for the event instead"))
				}
			})
		}
		return out
	})
}

// checkComments: every exported name has a comment.
func checkComments(t *tree) []finding {
	return eachFile(t, func(_ *pkg, f *source) []finding {
		if f.isTest() {
			return nil
		}
		var out []finding
		for _, d := range f.ast.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && exportedReceiver(d) {
					out = append(out, t.wantDoc(f, d, d.Name.Name, d.Doc)...)
				}
			case *ast.GenDecl:
				out = append(out, t.commentsOf(f, d)...)
			}
		}
		return out
	})
}

// exportedReceiver is true for functions and for methods that go doc shows.
func exportedReceiver(fn *ast.FuncDecl) bool {
	if fn.Recv == nil || len(fn.Recv.List) == 0 {
		return true
	}
	expr := fn.Recv.List[0].Type
	for {
		switch e := expr.(type) {
		case *ast.StarExpr:
			expr = e.X
		case *ast.IndexExpr:
			expr = e.X
		case *ast.IndexListExpr:
			expr = e.X
		case *ast.Ident:
			return e.IsExported()
		default:
			return true
		}
	}
}

// commentsOf checks types, constants and variables. Constants and variables in
// a group may rely on the comment of the group or have one of their own.
func (t *tree) commentsOf(f *source, d *ast.GenDecl) []finding {
	var out []finding
	for _, s := range d.Specs {
		switch s := s.(type) {
		case *ast.TypeSpec:
			if !s.Name.IsExported() {
				continue
			}
			doc := s.Doc
			if doc == nil && !d.Lparen.IsValid() {
				doc = d.Doc
			}
			out = append(out, t.wantDoc(f, s, s.Name.Name, doc)...)
			out = append(out, t.methodComments(f, s, doc.Text())...)
		case *ast.ValueSpec:
			out = append(out, t.valueComment(f, d, s)...)
		}
	}
	return out
}

func (t *tree) valueComment(f *source, d *ast.GenDecl, s *ast.ValueSpec) []finding {
	i := slices.IndexFunc(s.Names, (*ast.Ident).IsExported)
	if i < 0 {
		return nil
	}
	if d.Lparen.IsValid() {
		if d.Doc == nil && s.Doc == nil && s.Comment == nil {
			return []finding{t.at(f, s, "exported %s has no comment, nor has its group", s.Names[i].Name)}
		}
		return nil
	}
	return t.wantDoc(f, s, s.Names[i].Name, d.Doc)
}

// methodComments: an interface is a contract, so each of its methods has a
// comment, or the interface's own comment mentions it.
func (t *tree) methodComments(f *source, s *ast.TypeSpec, doc string) []finding {
	it, ok := s.Type.(*ast.InterfaceType)
	if !ok {
		return nil
	}
	var out []finding
	for _, m := range it.Methods.List {
		if len(m.Names) == 0 || !m.Names[0].IsExported() || m.Doc != nil || m.Comment != nil {
			continue
		}
		if name := m.Names[0].Name; !slices.Contains(strings.FieldsFunc(doc, notLetter), name) {
			out = append(out, t.at(f, m, "method %s of interface %s has no comment", name, s.Name.Name))
		}
	}
	return out
}

func notLetter(r rune) bool { return !unicode.IsLetter(r) }

// longerName finds that a name goes on: Get in "Getter is".
var longerName = regexp.MustCompile(`^[\pL\d_]`)

// wantDoc asks for a comment that starts with the name, as go doc does.
func (t *tree) wantDoc(f *source, n ast.Node, name string, doc *ast.CommentGroup) []finding {
	if doc == nil || strings.TrimSpace(doc.Text()) == "" {
		return []finding{t.at(f, n, "exported %s has no doc comment", name)}
	}
	text := doc.Text()
	for _, lead := range []string{"", "A ", "An ", "The "} {
		rest, ok := strings.CutPrefix(text, lead+name)
		if ok && !longerName.MatchString(rest) {
			return nil
		}
	}
	if strings.HasPrefix(text, "Deprecated:") {
		return nil
	}
	return []finding{t.at(f, n, "the comment of exported %s does not start with its name", name)}
}

// phrase is text that no tracked file may contain. The patterns are put
// together from pieces so that this file does not contain them itself.
type phrase struct {
	pattern *regexp.Regexp
	why     string
}

var phrases = []phrase{
	{
		regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X|HA` + `CK)\b`),
		"work left undone: do it, or put it into docs/status.md",
	},
	{
		regexp.MustCompile(`(^|[\s"'` + "`" + `(=:])/(work|root|home/[a-z]+)/`),
		"a path of a developer's machine",
	},
	{
		regexp.MustCompile(`(?i)\bthis (com` + `mit|ses` + `sion|pull req` + `uest|pa` + `tch)\b|\bas discus` + `sed\b`),
		"speaks of how the file came about: say what is",
	},
}

// checkPhrases: tracked files hold no leftovers.
func checkPhrases(t *tree) []finding {
	var out []finding
	for _, f := range t.texts {
		if path.Base(f.path) == "go.sum" {
			continue
		}
		for i, line := range strings.Split(string(f.data), "\n") {
			for _, p := range phrases {
				if m := p.pattern.FindString(line); m != "" {
					out = append(out, finding{path: f.path, line: i + 1, msg: "\"" + strings.TrimSpace(m) + "\": " + p.why})
				}
			}
		}
	}
	return out
}
