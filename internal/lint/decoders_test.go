package lint

import (
	"fmt"
	"go/ast"
	"regexp"
	"slices"
	"strings"
)

// securityPath is the document that lists the fuzz targets, a row each: target, entry points, property.
const securityPath = "docs/security.md"

// primitives convert foreign bytes to values, by import path. Below the harnesses only readers of shared
// memory decode without one of them; they have the directive decodes.
var primitives = map[string][]string{
	"encoding/binary":       {"Uvarint", "Varint", "Read", "ReadUvarint", "Decode"},
	"encoding/gob":          {"NewDecoder"},
	"encoding/hex":          {"Decode", "DecodeString"},
	"encoding/json":         {"Unmarshal", "NewDecoder"},
	"fmt":                   {"Sscan", "Sscanf", "Sscanln", "Fscan", "Fscanf", "Fscanln"},
	"bufio":                 {"NewScanner"},
	"bytes":                 {"Cut", "Fields", "Split"},
	"net/netip":             {"ParseAddr", "ParseAddrPort", "ParsePrefix", "AddrFromSlice"},
	"strconv":               {"Atoi", "ParseBool", "ParseFloat", "ParseInt", "ParseUint", "Unquote"},
	"strings":               {"Cut", "Fields", "FieldsFunc", "Split", "SplitN"},
	"time":                  {"ParseDuration"},
	"golang.org/x/sys/unix": {"ParseSocketControlMessage", "ParseUnixRights", "ParseUnixCredentials"},
}

// anyones are methods that decode, for any name of the value: of a byte order and of a reader.
var anyones = []string{"Uint16", "Uint32", "Uint64", "ReadSlice", "ReadString"}

// decodes marks a function that reads data of another process without a primitive.
const decodes = "//banyan:decodes"

// foreign lists packages that decode nothing of which a program depends.
var foreign = map[string]string{
	"fabric/fabrictest": "the conformance suite reads what its own processes write",
	"fabric/sim":        "the simulator reads what it has written itself, in one process",
}

// target is a row of the table.
type target struct {
	name string // folder.FuzzName
	dir  string
	fuzz string
	// entries are functions, or Type.method; with its folder one of another package, which the target
	// reaches through others.
	entries []string
	line    int
}

func (x target) complain(format string, args ...any) finding {
	return finding{path: securityPath, line: x.line, msg: x.name + ": " + fmt.Sprintf(format, args...)}
}

// targets reads the table: its rows begin with a quoted fuzz target.
func targets(doc string) (out []target) {
	for i, line := range strings.Split(doc, "\n") {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			continue
		}
		m := quoted.FindStringSubmatch(cells[1])
		if m == nil {
			continue
		}
		parts := testName.FindStringSubmatch(m[1])
		if parts == nil || !strings.HasPrefix(parts[2], "Fuzz") {
			continue
		}
		x := target{name: m[1], dir: strings.TrimPrefix(parts[1], "banyan"), fuzz: parts[2], line: i + 1}
		if x.dir == "" {
			x.dir = "."
		}
		for _, e := range quoted.FindAllStringSubmatch(cells[2], -1) {
			x.entries = append(x.entries, e[1])
		}
		out = append(out, x)
	}
	return out
}

// checkDecoders: docs/security.md names tests that exist; its table of targets has every fuzz target of the
// tree and no other; each reaches the entry points that it names; and each function that decodes is reached
// from such an entry point of its package. Calls are resolved by names: if the type is not known a
// call of x.f reaches every method f of the package.
func checkDecoders(t *tree) []finding {
	i := slices.IndexFunc(t.texts, func(f text) bool { return f.path == securityPath })
	if i < 0 {
		return []finding{{path: securityPath, msg: "is missing"}}
	}
	rows := targets(string(t.texts[i].data))
	var out []finding
	listed := map[string]bool{}
	for _, x := range rows {
		if listed[x.name] {
			out = append(out, x.complain("stands here twice"))
		}
		listed[x.name] = true
		if !t.hasTest(x.name) {
			out = append(out, x.complain("there is no such target"))
		}
	}
	for _, p := range t.pkgs {
		out = append(out, p.unfuzzed(t, rows, listed)...)
	}
	return append(out, t.unknownTests(string(t.texts[i].data), listed)...)
}

