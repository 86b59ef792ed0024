package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFaultDetect(t *testing.T) {
	dir := t.TempDir()
	plot, file := filepath.Join(dir, "detect.svg"), filepath.Join(dir, "detect.json")
	code, out, errs := ftbench(t, "fault", "detect", "-n", "3", "--kills", "4", "--per-job", "2", "--victim-rss", "2", "--settle", "1ms",
		"--plot", plot, "--json", file)
	require.Zero(t, code, errs)
	require.NotContains(t, errs, "SIGKILL", "victims are not logged")
	require.Contains(t, unwrapped(out), "3 ranks, 4 kills, wait: victim, victim with 2 MiB")
	require.Regexp(t, `(?m)^each +8( +\d+\.\d){5}$`, out)
	require.Regexp(t, `(?m)^last +4( +\d+\.\d){5}$`, out)
	require.Contains(t, out, "files: "+plot+" "+file)

	requireSource(t, plot, "all fabrics")
	svg, err := os.ReadFile(plot)
	require.NoError(t, err)
	require.Contains(t, string(svg), "share without the error")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var stored struct {
		Kind    string
		Results struct {
			Options struct{ Ranks, Kills int }
			Each    struct {
				P50 int64 `json:"p50_ns"`
			} `json:"each_survivor"`
			Rounds []struct {
				Survivors []int64 `json:"survivors_ns"`
			}
		}
	}
	require.NoError(t, json.Unmarshal(text, &stored))
	require.Equal(t, "fault-detect", stored.Kind)
	require.Equal(t, 3, stored.Results.Options.Ranks)
	require.Positive(t, stored.Results.Each.P50)
	require.Len(t, stored.Results.Rounds, 4)
	require.Len(t, stored.Results.Rounds[0].Survivors, 2)
}

// With --bare there are as many deaths among processes of bare C, of which the file has the times too.
func TestFaultDetectBare(t *testing.T) {
	file := filepath.Join(t.TempDir(), "detect.json")
	code, out, errs := ftbench(t, "fault", "detect", "-n", "3", "--kills", "3", "--settle", "1ms", "--bare", "--json", file)
	if _, err := exec.LookPath("cc"); err != nil {
		require.Equal(t, 1, code)
		require.Contains(t, errs, "gcc")
		return
	}
	require.Zero(t, code, errs)
	require.Contains(t, out, "# Processes of bare C, from kill to their words, µs; 3 kills")
	require.Len(t, regexp.MustCompile(`(?m)^each +6( +\d+\.\d){5}$`).FindAllString(out, -1), 2)
	require.Regexp(t, `# Ranks over bare processes: each \d+\.\d+, 90 % \d+\.\d+; last`, out)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var stored struct {
		Results struct {
			Bare struct {
				Rounds []struct {
					Survivors []int64 `json:"survivors_ns"`
				}
			}
		}
	}
	require.NoError(t, json.Unmarshal(text, &stored))
	require.Len(t, stored.Results.Bare.Rounds, 3)
	require.Len(t, stored.Results.Bare.Rounds[2].Survivors, 2)
}

// The command refuses to run in another launcher's job, where no rank is killed.
func TestFaultDetectInAJob(t *testing.T) {
	self, err := selfPath()
	require.NoError(t, err)
	code, _, errs := ftbench(t, "run", "-n", "1", "--", self, "fault", "detect")
	require.Equal(t, exitUsage, code)
	require.Contains(t, errs, "run it alone")
}

// Only the deaths of victims are left out.
func TestLogWithoutKills(t *testing.T) {
	var b strings.Builder
	w := &without{&b, killed}
	text := "banyan: rank 1 was killed by SIGKILL after 31ms\nbanyan: rank 0 exited with code 1 after 3ms\n"
	n, err := w.Write([]byte(text))
	require.NoError(t, err)
	require.Equal(t, len(text), n)
	require.Equal(t, "banyan: rank 0 exited with code 1 after 3ms\n", b.String())
}
