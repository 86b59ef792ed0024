package main

import (
	"cmp"
	"fmt"
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"

	"github.com/alecthomas/kong"
)

// version is the line of --version: the module's version, the commit and the version of Go. A build
// outside a repository has no commit, and one from a changed tree is marked.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "ftbench (unknown), " + runtime.Version()
	}
	commit, changed := "unknown", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = " with changes"
		}
	}
	return fmt.Sprintf("ftbench %s, commit %s%s, %s", cmp.Or(info.Main.Version, "(devel)"), commit, changed,
		info.GoVersion)
}

type helpCmd struct {
	Command []string `arg:"" optional:"" help:"The command, such as run or osu latency."`
}

func (helpCmd) Help() string {
	return `Prints what COMMAND --help prints, and the list of commands without one.

Examples:
  ftbench help
  ftbench help osu latency`
}

// Run prints the help.
func (c *helpCmd) Run(to *call) error {
	code := run(&call{append(slices.Clone(c.Command), "--help"), to.out, to.err})
	if code != 0 {
		return exitCode(code)
	}
	return nil
}

// rankMapper parses numbers of ranks after -n, and after -np as in mpiexec: the parser takes that
// for -n with the value p.
type rankMapper struct{}

// Decode parses a value by the flag's type.
func (rankMapper) Decode(ctx *kong.DecodeContext, target reflect.Value) error {
	if next := ctx.Scan.Peek(); next.Type == kong.ShortFlagTailToken && next.Value == "p" {
		ctx.Scan.Pop()
	}
	return kong.NewRegistry().RegisterDefaults().ForType(target.Type()).Decode(ctx, target)
}
