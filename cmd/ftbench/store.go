package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/banyan-hpc/banyan/bench/figure"
	"github.com/banyan-hpc/banyan/bench/report"
	"github.com/banyan-hpc/banyan/internal/wholefile"
)

// dash names the standard output where a file of results is asked for.
const dash = "-"

// words is where a command prints its tables: on the standard error when a file of results takes
// the standard output.
func (to *call) words(files ...string) *call {
	if slices.Contains(files, dash) {
		return &call{to.args, to.err, to.err}
	}
	return to
}

// store writes a file of results, or prints it; "" is none.
func (to *call) store(file *report.File, path string, results any) error {
	switch path {
	case "":
		return nil
	case dash:
		return file.Print(to.out, results)
	}
	return file.Write(path, results)
}

// checkFiles reports the first of the files that could not be written when all is measured; "" is
// none.
func checkFiles(paths ...string) error {
	for _, path := range paths {
		if path == "" || path == dash {
			continue
		}
		if err := wholefile.Check(path); err != nil {
			return fmt.Errorf("nothing was measured, because the results could not be stored: %w", err)
		}
	}
	return nil
}

// named is a line that names the files that were written; "" is none.
func named(what string, files ...string) string {
	line := what
	for _, f := range files {
		if f != "" && f != dash {
			line += " " + f
		}
	}
	if line == what {
		return ""
	}
	return fmt.Sprintln(line)
}

// outputs are the files of a command that draws.
type outputs struct {
	plots  []string
	json   string
	fabric string // as given
}

// check finds files that could not be written.
func (o outputs) check() error {
	for _, path := range o.plots {
		if err := figure.Check(path); err != nil {
			return usage(err)
		}
	}
	return checkFiles(append(slices.Clone(o.plots), o.json)...)
}

// keep writes the files.
func (o outputs) keep(file *report.File, results any, charts []figure.Chart, to *call) error {
	for i := range charts {
		charts[i].Fabric = fabricName(o.fabric)
	}
	for _, path := range o.plots {
		if err := figure.Save(path, figure.WithSource(file.Source, charts...)...); err != nil {
			return err
		}
	}
	if err := to.store(file, o.json, results); err != nil {
		return err
	}
	_, err := io.WriteString(to.words(o.json).out, named("files:", append(slices.Clone(o.plots), o.json)...))
	return err
}

// fabricName is that for a picture, of a list as it was given; "" is all.
func fabricName(list string) string {
	list = cmp.Or(list, os.Getenv(fabricEnv))
	if list == "" {
		return "all fabrics"
	}
	return strings.NewReplacer("shm", "shared memory", "unix", "Unix-domain sockets", "tcp", "TCP",
		simulator, "simulated network", ",", ", ").Replace(list)
}
