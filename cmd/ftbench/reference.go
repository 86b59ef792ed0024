package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"
)

type docsCmd struct {
	Format string `arg:"" enum:"man,markdown" help:"The format: ${enum}."`
}

func (docsCmd) Help() string {
	return `Prints the help of all commands as one document: a page for man, or Markdown, which
docs/reference.md is.

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
		text.WriteString("# Reference of ftbench\n\nThe help of each command. `make docs` writes this file.\n")
	}
	commands := []string{""}
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
		write(&text, strings.TrimSpace("ftbench "+name), help.String())
	}
	_, err := io.WriteString(to.out, text.String())
	return err
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