// unknownTests gives the tests that the document names and that do not exist; targets in the table have been
// looked for.
func (t *tree) unknownTests(doc string, listed map[string]bool) (out []finding) {
	for i, line := range strings.Split(doc, "\n") {
		for _, m := range quoted.FindAllStringSubmatch(line, -1) {
			if testName.MatchString(m[1]) && !listed[m[1]] && !t.hasTest(m[1]) {
				msg := fmt.Sprintf("test %s does not exist", m[1])
				out = append(out, finding{path: securityPath, line: i + 1, msg: msg})
			}
		}
	}
	return out
}

// unfuzzed gives the findings in one package.
func (p *pkg) unfuzzed(t *tree, rows []target, listed map[string]bool) (out []finding) {
	calls := p.callGraph()
	var entries []*ast.FuncDecl
	for _, x := range rows {
		for _, e := range x.entries {
			if e, ok := strings.CutPrefix(e, p.folder()+"."); ok {
				found := p.named(e, false)
				if len(found) == 0 {
					out = append(out, x.complain("there is no %s in %s", e, p.dir))
				}
				entries = append(entries, found...)
			}
		}
		if x.dir != p.dir {
			continue
		}
		reached := calls.from(p.named(x.fuzz, true))
		for _, e := range x.entries {
			if t.inFolder(e) {
				continue
			}
			found := p.named(e, false)
			if len(found) == 0 || !slices.ContainsFunc(found, func(fn *ast.FuncDecl) bool { return reached[fn] }) {
				out = append(out, x.complain("does not reach %s", e))
			}
			entries = append(entries, found...)
		}
	}
	tenths, ok := placeOf(p.dir)
	mine := ok && tenths <= applicationFloor && foreign[p.dir] == ""
	decoded := calls.from(entries)
	for _, f := range p.files {
		for _, fn := range f.functions() {
			switch name := p.folder() + "." + fn.Name.Name; {
			case f.isTest() && strings.HasPrefix(fn.Name.Name, "Fuzz") && !listed[name]:
				out = append(out, t.at(f, fn, "fuzz target %s is not in the table of %s", name, securityPath))
			case !f.isTest() && mine && f.decoder(fn) && !decoded[fn]:
				out = append(out, t.at(f, fn, "%s decodes, and no entry point of a fuzz target reaches it: "+
					"add one, and its row in %s", fn.Name.Name, securityPath))
			}
		}
	}
	return out
}

// folder is the name of a package in the documents: its directory, for the root "banyan".
func (p *pkg) folder() string {
	if p.dir == "." {
		return "banyan"
	}
	return p.dir
}

// inFolder reports whether an entry point is named with its folder.
func (t *tree) inFolder(e string) bool {
	return slices.ContainsFunc(t.pkgs, func(p *pkg) bool { return strings.HasPrefix(e, p.folder()+".") })
}

// named finds functions by their names, methods as Type.method.
func (p *pkg) named(name string, test bool) (out []*ast.FuncDecl) {
	for _, f := range p.files {
		for _, fn := range f.functions() {
			if f.isTest() == test && (fn.Name.Name == name || receiver(fn)+"."+fn.Name.Name == name) {
				out = append(out, fn)
			}
		}
	}
	return out
}

// receiver is the name of a method's type, "" of a function.
func receiver(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return ""
	}
	name := ""
	ast.Inspect(fn.Recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && name == "" {
			name = id.Name
		}
		return true
	})
	return name
}

func (s *source) functions() []*ast.FuncDecl {
	var out []*ast.FuncDecl
	for _, d := range s.ast.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
			out = append(out, fn)
		}
	}
	return out
}

// decoderName is how functions are named that decode by others.
var decoderName = regexp.MustCompile(`^([Dd]ecode|[Pp]arse)`)

