package report

import (
	"cmp"
	"strings"
)

// Source returns a line with the source of the numbers of a run, for a figure: the fabric, the processors, the
// day and the commit, followed by a + if the source had changes. Unknown parts are named as such.
func (f *File) Source(fabric string) string {
	e := f.Environment
	cpu, commit := strings.Join(strings.Fields(e.CPU), " "), e.Revision
	cpu = cmp.Or(cpu, "unknown processor")
	if e.CPUs != "" { // a rank may be bound to one of them
		cpu += ", CPUs " + e.CPUs
	}
	switch {
	case commit == "":
		commit = "unknown"
	case len(commit) > 9:
		commit = commit[:9]
	}
	if e.Modified {
		commit += "+"
	}
	return strings.Join([]string{fabric, cpu, f.Started.Format("2006-01-02"), "commit " + commit}, " · ")
}
