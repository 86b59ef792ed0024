package peers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The directories of a process are removed when it has ended, and not before.
func TestSweep(t *testing.T) {
	me, err := thisProcess()
	require.NoError(t, err)
	other := exec.Command("cat")
	in, err := other.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, other.Start())
	start, err := startOf(other.Process.Pid)
	require.NoError(t, err)

	root := t.TempDir()
	dir := func(what string, o owner) string {
		d := filepath.Join(root, fmt.Sprintf("banyan-%s-%d-%d-%d-0", what, o.space, o.pid, o.start))
		require.NoError(t, os.MkdirAll(filepath.Join(d, "fifo"), 0o700))
		return d
	}
	theirs := dir("peer", owner{me.space, other.Process.Pid, start})
	reused := dir("peer", owner{me.space, me.pid, me.start + 1})
	elsewhere := dir("peer", owner{me.space + 1, other.Process.Pid, start})
	foreign := filepath.Join(root, "banyan-peer-1234")
	require.NoError(t, os.Mkdir(foreign, 0o700))
	kept := []string{theirs, elsewhere, foreign, dir("startup", me)}
	sweep(root)
	require.NoDirExists(t, reused)
	for _, d := range kept {
		require.DirExists(t, d)
	}

	require.NoError(t, in.Close())
	require.NoError(t, other.Wait())
	sweep(root)
	require.NoDirExists(t, theirs)
	for _, d := range kept[1:] {
		require.DirExists(t, d)
	}
}

func TestScratch(t *testing.T) {
	d, err := Scratch("test")
	require.NoError(t, err)
	defer os.RemoveAll(d)
	require.Regexp(t, scratchName, filepath.Base(d))
	sweep(filepath.Dir(d))
	require.DirExists(t, d, "its owner lives")
}
