package main

import (
	"fmt"

	"github.com/banyan-hpc/banyan/internal/settings"
)

type infoCmd struct {
	Changed bool `short:"c" help:"Only the knobs that somebody has set."`
}

// Help has the examples.
func (infoCmd) Help() string {
	return `Shows every knob with its value here, where that comes from (default, FILE:LINE,
the name of a variable), its unit, what is possible and what it means. An option in a
program counts before what is shown. What is printed can be used as a file of
settings; docs/tuning.md says where such files lie.

Examples:
  ftbench info
  ftbench info --changed
  BANYAN_SHM_EAGER=8k ftbench info -c
  ftbench run -n 2 -- ftbench info -c`
}

// Run prints.
func (c *infoCmd) Run(to *call) error {
	in := settings.Here()
	set, err := settings.Load(in)
	if err != nil {
		return err
	}
	fmt.Fprintf(to.out, "# machine: [%s]\n", in.Machine())
	for _, src := range set.Sources {
		fmt.Fprintf(to.out, "# file: %s: %s\n", src.Path, src.State)
	}
	if len(set.Sources) == 0 {
		fmt.Fprintf(to.out, "# no files: %s=%s\n", settings.FileVariable, settings.NoFile)
	}
	fmt.Fprintln(to.out)
	return set.Write(to.out, c.Changed)
}
