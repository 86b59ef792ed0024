package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/internal/settings"
)

// Ranks that share two cores, make garbage and are absent in turn are not taken for
// dead: ten minutes of 32 with BANYAN_LONG=1.
func TestFaultSoak(t *testing.T) {
	ranks, long, absent := "8", "2s", "1s"
	if os.Getenv("BANYAN_LONG") != "" {
		ranks, long, absent = "32", "10m", "5s"
	}
	file := filepath.Join(t.TempDir(), "soak.json")
	code, out, errs := ftbench(t, "fault", "soak", "-n", ranks, "--for", long, "--absent", absent, "--json", file)
	require.Zero(t, code, errs)
	require.Regexp(t, `(?m)^[1-9]\d* +[1-9]\d* +[1-9]\d* +\d+ +\d+ +\d+$`, out)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var stored struct {
		Results struct {
			Ranks []struct{ Phases int }
		}
	}
	require.NoError(t, json.Unmarshal(text, &stored))
	for _, r := range stored.Results.Ranks {
		require.Positive(t, r.Phases)
	}
}

// A job that has seen nothing prints no zeros for it.
func TestFaultSoakWithoutResult(t *testing.T) {
	t.Setenv("BANYAN_DETECT_PARTITION", "perhaps")
	code, out, errs := ftbench(t, "fault", "soak", "-n", "2", "--for", "1s")
	require.Equal(t, exitFailed, code)
	require.Empty(t, out)
	require.Contains(t, errs, "BANYAN_DETECT_PARTITION=perhaps")
}

// A host that is cut off is reported by all others in time.
func TestFaultSilence(t *testing.T) {
	if !namespaces(t) {
		return
	}
	code, out, errs := ftbench(t, "fault", "silence", "--hosts", "3", "-n", "3", "--rounds", "1", "--period", "200ms", "--timeout", "1500ms")
	require.Contains(t, []int{0, exitMissed}, code, errs) // how long it takes is this machine's affair
	require.Regexp(t, `(?m)^last +1( +\d+\.\d){5}$`, out)
	require.Contains(t, out, "# B5-7: last survivor at most ")
	code, _, errs = ftbench(t, "fault", "silence", "--hosts", "3", "-n", "4")
	require.Equal(t, exitUsage, code)
	require.Contains(t, errs, "half of the ranks")
}

// The times that the commands take by default are the library's.
func TestFaultDefaults(t *testing.T) {
	s := settings.Defaults()
	require.Equal(t, 500*time.Millisecond, time.Duration(s.Int(settings.DetectPeriod))*time.Millisecond)
	require.Equal(t, 3*time.Second, time.Duration(s.Int(settings.DetectTimeout))*time.Millisecond)
}
