package paper

import (
	"fmt"
	"html"
	"strings"

	"github.com/banyan-hpc/banyan/bench/figure"
)

// Report is what has been found, section by section of the paper.
type Report struct {
	Title    string
	Words    []string // paragraphs before the sections
	Sections []Section
}

// Section is a part of the report: words, tables, pictures.
type Section struct {
	Title   string
	Words   []string
	Tables  []Table
	Figures []Figure
	Drawing string // text that keeps its spaces
}

// Table has a row for each thing that is compared.
type Table struct {
	Caption string
	Head    []string
	Rows    [][]string
}

// Figure is one picture, with a chart on the axes of the paper's and one of what has been measured.
// Whoever draws it stores it as File beside the report.
type Figure struct {
	File, Title string
	Charts      []figure.Chart
}

// Markdown writes the report.
func (r *Report) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n", r.Title)
	paragraphs(&b, r.Words)
	for _, s := range r.Sections {
		fmt.Fprintf(&b, "## %s\n\n", s.Title)
		paragraphs(&b, s.Words)
		if s.Drawing != "" {
			fmt.Fprintf(&b, "```text\n%s```\n\n", s.Drawing)
		}
		for _, t := range s.Tables {
			fmt.Fprintf(&b, "%s\n\n| %s |\n|%s\n", t.Caption, strings.Join(t.Head, " | "),
				strings.Repeat("---|", len(t.Head)))
			for _, row := range t.Rows {
				fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
			}
			b.WriteByte('\n')
		}
		for _, f := range s.Figures {
			fmt.Fprintf(&b, "![%s](%s)\n\n", f.Title, f.File)
		}
	}
	return b.String()
}

func paragraphs(b *strings.Builder, words []string) {
	for _, w := range words {
		fmt.Fprintf(b, "%s\n\n", w)
	}
}

// style is the looks of the page: readable without anything from elsewhere.
const style = `body{font:16px/1.5 sans-serif;max-width:960px;margin:2em auto;padding:0 1em;color:#222}
table{border-collapse:collapse;margin:1em 0}caption{text-align:left;font-weight:bold;padding:.3em 0}
td,th{border:1px solid #ccc;padding:.25em .6em;text-align:right}td:first-child,th:first-child{text-align:left}
pre{background:#f6f6f6;padding:1em;overflow-x:auto}img{max-width:100%}`

// HTML writes the report as one page, with the pictures as links to their files.
func (r *Report) HTML() string {
	var b strings.Builder
	title := html.EscapeString(r.Title)
	fmt.Fprintf(&b, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta "+
		"charset=\"utf-8\"><title>%s</title><style>%s</style></head><body>\n<h1>%s</h1>\n", title, style, title)
	htmlParagraphs(&b, r.Words)
	for _, s := range r.Sections {
		fmt.Fprintf(&b, "<h2>%s</h2>\n", html.EscapeString(s.Title))
		htmlParagraphs(&b, s.Words)
		if s.Drawing != "" {
			fmt.Fprintf(&b, "<pre>%s</pre>\n", html.EscapeString(s.Drawing))
		}
		for _, t := range s.Tables {
			fmt.Fprintf(&b, "<table><caption>%s</caption>\n", html.EscapeString(t.Caption))
			htmlRow(&b, "th", t.Head)
			for _, row := range t.Rows {
				htmlRow(&b, "td", row)
			}
			b.WriteString("</table>\n")
		}
		for _, f := range s.Figures {
			fmt.Fprintf(&b, "<p><img src=\"%s\" alt=\"%s\"></p>\n", html.EscapeString(f.File),
				html.EscapeString(f.Title))
		}
	}
	b.WriteString("</body></html>\n")
	return b.String()
}

func htmlParagraphs(b *strings.Builder, words []string) {
	for _, w := range words {
		fmt.Fprintf(b, "<p>%s</p>\n", html.EscapeString(w))
	}
}

func htmlRow(b *strings.Builder, cell string, row []string) {
	b.WriteString("<tr>")
	for _, c := range row {
		fmt.Fprintf(b, "<%s>%s</%s>", cell, html.EscapeString(c), cell)
	}
	b.WriteString("</tr>\n")
}
