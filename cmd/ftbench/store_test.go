package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/bench/netpipe"
	"github.com/banyan-hpc/banyan/bench/report"
)

const quickOsu = "osu latency -m 8:8 -i 10 -x 1 "

// Results on the standard output are alone there, so that they can be piped.
func TestResultsOnStandardOutput(t *testing.T) {
	t.Chdir(t.TempDir())
	for args, table := range map[string]string{
		quickOsu + "--fabric sim": "# Size ",
		quickOsu:                  "# Size ",
		"osu init":                "nprocs: 2",
		"match --entries 10 --rounds 1 --min-time 1us":            "# Queue ",
		"netpipe -u 4 -n 3 --fabric sim":                          "times -->",
		"netpipe -u 4 -n 3 --plot np.svg -o np.out":               "files: np.out np.svg\n",
		"compare --only startup -n 2 --max-time 1ms --sample 1ms": "launcher ended",
	} {
		code, out, errs := ftbench(t, append(strings.Fields(args), "--json", "-")...)
		if strings.Contains(errs, "two CPUs") {
			continue // compare says it where there are none
		}
		require.Zero(t, code, errs)
		var file report.File
		require.NoError(t, json.Unmarshal([]byte(out), &file), "%s: %s", args, out)
		require.Contains(t, errs, table, args)
		require.NoFileExists(t, "-")
	}

	code, out, errs := ftbench(t, strings.Fields("netpipe -u 4 -n 3 -o -")...)
	require.Zero(t, code, errs)
	rows, err := netpipe.ReadRows(strings.NewReader(out))
	require.NoError(t, err)
	require.Len(t, rows, len(netpipe.Sizes(1, 4, 3)))
	require.Contains(t, errs, "times -->")
	require.NoFileExists(t, "-")
	code, _, errs = ftbench(t, strings.Fields("netpipe -o - --json -")...)
	require.NotZero(t, code)
	require.Contains(t, errs, "cannot both be")
}

// A FIFO and a link stay what they are.
func TestResultsThroughWhatIsThere(t *testing.T) {
	dir := t.TempDir()
	fifo, link := filepath.Join(dir, "fifo"), filepath.Join(dir, "link")
	require.NoError(t, unix.Mkfifo(fifo, 0o600))
	read := make(chan []byte)
	go func() {
		b, _ := os.ReadFile(fifo)
		read <- b
	}()
	code, _, errs := ftbench(t, append(strings.Fields(quickOsu), "--json", fifo)...)
	require.Zero(t, code, errs)
	var file report.File
	require.NoError(t, json.Unmarshal(<-read, &file))

	require.NoError(t, os.Symlink("np.svg", link+".svg"))
	code, _, errs = ftbench(t, "netpipe", "-u", "4", "-n", "3", "--fabric", "sim", "-o", filepath.Join(dir, "np.out"), "--plot", link+".svg")
	require.Zero(t, code, errs)
	require.FileExists(t, filepath.Join(dir, "np.svg"))
	for path, want := range map[string]os.FileMode{fifo: os.ModeNamedPipe, link + ".svg": os.ModeSymlink} {
		info, err := os.Lstat(path)
		require.NoError(t, err)
		require.Equal(t, want, info.Mode().Type())
	}
}
