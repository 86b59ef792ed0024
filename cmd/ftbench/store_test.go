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
		"compare --only startup -n 2 --max-time 1ms --sample 1ms": "start of 2 ranks",
	} {
		code, out, errs := ftbench(t, append(strings.Fields(args), "--json", "-")...)
		if strings.Contains(errs, "two CPUs") {
			continue // compare reports it without them
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

// A FIFO and a link are not replaced.
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
	code, _, errs = ftbench(t, "netpipe", "-u", "4", "-n", "3", "--fabric", "sim", "-o", filepath.Join(dir, "np.out"),
		"--plot", link+".svg")
	require.Zero(t, code, errs)
	require.FileExists(t, filepath.Join(dir, "np.svg"))
	for path, want := range map[string]os.FileMode{fifo: os.ModeNamedPipe, link + ".svg": os.ModeSymlink} {
		info, err := os.Lstat(path)
		require.NoError(t, err)
		require.Equal(t, want, info.Mode().Type())
	}
}

// An output that cannot be stored is an error before anything is measured, and before there are
// ranks that could complain.
func TestUnwritableResults(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	below := filepath.Join(file, "r.json")
	for _, args := range []string{
		quickOsu + "--json " + below,
		quickOsu + "--fabric sim --json " + dir,
		"osu init --json " + below,
		"match --json " + below,
		"netpipe -o " + filepath.Join(dir, "np.out") + " --json " + below,
		"netpipe -o " + below,
		"netpipe --fabric sim -o " + filepath.Join(dir, "np.out") + " --plot " + below + ".svg",
		"compare --json " + below,
		"compare --only match --json - --plot " + below + ".png",
		"tune --out " + filepath.Join(dir, "tune.conf") + " --json " + below,
		"tour --dir " + below,
	} {
		code, out, errs := ftbench(t, strings.Fields(args)...)
		require.Equal(t, exitFailed, code, args)
		require.Empty(t, out, args)
		require.Contains(t, errs, "nothing was measured", args)
		require.NotContains(t, errs, "rank 0", args)
	}
	self, err := os.Executable()
	require.NoError(t, err)
	for _, args := range []string{quickOsu + "--json ", "match --json ", "netpipe -o "} {
		code, out, errs := ftbench(t, append([]string{"run", "-n", "2", "--on-failure=abort", "--", self},
			strings.Fields(args+below)...)...)
		require.NotZero(t, code, args)
		require.Empty(t, out, args)
		require.Contains(t, errs, "nothing was measured", args)
	}
	found, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, found, 1, "nothing is left of looking")
}

// full takes so many bytes.
type full struct{ left int }

func (f *full) Write(b []byte) (int, error) {
	if f.left -= len(b); f.left < 0 {
		return 0, unix.EPIPE
	}
	return len(b), nil
}

// When the tables are not read any more, the files are complete nevertheless.
func TestTourWithoutReader(t *testing.T) {
	dir := t.TempDir()
	args, last := []string{"tour", "--dir", dir, "--min-time", "1us"}, "\n4194304 "
	if os.Getenv("BANYAN_LONG") == "" {
		args, last = append(args, "--max-time", "50ms"), "\n1 " // some sizes, or one
	}
	var errs strings.Builder
	code := run(&call{args, &full{100}, &errs})
	require.Equal(t, exitFailed, code)
	require.Contains(t, errs.String(), "tour: the table was not printed: broken pipe")
	text, err := os.ReadFile(filepath.Join(dir, "osu-latency.txt"))
	require.NoError(t, err)
	require.Contains(t, string(text), last)
	require.FileExists(t, filepath.Join(dir, "osu-latency.json"))
}
