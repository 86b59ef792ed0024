package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFaultRecover(t *testing.T) {
	dir := t.TempDir()
	plot, file := filepath.Join(dir, "a.svg"), filepath.Join(dir, "a.json")
	for op, heading := range map[string]string{
		"agree": "agree against agree of the living", "shrink": "shrink against agree", "revoke": "revoke against barrier",
	} {
		code, out, errs := ftbench(t, "fault", op, "-n", "3,4", "--failures", "1", "--rounds", "6", "--calls", "3", "--plot", plot, "--json", file)
		require.Zero(t, code, errs)
		require.NotContains(t, errs, "SIGKILL", "victims are not logged")
		require.Contains(t, unwrapped(out), heading)
		require.Regexp(t, `(?m)^3 +1( +\d+\.\d\d){4} +\d+\.\d{3}  \d+\.\d{3}–\d+\.\d{3}$`, out)
		require.Regexp(t, `(?m)^4 +1 `, out)
		require.Contains(t, out, "files: "+plot+" "+file)
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var stored struct {
			Kind    string
			Results struct {
				Jobs []struct {
					Options struct{ Ranks, Failures int }
					Calls   struct {
						P50 int64 `json:"p50_ns"`
					}
					Ratios []float64
					Ratio  struct{ Median float64 }
				}
			}
		}
		require.NoError(t, json.Unmarshal(text, &stored))
		require.Equal(t, "fault-"+op, stored.Kind)
		require.Len(t, stored.Results.Jobs, 2)
		job := stored.Results.Jobs[1]
		require.Equal(t, 4, job.Options.Ranks)
		require.Len(t, job.Ratios, 6)
		require.Positive(t, job.Calls.P50)
		require.Positive(t, job.Ratio.Median)
		requireSource(t, plot, "all fabrics")
		requireBars(t, plot)
	}
}

// The title of a quick run has the rounds and calls that run.
func TestFaultRecoverQuickTitle(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.json")
	code, out, errs := ftbench(t, "fault", "agree", "-n", "2", "--quick", "--json", file)
	require.Zero(t, code, errs)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var stored struct {
		Results struct {
			Jobs []struct{ Options struct{ Rounds, Calls int } }
		}
	}
	require.NoError(t, json.Unmarshal(text, &stored))
	o := stored.Results.Jobs[0].Options
	require.Contains(t, unwrapped(out), fmt.Sprintf("; %d rounds of %d calls", o.Rounds, o.Calls))
}

func TestFaultAgreeSimulated(t *testing.T) {
	dir := t.TempDir()
	plot, picture := filepath.Join(dir, "a.svg"), filepath.Join(dir, "a.png")
	code, out, errs := ftbench(t, "fault", "agree", "--fabric", "sim", "-n", "8,64", "--failures", "2", "--plot", plot+","+picture)
	require.Zero(t, code, errs)
	require.Regexp(t, `(?m)^64 +0 +126 +126 +\d+\.\d\d  connected$`, out)
	require.Regexp(t, `(?m)^64 +2 +122 +122 +\d+\.\d\d  recovered$`, out)
	requireSource(t, plot, "simulated network")
	require.FileExists(t, picture)
}

func TestFaultRecoverUsage(t *testing.T) {
	for _, args := range [][]string{{"agree", "-n", "1"}, {"shrink", "--failures", "3", "-n", "4"}, {"revoke", "--settle", "-1s"}} {
		code, _, errs := ftbench(t, append([]string{"fault"}, args...)...)
		require.Equal(t, exitUsage, code, errs)
	}
}
