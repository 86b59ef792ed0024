package bakery

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/internal/explore"
)

// All schedules of a lock are tried: [Lock] as it is, in ordinary memory, by members that read or write one word at
// a time, in any order, each of which may die before any of these steps, also while it holds the lock. The keeper
// detects a death some time after it, and wakes sleepers some time after it was asked to. One scan reads several
// words: whether a sleeper is blocked. Each word must be seen once not to block it, so it is as if all had been read
// at the last one, and a word that blocks it ends the scan.

// With few members and few operations, no member has the lock with one that excludes it, passes one that waited
// before it came, or waits forever.
func TestExhaustive(t *testing.T) {
	tasks := []task{
		{ops: []string{"xx", "xx"}, crashes: 1},
		{ops: []string{"xs", "sx"}, crashes: 1, withdraws: true},
		{ops: []string{"xsx", "xxs"}},
		{ops: []string{"x", "x", "x"}},
		{ops: []string{"x", "s", "s"}},
	}
	if os.Getenv("BANYAN_LONG") != "" {
		tasks = append(tasks, task{ops: []string{"x", "s", "s"}, crashes: 1}, task{ops: []string{"x", "x", "x"}, crashes: 1},
			task{ops: []string{"x", "x", "s"}, crashes: 2}, task{ops: []string{"xxxx", "sxsx"}, crashes: 1, withdraws: true})
	}
	if testing.Short() { // under the race detector, which has nothing to find here
		tasks = tasks[:1]
	}
	for _, j := range tasks {
		t.Run(fmt.Sprintf("%+v", j), func(t *testing.T) {
			states, err := explore.All(newWorld(j), 1<<30)
			t.Logf("%d states", states)
			require.NoError(t, err)
		})
	}
}

// Each rule is needed, and the exploration finds it out.
func TestMutants(t *testing.T) {
	for name, j := range map[string]task{
		"no member says that it chooses":       {ops: []string{"x", "x"}, broken: hasty},
		"no member waits for one that chooses": {ops: []string{"x", "x"}, broken: impatient},
		"readers do not wait for that":         {ops: []string{"x", "s"}, broken: lax},
		"equal numbers":                        {ops: []string{"x", "x"}, broken: level},
		"no look after saying that it sleeps":  {ops: []string{"x", "x"}, broken: blindNaps},
		"a member that releases does not wake": {ops: []string{"x", "x"}, broken: silentReleases},
		"a member with a number does not wake": {ops: []string{"x", "x"}, broken: silentChoosers},
		"the keeper need not wake":             {ops: []string{"x", "x"}, crashes: 1, broken: silentMarks},
		"readers do not wait for writers":      {ops: []string{"x", "s"}, broken: greedy},
		"readers pass writers that wait":       {ops: []string{"s", "x", "s"}, broken: unfair},
		"numbers do not keep it from a lock":   {ops: []string{"xx", "x"}, broken: reckless},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := explore.All(newWorld(j), 1<<22)
			require.Error(t, err)
			t.Log(err)
			j.broken = noMutant
			if len(j.ops) == 2 {
				_, err = explore.All(newWorld(j), 1<<30)
				require.NoError(t, err)
			}
		})
	}
}
