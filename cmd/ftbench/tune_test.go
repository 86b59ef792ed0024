package main

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/bench/peers"
	"github.com/banyan-hpc/banyan/bench/report"
	"github.com/banyan-hpc/banyan/bench/tune"
	"github.com/banyan-hpc/banyan/internal/settings"
)

// The whole machinery for a moment: it measures with processes, writes a file, and Init and info
// read it, with any result.
func TestTune(t *testing.T) {
	if _, err := peers.CPUs(); err != nil {
		code, _, errs := ftbench(t, "tune")
		require.Equal(t, exitFailed, code)
		require.Contains(t, errs, "two CPUs")
		return
	}
	dir := t.TempDir()
	conf, log := filepath.Join(dir, "tune.conf"), filepath.Join(dir, "tune.json")
	hand := "# by hand\nunexpected = 2m\n\n[some other machine 1 CPUs]\nshm.eager.near = 1k\n"
	require.NoError(t, os.WriteFile(conf, []byte(hand), 0o600))

	code, out, errs := ftbench(t, "tune", "--quick", "--sample", "1ms", "--out", conf, "--json", log)
	require.Zero(t, code, errs)
	require.Empty(t, errs, "no progress without a terminal")
	require.Regexp(t, `(?m)^shm.eager +eager over announced +bw +16384 `, out)
	require.Contains(t, out, "written: "+conf)

	text, err := os.ReadFile(conf)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(text), hand+"\n["+settings.Machine()+"]\n# by ftbench tune on "), "%s",
		text)

	var stored struct{ Results tuneResults }
	b, err := os.ReadFile(log)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &stored))
	require.Len(t, stored.Results.Findings, 3)

	// Every finding is in the file: as a value, or as the reason why there is none.
	set, err := settings.Load(settings.Surroundings{User: conf, Machine: settings.Machine})
	require.NoError(t, err)
	for _, f := range stored.Results.Findings {
		require.Equal(t, f.Changed(), set.Changed(f.Knob))
		require.Equal(t, f.Value, set.Int(f.Knob))
		require.Contains(t, string(text), f.Why)
	}

	t.Setenv(settings.FileVariable, conf)
	_, out, _ = ftbench(t, "info")
	require.Contains(t, out, "unexpected = 2m          # "+conf+":2\n")
	require.Contains(t, out, "# file: "+conf+": read\n", "it has a part for this machine now")
	var said bytes.Buffer
	w, err := banyan.Init(banyan.WithLog(slog.New(slog.NewTextHandler(&said, nil))))
	require.NoError(t, err)
	require.NoError(t, w.Finalize())
	require.Contains(t, said.String(), `msg="settings: unexpected = 2m" origin=`+conf+":2")
}

// A file that could not be written later is found before anything is measured.
func TestTuneLooksAtTheFileFirst(t *testing.T) {
	conf := filepath.Join(t.TempDir(), "tune.conf")
	require.NoError(t, os.WriteFile(conf, []byte("nonsense\n"), 0o600))
	code, out, errs := ftbench(t, "tune", "--out", conf)
	require.Equal(t, exitFailed, code)
	require.Empty(t, out)
	require.Contains(t, errs, conf+":1:")
	require.Contains(t, errs, "left as it is")
}

