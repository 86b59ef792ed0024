package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/bench/paper"
)

// storedPaper reads a file of measurements.
func storedPaper(t *testing.T, path string) (m paper.Measured) {
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &struct{ Results *paper.Measured }{&m}))
	return m
}

// A report that is ended keeps its measurements, and the next run continues from there. Then it has
// paper, prediction and measurement in each table, and every figure; and it is the same when it is
// written again without measuring.
func TestPaperIsGoneOnWith(t *testing.T) {
	dir := t.TempDir()
	file, size := filepath.Join(dir, "measured.json"),
		[]string{"--quick", "--ranks", "4", "--sets", "1", "--ops", "2", "--rounds", "1"}
	m := measure(t, append([]string{"paper", "--out", dir}, size...)...)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for found := false; !found; <-tick.C {
		b, err := os.ReadFile(file)
		found = err == nil && strings.Contains(string(b), `"jobs"`)
		require.NoError(t, unix.Kill(m.Process.Pid, 0))
	}
	require.Equal(t, exitSignal+int(unix.SIGINT), m.end(t, unix.SIGINT))
	require.Contains(t, m.errs.String(), "continue with --measured "+file)
	require.NoFileExists(t, filepath.Join(dir, "report.md"))
	first := storedPaper(t, file)
	require.NotEmpty(t, first.Jobs)
	require.Empty(t, first.Deaths, "there was something left to do")

	code, out, errs := ftbench(t, append([]string{"paper", "--out", dir, "--measured", file}, size...)...)
	require.Zero(t, code, errs)
	require.Contains(t, out, "report.md "+file)
	all := storedPaper(t, file)
	require.Equal(t, first.Jobs, all.Jobs[:len(first.Jobs)], "what was measured is not measured again")
	require.Equal(t, first.Plans, all.Plans)
	require.Empty(t, all.Lacking(paper.Experiments(paper.Size{Ranks: []int{4}, Sets: 1, Calls: 2})))
	report, err := os.ReadFile(filepath.Join(dir, "report.md"))
	require.NoError(t, err)
	completePaper(t, dir, string(report))

	again := filepath.Join(dir, "again")
	code, out, errs = ftbench(t, append([]string{"paper", "--out", again, "--measured", file, "--no-measure",
		"--json", "-"}, size...)...)
	require.Zero(t, code, errs)
	require.Contains(t, errs, "report.md")
	require.NotContains(t, errs, file, "nothing was added to it")
	results := stored[paperResults](t, "paper-report", []byte(out))
	require.Equal(t, first.Jobs, results.Measured.Jobs[:len(first.Jobs)])
	require.Greater(t, len(results.Report.Sections), 10)
	require.Len(t, results.Files, 2)
	same, err := os.ReadFile(filepath.Join(again, "report.md"))
	require.NoError(t, err)
	require.Equal(t, string(report), string(same))
}

// completePaper looks for all that a report is to have.
func completePaper(t *testing.T, dir, report string) {
	for _, section := range []string{"Figure 1: ", "Figure 2: ", "4.1 ", "4.2 ", "4.3 ", "4.4 ",
		"Beyond the paper: unknown failures", "Beyond the paper: MPI_Allreduce",
		"Beyond the paper: large broadcasts", "Beyond the paper: other trees", "Beyond the paper: many processes",
		"What differs, and why"} {
		require.Contains(t, report, "\n## "+section)
	}
	heads := regexp.MustCompile(`(?m)^(\|.*)\n\|---`).FindAllStringSubmatch(report, -1)
	require.Len(t, heads, 15)
	for _, head := range heads {
		for _, column := range []string{"paper", "predicted", "measured"} {
			require.Contains(t, head[1], column)
		}
	}
	for _, line := range regexp.MustCompile(`(?m)^\| (re|no failures|half dead).*\|$`).FindAllString(report, -1) {
		require.NotContains(t, line, "not measured", "each job has its numbers")
	}
	require.NotContains(t, report, "NaN")
	require.NotRegexp(t, `[+-]Inf\b`, report)
	require.Equal(t, 6, strings.Count(report, "\n\nPredicted with 1 operations in a row instead of 300: "), "tables")
	pictures := regexp.MustCompile(`!\[.*\]\((.*)\)`).FindAllStringSubmatch(report, -1)
	require.Len(t, pictures, 13)
	for _, p := range pictures {
		requireSource(t, filepath.Join(dir, p[1]), "")
	}
	require.FileExists(t, filepath.Join(dir, "report.html"))
}

func TestPaperRefuses(t *testing.T) {
	dir := t.TempDir()
	other, wrong := filepath.Join(dir, "other.json"), filepath.Join(dir, "wrong.json")
	require.NoError(t, os.WriteFile(other, []byte(`{"kind": "paper", "version": 1, "results": {"cpu": "abacus", "cpus": 3}}`), 0o600))
	require.NoError(t, os.WriteFile(wrong, []byte(`{"kind": "osu-latency", "version": 1, "results": {}}`), 0o600))
	for want, args := range map[string][]string{
		"3 CPUs of \"abacus\"":     {"--measured", other},
		"of kind \"osu-latency\"":  {"--measured", wrong},
		"no such file":             {"--measured", filepath.Join(dir, "nothing.json")},
		"--ranks 3 is not within":  {"--ranks", "16,3"},
		"--ranks, --sets and --op": {"--sets=-1"},
		"--rounds -2":              {"--rounds=-2"},
	} {
		code, out, errs := ftbench(t, append([]string{"paper", "--out", dir}, args...)...)
		require.Equal(t, exitUsage, code, errs)
		require.Contains(t, errs, want)
		require.Empty(t, out)
	}
}
