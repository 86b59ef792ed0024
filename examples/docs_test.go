package examples_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// goBlock is a block of Go in a page, with the comment above it that contains its surroundings.
var goBlock = regexp.MustCompile("(?s)(?:<!-- in\n(.*?)\n-->\n)?```go\n(.*?)```\n")

// place stands for the block within the declarations of its comment.
const place = "\n\t…\n"

// importable are the packages whose names a block may use without an import.
var importable = map[string]string{
	"banyan": "github.com/banyan-hpc/banyan", "context": "context", "errors": "errors", "fmt": "fmt", "os": "os",
	"slices": "slices", "time": "time", "topology": "github.com/banyan-hpc/banyan/coll/topology",
	"layout": "github.com/banyan-hpc/banyan/coll/layout",
}

// programOf makes a file of a block. A block with a package clause is a file. To any other block it adds the
// package clause and the imports of the names that it uses. A block that is a part of a function has a comment
// above it, which is invisible to the reader of the page: the declarations that it needs, with a line of "…" in
// its place.
func programOf(around, block string) (string, error) {
	if strings.HasPrefix(block, "package ") {
		return block, nil
	}
	body := block
	if around != "" {
		if strings.Count(around+"\n", place) != 1 {
			return "", fmt.Errorf("the comment above it has not one line with a tab and …: %s", around)
		}
		body = strings.Replace(around+"\n", place, "\n"+block, 1)
	}
	clause := "package part\n"
	if regexp.MustCompile(`(?m)^func main\(`).MatchString(body) {
		clause = "package main\n"
	}
	for name, path := range importable {
		if regexp.MustCompile(`\b` + name + `\.[A-Z]`).MatchString(body) {
			clause += fmt.Sprintf("import %q\n", path)
		}
	}
	return clause + body, nil
}

// Every block of Go in the pages compiles in a module of its own, and go vet finds nothing in it.
func TestBlocksOfPagesCompile(t *testing.T) {
	pages, err := filepath.Glob("../docs/*.md")
	require.NoError(t, err)
	dir := userModule(t)
	blocks := 0
	for _, page := range append(pages, "../README.md") {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		found := goBlock.FindAllStringSubmatchIndex(string(text), -1)
		require.Len(t, found, strings.Count(string(text), "```go"), "%s: a block is indented", page)
		for _, at := range found {
			around := ""
			if at[2] >= 0 {
				around = string(text[at[2]:at[3]])
			}
			line := 1 + strings.Count(string(text[:at[4]]), "\n")
			program, err := programOf(around, string(text[at[4]:at[5]]))
			require.NoError(t, err, "%s:%d", page, line)
			name := fmt.Sprintf("%s_line%d", strings.TrimSuffix(filepath.Base(page), ".md"), line)
			require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(dir, name, "block.go"), []byte(program), 0o600))
			blocks++
		}
	}
	require.GreaterOrEqual(t, blocks, 5)
	vet := exec.Command("go", "vet", "./...")
	vet.Dir = dir
	out, err := vet.CombinedOutput()
	require.NoError(t, err, "page and line are in the name of the directory:\n%s", out)
}

// The first program of the guide is built and run by the command below it.
func TestFirstProgramOfTheGuide(t *testing.T) {
	guide, err := os.ReadFile("../docs/guide.md")
	require.NoError(t, err)
	const command = "go build -o squares . && ftbench run -n 4 -- ./squares"
	require.Contains(t, string(guide), "\n"+command+"\n")
	dir := userModule(t)
	program := goBlock.FindStringSubmatch(string(guide))[2]
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o600))
	out, err := exec.Command("go", "build", "-o", dir, "../cmd/ftbench").CombinedOutput()
	require.NoError(t, err, "%s", out)
	shell := exec.Command("sh", "-c", command)
	shell.Dir, shell.Env = dir, append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	out, err = shell.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, "rank 1 sent 1\nrank 2 sent 4\nrank 3 sent 9\n", string(out))
}

// userModule makes a module that uses this one, and returns its directory.
func userModule(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	mod, err := os.ReadFile("../go.mod")
	require.NoError(t, err)
	const module = "github.com/banyan-hpc/banyan"
	text := strings.Replace(string(mod), "module "+module, "module example.com/blocks", 1) +
		fmt.Sprintf("\nrequire %s v0.0.0\nreplace %[1]s => %q\n", module, root)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte(text), 0o600))
	sum, err := os.ReadFile("../go.sum")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.sum"), sum, 0o600))
	return dir
}
