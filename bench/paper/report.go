package paper

import (
	"fmt"
	"html/template"
	"strings"

	"github.com/banyan-hpc/banyan/bench/figure"
)

// Report is the result, section by section of the paper.
type Report struct {
	Title    string    `json:"title"`
	Words    []string  `json:"words"` // paragraphs before the sections
	Sections []Section `json:"sections"`
}

// Section is a part of the report: words, tables, pictures.
type Section struct {
	Title   string   `json:"title"`
	Words   []string `json:"words,omitempty"`
	Tables  []Table  `json:"tables,omitempty"`
	Figures []Figure `json:"figures,omitempty"`
	Drawing string   `json:"drawing,omitempty"` // text that keeps its spaces
}

// Table has a row for each thing that is compared.
type Table struct {
	Caption string     `json:"caption"`
	Head    []string   `json:"head"`
	Rows    [][]string `json:"rows"`
	// Note is printed below: facts that matter when the numbers are compared; "" for none.
	Note string `json:"note,omitempty"`
}

// Figure is one picture, with a chart on the axes of the paper's and one of the measurements. The
// program that draws it stores it as File beside the report.
type Figure struct {
	File   string         `json:"file"`
	Title  string         `json:"title"`
	Charts []figure.Chart `json:"-"`
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
			if t.Note != "" {
				paragraphs(&b, []string{t.Note})
			}
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

// page is the report as HTML; the pictures are links to their files.
var page = template.Must(template.New("report").Parse(`<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{{.Title}}</title><style>` + style + `</style></head><body>
<h1>{{.Title}}</h1>
{{range .Words}}<p>{{.}}</p>
{{end}}{{range .Sections}}<h2>{{.Title}}</h2>
{{range .Words}}<p>{{.}}</p>
{{end}}{{if .Drawing}}<pre>{{.Drawing}}</pre>
{{end}}{{range .Tables}}<table><caption>{{.Caption}}</caption>
<tr>{{range .Head}}<th>{{.}}</th>{{end}}</tr>
{{range .Rows}}<tr>{{range .}}<td>{{.}}</td>{{end}}</tr>
{{end}}</table>
{{with .Note}}<p>{{.}}</p>
{{end}}{{end}}{{range .Figures}}<p><img src="{{.File}}" alt="{{.Title}}"></p>
{{end}}{{end}}</body></html>
`))

// HTML writes the report as one page.
func (r *Report) HTML() string {
	var b strings.Builder
	if err := page.Execute(&b, r); err != nil {
		panic(err) // the template is wrong: every run of every test fails
	}
	return b.String()
}
