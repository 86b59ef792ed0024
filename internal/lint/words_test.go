package lint

import (
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// word is a private word for something that the field has a term for.
type word struct {
	// pattern matches one lower-case word as a whole.
	pattern string
	instead string
	// dirs are where it is one, with all below them; none means everywhere.
	dirs []string
	// namesOnly: in a sentence the word is plain English.
	namesOnly bool
}

// words is the glossary. A word that is matched here in an identifier, a comment or a document is an error.
var words = []word{
	{pattern: "moods?", instead: "core distance: near, far"},
	{pattern: "halls?", instead: "collective segment"},
	{pattern: "seats?", instead: "slot of a collective segment"},
	{pattern: "meetings?", instead: "rendezvous"},
	{pattern: "guests?", instead: "client (of a rendezvous)"},
	{pattern: "bury|buries|buried", instead: "reap"},
	{pattern: "concludes?|concluded", instead: "finish"},
	{pattern: "fates?", instead: "exit status"},
	{pattern: "lobby", instead: "handshake queue"},
	{pattern: "doorman", instead: "acceptor"},
	{pattern: "deafen|hearken", instead: "pause and resume accept"},
	{pattern: "pulses?", instead: "detector driver, heartbeat"},
	{pattern: "plead|pleads|pleaded", instead: "indirect probe"},
	{pattern: "vouch|vouches|vouched", instead: "confirm alive"},
	{pattern: "heralds?|heralded", instead: "notify"},
	{pattern: "inundates?|inundated", instead: "flood"},
	{pattern: "attendants?", instead: "progress goroutine"},
	{pattern: "careless", instead: "unaware"},
	{pattern: "bequeaths?|bequeathed", instead: "inherit"},
	{pattern: "heirs?", instead: "derived communicator"},
	{pattern: "ongoing", instead: "async operation"},
	{pattern: "seldom", instead: "ft state; rarely"},
	{pattern: "mourns?|mourned", instead: "report failure"},
	{pattern: "forsakes?|forsaken", instead: "detach, unreachable"},
	{pattern: "estranged", instead: "unreachable"},
	{pattern: "hopeless|bereft|deserted", instead: "match impossible"},
	{pattern: "expel|expels|expelled", instead: "fenced"},
	{pattern: "remarks?", instead: "connection log, comment"},
	{pattern: "contests?", instead: "comparison", dirs: []string{"cmd/ftbench", "bench"}},
	{pattern: "strangers?", instead: "unauthenticated connection", dirs: []string{"cmd/ftbench", "bench"}},
	{pattern: "gates?", instead: "the name of what is checked", dirs: []string{"cmd/ftbench", "bench"}},
	{pattern: "begun", instead: "non-blocking; started"},
	{pattern: "turned|together|halved?", instead: "Bruck, rootless allreduce, recursive halving-doubling", dirs: []string{"coll"}, namesOnly: true},
	{pattern: "marks?", instead: "length header", dirs: []string{"coll"}, namesOnly: true},
	{pattern: "raises?|raised", instead: "notify handler", dirs: []string{".", "internal/job", "p2p"}, namesOnly: true},
	{pattern: "seals?|sealed", instead: "close (a ballot)", dirs: []string{"ft"}},
}

// phrasesOfOurs are private phrases of several words, and names that break a rule of naming.
var phrasesOfOurs = regexp.MustCompile(`\b(the gone|I(Barrier|Bcast|Reduce|Allreduce|Gather|Scatter|Allgather|Agree|Shrink|Validate)\w*)\b`)

func (w *word) compiled() *regexp.Regexp { return regexp.MustCompile(`^(?:` + w.pattern + `)$`) }

func (w *word) in(dir string) bool {
	return len(w.dirs) == 0 || slices.ContainsFunc(w.dirs, func(d string) bool {
		return dir == d || d != "." && strings.HasPrefix(dir, d+"/")
	})
}

// checkWords: every term is one of MPI, UCX, libfabric or Go.
func checkWords(t *tree) []finding {
	compiled := make([]*regexp.Regexp, len(words))
	for i := range words {
		compiled[i] = words[i].compiled()
	}
	var out []finding
	check := func(file string, line int, text string, name bool) {
		for _, part := range splitWords(text) {
			for i := range words {
				w := &words[i]
				if (name || !w.namesOnly) && compiled[i].MatchString(part) && w.in(path.Dir(file)) {
					out = append(out, finding{path: file, line: line, msg: "\"" + part + "\" is a private word: " + w.instead})
				}
			}
		}
		if m := phrasesOfOurs.FindString(text); m != "" {
			out = append(out, finding{path: file, line: line, msg: "\"" + m + "\" is a private word"})
		}
	}
	for _, f := range t.texts {
		if path.Ext(f.path) == ".md" || path.Base(f.path) == "Makefile" {
			for i, line := range strings.Split(string(f.data), "\n") {
				check(f.path, i+1, line, false)
			}
		}
	}
	for _, p := range t.pkgs {
		for _, f := range p.files {
			if strings.HasPrefix(f.path, "internal/lint/") {
				continue // it holds the glossary
			}
			t.eachName(f, check)
		}
	}
	return out
}

// eachName visits the comments of a file and the identifiers that it declares or uses.
func (t *tree) eachName(f *source, check func(file string, line int, text string, name bool)) {
	for _, group := range f.ast.Comments {
		for _, c := range group.List {
			for i, line := range strings.Split(c.Text, "\n") {
				check(f.path, t.line(c)+i, line, false)
			}
		}
	}
	seen := map[string]bool{}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		if ok && !seen[id.Name] {
			seen[id.Name] = true
			check(f.path, t.line(id), id.Name, true)
		}
		return true
	})
	base := strings.TrimSuffix(path.Base(f.path), ".go")
	check(f.path, 1, base, true)
}

// splitWords gives the words of a text in lower case, those of identifiers one by one.
func splitWords(text string) []string {
	var out []string
	start, last := -1, rune(0)
	flush := func(end int) {
		if start >= 0 {
			out = append(out, strings.ToLower(text[start:end]))
		}
		start = -1
	}
	for i, r := range text {
		switch {
		case !unicode.IsLetter(r):
			flush(i)
		case unicode.IsUpper(r) && unicode.IsLower(last):
			flush(i)
			start = i
		case start < 0:
			start = i
		}
		last = r
	}
	flush(len(text))
	return out
}