// decoder reports whether a function calls a primitive, has the directive, or is named for it and takes bytes
// or text.
func (s *source) decoder(fn *ast.FuncDecl) (yes bool) {
	if decoderName.MatchString(fn.Name.Name) && takesText(fn) {
		return true
	}
	if fn.Doc != nil && slices.ContainsFunc(fn.Doc.List, func(c *ast.Comment) bool { return c.Text == decodes }) {
		return true
	}
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if sel, ok := call.Fun.(*ast.SelectorExpr); ok {
				yes = yes || s.isPrimitive(sel, len(call.Args))
			}
		}
		return !yes
	})
	return yes
}

// takesText reports whether a function has a parameter of []byte or string.
func takesText(fn *ast.FuncDecl) bool {
	return slices.ContainsFunc(fn.Type.Params.List, func(f *ast.Field) bool {
		e := f.Type
		if list, ok := e.(*ast.ArrayType); ok {
			e = list.Elt
		}
		id, ok := e.(*ast.Ident)
		return ok && (id.Name == "byte" || id.Name == "string")
	})
}

func (s *source) isPrimitive(sel *ast.SelectorExpr, args int) bool {
	if args == 1 && slices.Contains(anyones, sel.Sel.Name) {
		return true
	}
	x, ok := sel.X.(*ast.Ident)
	if !ok {
		return false
	}
	for imp, names := range primitives {
		if slices.Contains(names, sel.Sel.Name) && s.localName(imp) == x.Name {
			return true
		}
	}
	return false
}

// callGraph has the functions of a package, tests included: functions by name, methods by name and by Type.name.
type callGraph struct {
	dir                string
	functions, methods map[string][]*ast.FuncDecl
	file               map[*ast.FuncDecl]*source
}

func (p *pkg) callGraph() *callGraph {
	g := &callGraph{p.dir, map[string][]*ast.FuncDecl{}, map[string][]*ast.FuncDecl{}, map[*ast.FuncDecl]*source{}}
	for _, f := range p.files {
		for _, fn := range f.functions() {
			g.file[fn] = f
			name := fn.Name.Name
			if r := receiver(fn); r != "" {
				g.methods[name] = append(g.methods[name], fn)
				g.methods[r+"."+name] = append(g.methods[r+"."+name], fn)
			} else {
				g.functions[name] = append(g.functions[name], fn)
			}
		}
	}
	return g
}

// from returns all functions that some functions reach: by a call, or by passing or keeping a function.
func (g *callGraph) from(next []*ast.FuncDecl) map[*ast.FuncDecl]bool {
	reached := map[*ast.FuncDecl]bool{}
	for len(next) > 0 {
		fn := next[len(next)-1]
		next = next[:len(next)-1]
		if reached[fn] {
			continue
		}
		reached[fn] = true
		ast.Inspect(fn.Body, func(n ast.Node) bool {
			var used []ast.Expr
			switch n := n.(type) {
			case *ast.CallExpr:
				used = append(append(used, n.Fun), n.Args...)
			case *ast.CompositeLit:
				used = n.Elts
			case *ast.KeyValueExpr:
				used = append(used, n.Value)
			}
			for _, e := range used {
				next = append(next, g.named(fn, e)...)
			}
			return true
		})
	}
	return reached
}

// named returns the functions that an expression in a function may name: f, x.f, f[T]. If x is the function's receiver
// its type is known; otherwise it may have any type. Functions of other packages are not followed.
func (g *callGraph) named(fn *ast.FuncDecl, e ast.Expr) []*ast.FuncDecl {
	switch e := e.(type) {
	case *ast.Ident:
		return g.functions[e.Name]
	case *ast.IndexExpr:
		return g.named(fn, e.X)
	case *ast.IndexListExpr:
		return g.named(fn, e.X)
	case *ast.SelectorExpr:
		if x, ok := e.X.(*ast.Ident); ok {
			own := g.methods[receiver(fn)+"."+e.Sel.Name]
			if own != nil && fn.Recv.List[0].Names != nil && x.Name == fn.Recv.List[0].Names[0].Name {
				return own
			}
			for _, spec := range g.file[fn].ast.Imports {
				if g.file[fn].localName(importPath(spec)) != x.Name {
					continue
				}
				if dir, ours := ownDir(importPath(spec)); ours && dir == g.dir { // from an external test
					return g.functions[e.Sel.Name]
				}
				return nil
			}
		}
		return g.methods[e.Sel.Name]
	}
	return nil
}
