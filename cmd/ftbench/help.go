package main

import (
	"io"
	"strings"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"github.com/banyan-hpc/banyan/bench/table"
)

// printHelp prints help in the width of the terminal, or in 80 columns without one, with any COLUMNS in
// the environment. The parser does not wrap an example, a table, or a list without spaces, which may be
// longer.
func printHelp(to *call) kong.HelpPrinter {
	return func(o kong.HelpOptions, ctx *kong.Context) error {
		width := table.Width(to.out)
		o.WrapUpperBound = width
		if width > table.Columns {
			return kong.DefaultHelpPrinter(o, ctx)
		}
		var text strings.Builder
		own := ctx.Stdout
		ctx.Stdout = &text
		err := kong.DefaultHelpPrinter(o, ctx)
		ctx.Stdout = own
		if err != nil {
			return err
		}
		_, err = io.WriteString(own, foldHelp(text.String(), width))
		return err
	}
}

// foldHelp breaks the lines of a help text that are too long: an example before an option and so that a
// shell reads it as one line, others between words or the parts of a list.
func foldHelp(text string, width int) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		rest := strings.TrimLeft(strings.TrimRight(line, "\n"), " ")
		indent := line[:strings.Index(line, rest)]
		breaks, end, deeper := []string{" ", ","}, "", ""
		if strings.HasPrefix(rest, "ftbench ") && indent != "" {
			breaks, end, deeper = []string{" -", " "}, " \\", "  "
		}
		for columns(indent)+columns(rest) > width {
			at := breakAt(rest, width-columns(indent)-columns(end), breaks)
			if at == 0 {
				break
			}
			b.WriteString(indent + strings.TrimRight(rest[:at], " ") + end + "\n")
			rest = strings.TrimLeft(rest[at:], " ")
			indent, deeper = indent+deeper, ""
		}
		b.WriteString(indent + rest + "\n")
	}
	return b.String()
}

// breakAt is the number of bytes of a text that fit in a line of a width: up to the last break of the
// first kind that occurs; 0 for none. A comma stays in the line.
func breakAt(text string, width int, breaks []string) int {
	most := len(text)
	if runes := []rune(text); len(runes) > width {
		most = len(string(runes[:width]))
	}
	for _, kind := range breaks {
		if kind == "," {
			return strings.LastIndex(text[:most], kind) + 1
		}
		if at := strings.LastIndex(text[:min(most+len(kind), len(text))], kind); at > 0 {
			return at
		}
	}
	return 0
}

func columns(text string) int { return utf8.RuneCountInString(text) }
