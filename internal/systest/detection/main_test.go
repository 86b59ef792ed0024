package detection

import (
	"fmt"
	"os"
	"testing"

	"github.com/banyan-hpc/banyan/internal/ranktest"
)

var roles = ranktest.Roles{
	"absentees":     absentees,
	"computes":      computes,
	"execs":         execs,
	"forks":         forks,
	"hangs":         hangs,
	"lone death":    loneDeath,
	"meets":         meets,
	"orphans":       orphans,
	"outage":        outage,
	"other network": otherNetwork,
	"refused calls": refusedCalls,
	"runs commands": runsCommands,
	"silent":        silentRanks,
	"split":         splitApart,
	"stopped":       stopped,
	"walled off":    walledOff,
}

var programs = ranktest.Programs{
	"launches": func() error { return ranktest.LaunchRole("orphans", orphanRanks) },
}

func TestMain(m *testing.M) {
	if err := refuseCalls(); err != nil {
		fmt.Fprintln(os.Stderr, "the filter:", err)
		os.Exit(4)
	}
	ranktest.Main(m, roles, programs)
}
