package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Real ranks die, and the table, the file and the figure have all designs of the living.
func TestFaultCollective(t *testing.T) {
	dir := t.TempDir()
	plot, file := filepath.Join(dir, "a.svg"), filepath.Join(dir, "a.json")
	code, out, errs := ftbench(t, "fault", "bcast", "-n", "4", "--failures", "0,2", "--kill", "best,worst", "--sets", "6", "--ops", "3",
		"--design", "rebalance", "--size", "100", "--roots", "rotate", "--plot", plot, "--json", file)
	require.Zero(t, code, errs)
	require.NotContains(t, errs, "SIGKILL", "victims are not logged")
	require.Contains(t, unwrapped(out), "# Banyan bcast of 100 bytes, roots in turn, 4 ranks: µs of one operation, median of 6 "+
		"sets of 3; ratio and difference against unaware among the living, with 95 % intervals\n")
	require.Regexp(t, `(?m)^2 +best +unaware +binomial +\d+\.\d\d +baseline$`, out)
	require.Regexp(t, `(?m)^2 +worst +rebalance +binomial +\d+\.\d\d +\d+\.\d{3} +\d+\.\d{3}…\d+\.\d{3} +(equal|slower|faster|undecided)$`, out)
	require.Regexp(t, `(?m)^2 +worst +rebalance +binomial +-?\d+\.\d\d +-?\d+\.\d\d…-?\d+\.\d\d$`, out)
	require.Contains(t, out, "files: "+plot+" "+file)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var stored struct {
		Kind    string
		Results struct {
			Jobs []struct {
				Options struct {
					Failures int
					Kill     string
				}
				Lines []struct {
					Design, Tree, Verdict string
					Sets                  []float64 `json:"sets_ns"`
					Ratio                 struct{ Median, Low float64 }
				}
			}
		}
	}
	require.NoError(t, json.Unmarshal(text, &stored))
	require.Equal(t, "fault-bcast", stored.Kind)
	require.Len(t, stored.Results.Jobs, 4)
	job := stored.Results.Jobs[3]
	require.Equal(t, "worst", job.Options.Kill)
	require.Equal(t, 2, job.Options.Failures)
	require.Len(t, job.Lines, 2)
	require.Equal(t, "rebalance", job.Lines[1].Design)
	require.Len(t, job.Lines[1].Sets, 6)
	require.Positive(t, job.Lines[1].Ratio.Low)
	picture, err := os.ReadFile(plot)
	require.NoError(t, err)
	require.Contains(t, string(picture), "rebalance, worst")
	requireSource(t, plot, "all fabrics")
	requireBars(t, plot)
}

// In virtual time the balanced design is the baseline, and the others are slower.
func TestFaultCollectiveSimulated(t *testing.T) {
	picture := filepath.Join(t.TempDir(), "a.png")
	code, out, errs := ftbench(t, "fault", "barrier", "--fabric", "sim", "-n", "64", "--failures", "16", "--plot", picture, "--ops", "5")
	require.Zero(t, code, errs)
	require.Contains(t, unwrapped(out), "virtual µs of one operation, median of 2 sets of 5")
	require.Regexp(t, `(?m)^16 +worst +rebalance .* equal$`, out)
	require.Regexp(t, `(?m)^16 +worst +reroute .* slower$`, out)
	require.Regexp(t, `(?m)^16 +worst +lookup .* slower$`, out)
	require.FileExists(t, picture)
}

// Ranks die during operations; each design has its share of the deaths.
func TestFaultUnknown(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.json")
	code, out, errs := ftbench(t, "fault", "barrier", "-n", "4", "--unknown", "--sets", "2", "--design", "reroute,corrected", "--json", file)
	require.Zero(t, code, errs)
	require.Contains(t, unwrapped(out), "4 ranks, of which 2 die one after another")
	for _, design := range []string{"reroute", "corrected"} {
		require.Regexp(t, `(?m)^worst +`+design+` +binomial +[12]( +\d+\.\d){3}$`, out)
		require.Regexp(t, `(?m)^worst +`+design+` +binomial( +\d+\.\d){3}$`, out)
	}
	require.FileExists(t, file)
}

func TestFaultCollectiveUsage(t *testing.T) {
	for _, c := range []struct {
		want string
		args []string
	}{
		{"at least two ranks must live, so at most 2 may fail", []string{"barrier", "-n", "4", "--failures", "0,3"}},
		{"-n 1 is not within 2…", []string{"barrier", "-n", "1"}},
		{`no design "lookout": want unaware, reroute, lookup, rebalance or corrected`, []string{"reduce", "--design", "lookout"}},
		{`no tree "oak": want binomial`, []string{"gather", "--tree", "oak"}},
		{`no kill order "slowly": want worst, average, best, random`, []string{"scatter", "--kill", "slowly"}},
		{"--size 12: the operation reduces integers of 8 bytes", []string{"allreduce", "--size", "12"}},
		{"--roots", []string{"bcast", "--roots", "random"}},
		{"unknown flag --size", []string{"barrier", "--size", "8"}},
		{"it does not go with --plot", []string{"barrier", "--unknown", "--plot", "a.svg"}},
		{"it would hang", []string{"barrier", "--unknown", "--design", "unaware"}},
		{"--plot of 12 lines: at most 7", []string{"barrier", "--kill", "worst,average,best", "--plot", "a.svg"}},
	} {
		code, out, errs := ftbench(t, append([]string{"fault"}, c.args...)...)
		require.Equal(t, exitUsage, code, errs)
		require.Contains(t, errs, c.want)
		require.Empty(t, out)
	}
}

// Predicted: no rank has detected the failures, and only the corrected design completes without a
// detection.
func TestFaultUndetected(t *testing.T) {
	file, plot := t.TempDir()+"/u.json", t.TempDir()+"/u.svg"
	code, out, errs := ftbench(t, "fault", "bcast", "-n", "100", "--undetected", "--failures", "5", "--kill", "random", "--design",
		"unaware,rebalance,corrected", "--plot", plot, "--json", file)
	require.Zero(t, code, errs)
	require.Regexp(t, `(?m)^5 +random +corrected +binomial +95 +95 `, out)
	require.Regexp(t, `(?m)^5 +random +unaware +binomial +never$`, out)
	var got struct {
		Results struct {
			Rows []struct {
				Design          string
				Living, Reached int
				All             float64 `json:"all_us"`
			}
		}
	}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &got))
	require.Len(t, got.Results.Rows, 3)
	require.Less(t, got.Results.Rows[1].Reached, 95)
	require.Greater(t, got.Results.Rows[1].All, 3e6)
	require.Less(t, got.Results.Rows[2].All, 1e3)
	code, _, errs = ftbench(t, "fault", "reduce", "-n", "8", "--undetected")
	require.Equal(t, exitUsage, code, errs)
	code, _, errs = ftbench(t, "fault", "bcast", "-n", "8", "--undetected", "--size", "65536", "--design", "corrected")
	require.Equal(t, exitUsage, code, errs)
	require.Contains(t, errs, "--size")
}

// The time may also be over before a job in the simulator, which does not end by itself.
func TestFaultUnknownSimulatedIsCut(t *testing.T) {
	code, out, errs := ftbench(t, "fault", "barrier", "-n", "4", "--unknown", "--fabric", "sim", "--max-time", "1ns")
	require.Equal(t, exitFailed, code, out)
	require.Contains(t, errs, "nothing was measured: cut by --max-time 1ns: 0 of ")
}
