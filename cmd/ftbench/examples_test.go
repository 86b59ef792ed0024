package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	// exampleLine is a command line in a page, a help text or a comment of a job's script.
	exampleLine = regexp.MustCompile(`(?m)^ *(?:\$ |sudo |mpiexec\S* -n \d+ |srun (?:-\S+ )+|[A-Z_]+=\S+ )*(?:bin/)?ftbench (.*)`)
	// goesOn is where a command line goes on in the next line.
	goesOn = regexp.MustCompile(` \\\n *`)
	// fenced is a block of commands or their output in Markdown.
	fenced = regexp.MustCompile("(?sm)^ *```[a-z]*\n(.*?)^ *```")
	// word is a word of the shell, with its quotes.
	word = regexp.MustCompile(`(?:'[^']*'|"[^"]*"|[^\s'"])+`)
)

// examples are the command lines of all pages and all help, each with the place it is from.
func examples(t *testing.T) map[string]string {
	t.Helper()
	pages, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	found := map[string]string{}
	for _, page := range append(pages, "../../README.md") {
		b, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, block := range fenced.FindAllStringSubmatch(string(b), -1) { // the reference has the help
			block[1] = goesOn.ReplaceAllString(block[1], " ")
			for _, line := range exampleLine.FindAllStringSubmatch(block[1], -1) {
				if filepath.Base(page) == "reference.md" && !strings.HasPrefix(line[0], "    ") {
					continue // a sentence: examples are indented there
				}
				found[line[1]] = page
			}
		}
	}
	return found
}

// wordsOf are the words of a command line up to what is the shell's: a pipe, a file, a comment.
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
	require.Greater(t, len(all), 150)
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("nodes", []byte("node1 slots=4\nnode2:4\n"), 0o600)) // of run --hostfile
	for line, page := range all {
		for words := wordsOf(line); len(words) > 0; {
			cli := commands{Osu: newOsuCmd(), Fault: newFaultCmd()}
			parser, err := kong.New(&cli, kong.NamedMapper("ranks", rankMapper{}), kong.Vars{"version": version()},
				kong.Exit(func(int) {}), kong.Writers(new(strings.Builder), new(strings.Builder)))
			require.NoError(t, err)
			_, err = parser.Parse(words)
			assert.NoError(t, err, "%s: ftbench %s", page, line)
			words = nested(words)
		}
	}
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
