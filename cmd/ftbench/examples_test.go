package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	// exampleLine is a command line of ftbench in a page, a help text or a comment of a job's script.
	exampleLine = regexp.MustCompile(`^ *(?:\$ |sudo |mpiexec\S* -n \d+ |srun (?:-\S+ )+|[A-Z_]+=\S+ )*(?:bin/)?ftbench (.*)`)
	// otherLine is one of another program.
	otherLine = regexp.MustCompile(`^ *(?:\$ |make |go |kubectl |export |\(umask )`)
	// goesOn matches a command line that is continued in the next line.
	goesOn = regexp.MustCompile(` \\\n *`)
	// fenced is a block of commands or their output in Markdown.
	fenced = regexp.MustCompile("(?sm)^ *```[a-z]*\n(.*?)^ *```")
	// inline is a command line of ftbench in a sentence or a table, with options.
	inline = regexp.MustCompile("`((?:bin/)?ftbench ([^`…]* -[^`…]*[^-`…]))`")
	// word is a word of the shell, with its quotes.
	word = regexp.MustCompile(`(?:'[^']*'|"[^"]*"|[^\s'"])+`)
)

// example is a command line of a page.
type example struct {
	page  string
	block int    // of the page, counted from 0; -1: in a sentence
	line  string // for the shell
	args  string // of the first ftbench in it; empty if it begins with another program
	// says are the lines below it, up to the next command.
	says []string
}

// examples are the command lines of all pages and all help, in their order.
func examples(t *testing.T) (found []example) {
	t.Helper()
	pages, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	for _, page := range append(pages, "../../README.md") {
		b, err := os.ReadFile(page)
		require.NoError(t, err)
		help := filepath.Base(page) == "reference.md" // where examples are indented, and other lines are sentences
		for i, block := range fenced.FindAllStringSubmatch(string(b), -1) {
			last := -1
			for text := range strings.Lines(goesOn.ReplaceAllString(block[1], " ")) {
				e := example{page: filepath.Base(page), block: i, line: strings.TrimPrefix(strings.TrimSpace(text), "$ ")}
				m := exampleLine.FindStringSubmatch(strings.TrimSuffix(text, "\n"))
				switch {
				case help && (m == nil || !strings.HasPrefix(text, "    ")):
				case m != nil:
					e.args = m[1]
					found, last = append(found, e), len(found)
				case !help && otherLine.MatchString(text):
					found, last = append(found, e), len(found)
				case last >= 0:
					found[last].says = append(found[last].says, e.line)
				}
			}
		}
		if !help {
			for _, m := range inline.FindAllStringSubmatch(fenced.ReplaceAllString(string(b), ""), -1) {
				line, args := strings.ReplaceAll(m[1], "\n", " "), strings.ReplaceAll(m[2], "\n", " ")
				if !strings.HasPrefix(args, "run ") || strings.Contains(args, " -- ") { // else an option is meant
					found = append(found, example{filepath.Base(page), -1, line, args, nil})
				}
			}
		}
	}
	return found
}

// wordsOf are the words of a command line up to the shell's own: a pipe, a file, a comment.
func wordsOf(line string) (words []string) {
	for _, w := range word.FindAllString(line, -1) {
		if strings.ContainsAny(w[:1], "|>#&;<") {
			break
		}
		words = append(words, strings.NewReplacer("'", "", `"`, "", "$XDG_RUNTIME_DIR", "/run").Replace(w))
	}
	return words
}

// Every command line that is shown can be given: its command and options exist, and so do those of an
// ftbench that it starts.
func TestExamplesParse(t *testing.T) {
	all := examples(t)
	require.Greater(t, len(all), 200)
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("nodes", []byte("node1 slots=4\nnode2:4\n"), 0o600)) // of run --hostfile
	for _, e := range all {
		for words := wordsOf(e.args); len(words) > 0; {
			assert.NoError(t, parse(words), "%s: %s", e.page, e.line)
			words = nested(words)
		}
	}
}

// parse reads a command line and carries nothing out.
func parse(words []string) error {
	_, err := newParser(&call{words, io.Discard, io.Discard}, func(int) {}).Parse(words)
	return err
}

// nested are the arguments of the ftbench that a command line of ftbench run starts.
func nested(words []string) []string {
	for i, w := range words {
		if filepath.Base(w) == "ftbench" && i > 0 {
			return words[i+1:]
		}
	}
	return nil
}
