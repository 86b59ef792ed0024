package main

import (
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/banyan-hpc/banyan/bench/table"
)

type docsCmd struct {
	Format string `arg:"" enum:"man,markdown" help:"The format: ${enum}."`
}

func (docsCmd) Help() string {
	return `Prints the help of all commands as one document: a page for man, or Markdown, which
docs/reference.md is. Of flags that several commands of a group share the first of them has
the description.

Examples:
  ftbench docs man | man -l -
  ftbench docs markdown`
}

// Run prints the document.
func (c *docsCmd) Run(to *call, ctx *kong.Context) error {
	var text strings.Builder
	write := markdownSection
	if c.Format == "man" {
		text.WriteString(".TH FTBENCH 1\n.SH NAME\nftbench \\- start jobs and measure Banyan\n")
		write = manSection
	} else {
		text.WriteString("# Reference of ftbench\n\nThe help of each command; of flags that several commands of a group share the\nfirst of them has the description. `make docs` writes this file.\n")
	}
	commands, described := []string{""}, sections{}
	for _, leaf := range ctx.Model.Leaves(true) {
		commands = append(commands, leaf.Path())
	}
	for _, path := range commands {
		name := strings.TrimSpace(strings.TrimPrefix(path, "ftbench"))
		if name, _, _ = strings.Cut(name, " <"); strings.HasPrefix(name, "<") {
			name = ""
		}
		var help strings.Builder
		if code := run(&call{append(strings.Fields(name), "--help"), &help, io.Discard}); code != 0 {
			return fmt.Errorf("the help of %q ends with code %d", name, code)
		}
		section := strings.TrimSpace("ftbench " + name)
		write(&text, section, described.shorten(section, help.String()))
	}
	_, err := io.WriteString(to.out, text.String())
	return err
}

// sections has, by the group of a command and the description of a flag, the first section with it.
type sections map[string]string

// flag matches the description of one flag, which begins with its names.
var flag = regexp.MustCompile(`(?m)^ {2}(-\w, | {4})(--[\w\[\]-]+).*\n( {7,}.*\n)*`)

// shorten names the flags that an earlier section of the same group describes, in place of describing them again.
func (s sections) shorten(section, help string) string {
	before, flags, _ := strings.Cut(help, "\nFlags:\n")
	words := strings.Fields(section)
	if len(words) < 3 {
		return help
	}
	var order []string // of earlier sections
	names := map[string][]string{}
	own := flag.ReplaceAllStringFunc(flags, func(text string) string {
		key := words[1] + " " + strings.Join(strings.Fields(text), " ")
		first, known := s[key]
		if !known {
			s[key] = section
			return text
		}
		if names[first] == nil {
			order = append(order, first)
		}
		names[first] = append(names[first], flag.FindStringSubmatch(text)[2])
		return ""
	})
	for _, first := range order {
		own += foldHelp(fmt.Sprintf("  As for %s: %s\n", first, strings.Join(names[first], ", ")), table.Columns)
	}
	return before + "\nFlags:\n" + strings.TrimLeft(own, "\n")
}

// markdownSection writes the help of a command as it is on a terminal.
func markdownSection(text *strings.Builder, name, help string) {
	fmt.Fprintf(text, "\n## %s\n\n```text\n%s\n```\n", name, strings.TrimSpace(trimLines(help)))
}

// manSection does so for man: without filling, and with nothing taken for a request.
func manSection(text *strings.Builder, name, help string) {
	lines := strings.Split(strings.TrimSpace(help), "\n")
	for i, line := range lines {
		lines[i] = `\&` + strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(line)
	}
	fmt.Fprintf(text, ".SH %s\n.nf\n%s\n.fi\n", strings.ToUpper(name), strings.Join(lines, "\n"))
}

// trimLines takes the spaces at the ends of lines away.
func trimLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}
