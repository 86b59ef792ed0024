package netns

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLabels(t *testing.T) {
	for _, l := range []label{
		{"banyan", 1, 0, 0, "0"},
		{"x9", 4194304, 1 << 63, maxNetworks - 1, "249"},
		{"banyan", 7, 8, 9, bridgePart},
	} {
		got, ok := parseLabel(l.String())
		require.True(t, ok, l.String())
		require.Equal(t, l, got)
	}
	for _, name := range []string{
		"", "blue", "banyan", "banyan-1-2-3", "banyan-1-2-3-4-5", "banyan-0-2-3-4", "banyan--1-2-3-4",
		"banyan-01-2-3-4", "banyan-1-2-3-x", "banyan-1-2-3--4", "Banyan-1-2-3-4", "-1-2-3-4", "banyan-1-2-3-99999",
		"banyan-1-99999999999999999999-3-4", "banyan-+1-2-3-4", "cni-1-2-3-",
	} {
		_, ok := parseLabel(name)
		require.False(t, ok, name)
	}
}

func TestOrphan(t *testing.T) {
	start, alive, err := birth(os.Getpid())
	require.NoError(t, err)
	require.True(t, alive)
	mine := label{"banyan", os.Getpid(), start, 0, "0"}
	require.False(t, mine.orphan())
	mine.start++ // the number has come back to another process
	require.True(t, mine.orphan())

	// A zombie is dead.
	a := newActor(t, "tell")
	require.NoError(t, a.Start())
	start, alive, err = birth(a.Process.Pid)
	require.NoError(t, err)
	require.True(t, alive)
	child := label{"banyan", a.Process.Pid, start, 0, "0"}
	require.NoError(t, a.in.Close())
	_, err = a.out.ReadString('\n') // its output ends with it …
	require.Error(t, err)
	require.Eventually(t, child.orphan, patience, patience/10000) // … or just before
	require.NoError(t, a.Wait())
	require.True(t, child.orphan())
}

// The namespaces of a process that is killed end with it. The names that it leaves, the next one removes; the living
// keep theirs.
func TestSweepAfterKill(t *testing.T) {
	n := open(t, Config{Hosts: 1})
	if n == nil {
		return
	}
	for _, sweep := range []func() error{
		func() error { _, err := Sweep(testPrefix); return err },
		func() error { open(t, Config{Hosts: 1}); return nil },
	} {
		a := newActor(t, "own")
		require.NoError(t, a.Start())
		names := strings.Fields(a.line(t))
		require.Len(t, names, 3)
		removed, err := Sweep(testPrefix)
		require.NoError(t, err)
		for _, name := range names {
			require.NotContains(t, removed, name)
			_, err := os.Stat(filepath.Join(runDir, name))
			require.NoError(t, err)
		}
		require.NoError(t, a.Process.Kill())
		require.Error(t, a.Wait())
		for _, name := range names {
			_, err := os.Stat(filepath.Join(runDir, name))
			require.ErrorIs(t, err, os.ErrNotExist, "nothing holds the namespace any more")
		}
		_, err = Sweep("banyanother")
		require.NoError(t, err)
		require.FileExists(t, filepath.Join(runDir, names[0]))
		require.NoError(t, sweep())
		requireGone(t, names)
		require.FileExists(t, filepath.Join(runDir, n.Name(0)))
	}
}

// A maker that is killed half-way leaves nothing that stays.
func TestSweepAfterKillHalfWay(t *testing.T) {
	if !privilegedTest(t) {
		return
	}
	half := 0
	for i := range 40 {
		a := newActor(t, "own")
		require.NoError(t, a.Start())
		killer := time.AfterFunc(time.Duration(i)*time.Millisecond, func() { _ = a.Process.Kill() })
		require.Error(t, a.Wait())
		killer.Stop()
		found, err := labels()
		require.NoError(t, err)
		left := 0
		for _, l := range found {
			if l.pid == a.Process.Pid {
				left++
			}
		}
		if left > 0 && left < 3 {
			half++
		}
		_, err = Sweep(testPrefix)
		require.NoError(t, err)
		requireNoneOfPid(t, a.Process.Pid)
	}
	t.Logf("%d of 40 were killed between the first name and the last", half)
}
