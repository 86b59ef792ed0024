package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/banyan-hpc/banyan/bench/report"
	"github.com/banyan-hpc/banyan/bench/table"
	"github.com/banyan-hpc/banyan/internal/settings"
)

type infoCmd struct {
	Changed bool   `short:"c" help:"Only the knobs that are set."`
	JSON    string `placeholder:"FILE" help:"Store the knobs and the environment; -: print them, and the text on standard error."`
}

func (infoCmd) Help() string {
	return `Shows every knob with its value here, where that comes from (default, FILE:LINE,
the name of a variable), its unit, what is possible and what it means. An option in a
program counts before what is shown. What is printed can be used as a file of
settings; docs/tuning.md says where such files lie.

Examples:
  ftbench info
  ftbench info --changed
  BANYAN_SHM_EAGER=8k ftbench info -c
  ftbench info --json - | jq -r '.results.knobs[] | .name + " " + .value'
  ftbench run -n 2 -- ftbench info -c`
}

// infoResults are the results in the JSON file.
type infoResults struct {
	Machine string            `json:"machine"`
	Files   []settings.Source `json:"files"`
	Knobs   []settings.Shown  `json:"knobs"`
}

// Run prints.
func (c *infoCmd) Run(to *call) error {
	file := report.Begin("info")
	if err := checkFiles(c.JSON); err != nil {
		return err
	}
	in := settings.Here()
	set, err := settings.Load(in)
	if err != nil {
		return err
	}
	var text strings.Builder
	fmt.Fprintf(&text, "# machine: [%s]\n", in.Machine())
	for _, src := range set.Sources {
		fmt.Fprintf(&text, "# file: %s: %s\n", src.Path, src.State)
	}
	if len(set.Sources) == 0 {
		fmt.Fprintf(&text, "# no files: %s=%s\n", settings.FileVariable, settings.NoFile)
	}
	text.WriteByte('\n')
	if err := set.Write(&text, c.Changed); err != nil {
		return err
	}
	if err := printSettings(to.words(c.JSON).out, text.String()); err != nil {
		return err
	}
	return to.store(file, c.JSON, infoResults{in.Machine(), set.Sources, set.Show(c.Changed)})
}

// printSettings wraps the text so that it stays a file of settings: a wrapped comment is continued as a
// comment, and one that does not fit beside its value is printed below.
func printSettings(out io.Writer, text string) error {
	width := table.Width(out)
	var b strings.Builder
	for line := range strings.Lines(text) {
		value, comment, beside := strings.Cut(line, " # ")
		if beside && !strings.HasPrefix(line, "#") && utf8.RuneCountInString(line) > width+1 { // with its end
			line = strings.TrimRight(value, " ") + "\n#   " + comment
		}
		b.WriteString(table.Wrap(line, width))
	}
	_, err := io.WriteString(out, b.String())
	return err
}