// The result becomes a part of the file; --dry-run only prints it.
func TestTuneWrites(t *testing.T) {
	conf := filepath.Join(t.TempDir(), "new", "tune.conf")
	r := &tuneResults{Machine: settings.Machine(), CPUs: [2]int{0, 1}, Busy: .5, Findings: []tune.Finding{
		{Knob: settings.EagerNear, Default: 16 << 10, Value: 24 << 10, Why: "24k over 16k, for a test"},
		{Knob: settings.EagerFar, Default: 6 << 10, Value: 6 << 10, Why: "default kept: not seen"},
	}}
	var out, errs strings.Builder
	to := &call{nil, &out, &errs}
	dry := tuneCmd{DryRun: true}
	require.NoError(t, dry.write(conf, part(r, report.Begin("tune")), to))
	require.NoFileExists(t, conf)
	require.Contains(t, out.String(), "shm.eager.near = 24k     # 24k over 16k, for a test\n")
	require.Contains(t, out.String(), "# shm.eager.far = 6k: default kept: not seen\n")
	require.Contains(t, out.String(), "others took 50 % of CPUs 0 and 1\n")

	out.Reset()
	t.Setenv("BANYAN_SHM_EAGER_NEAR", "4k")
	require.NoError(t, (&tuneCmd{}).write(conf, part(r, report.Begin("tune")), to))
	require.Contains(t, out.String(), "but BANYAN_SHM_EAGER_NEAR is set and counts before the file")

	// A job reads it: the value is there for ranks that look, and the variable counts before it.
	self, err := os.Executable()
	require.NoError(t, err)
	t.Setenv(settings.FileVariable, conf)
	code, shown, errText := ftbench(t, "run", "-n", "2", "--", self, "info", "--changed")
	require.Zero(t, code, errText)
	require.Equal(t, 2, strings.Count(shown, "shm.eager.near = 4k      # BANYAN_SHM_EAGER_NEAR\n"), shown)
	require.NoError(t, os.Unsetenv("BANYAN_SHM_EAGER_NEAR"))
	code, shown, errText = ftbench(t, "run", "-n", "2", "--", self, "info", "--changed")
	require.Zero(t, code, errText)
	require.Equal(t, 2, strings.Count(shown, "shm.eager.near = 24k     # "+conf+":"), shown)
}

func TestTunePath(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", dir)
	path := func(c tuneCmd) string {
		p, err := c.path()
		require.NoError(t, err)
		return p
	}
	require.Equal(t, filepath.Join(dir, "banyan", "tune.conf"), path(tuneCmd{}), "BANYAN_TUNING=none names no file")
	t.Setenv(settings.FileVariable, "named")
	require.Equal(t, "named", path(tuneCmd{}))
	require.Equal(t, "given", path(tuneCmd{Out: "given"}))
	require.NoError(t, os.Unsetenv(settings.FileVariable))
	t.Setenv("XDG_CONFIG_HOME", "")
	t.Setenv("HOME", "")
	_, err := (&tuneCmd{}).path()
	require.ErrorContains(t, err, "--out")
}

// A pair that was never steady has no ratio, and the table reports that.
func TestTuneTable(t *testing.T) {
	var out strings.Builder
	tried := tune.Tried{Trial: tune.Trial{Knob: settings.Eager, What: "a over b",
		Job: tune.Job{Test: peers.Latency, Size: 8, Window: 1}}}
	rows := tuneTable(&out)
	require.NoError(t, rows.Begin())
	require.NoError(t, printTried(&rows, tried))
	require.Contains(t, out.String(), "no pair was steady")
	out.Reset()
	tried.Confirms = true
	tried.Rows = []tune.Row{{Distance: tune.Near, Pairs: 9, New: 1e-6, Old: 2e-6, Ratio: .5, Low: .4, High: .6}}
	require.NoError(t, printTried(&rows, tried))
	require.Equal(t, "shm.eager         a over b, again           lat          8       1  near\n"+
		"        9         1         2  0.500  0.400 … 0.600  better\n", out.String())
}

// As a rank of a job it would measure itself beside itself.
func TestTuneIsNoRank(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	code, out, errs := ftbench(t, "run", "-n", "2", "--", self, "tune", "--quick")
	require.NotZero(t, code)
	require.Empty(t, out)
	require.Contains(t, errs, "run it alone")
}

func TestInfoErrors(t *testing.T) {
	t.Setenv("BANYAN_SHM_EAGER", "8z")
	code, out, errs := ftbench(t, "info")
	require.Equal(t, exitFailed, code)
	require.Empty(t, out)
	require.Contains(t, errs, "BANYAN_SHM_EAGER=8z")
}
