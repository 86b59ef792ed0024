package main

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Some runs, the table, the file; and the first seed again is the same run.
func TestFaultDrill(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("BANYAN_ERRORS", "fatal") // which is not for the ranks of a drill
	file := filepath.Join(t.TempDir(), "drill.json")
	code, out, errs := ftbench(t, "fault", "drill", "--runs", "4", "-n", "2-4", "--within", "Probe", "--json", file)
	require.Zero(t, code, "%s%s", errs, out)
	require.Regexp(t, `(?m)^# Banyan drill: 4 runs \(`, out)
	require.Regexp(t, `(?m)^Message.Recv \(context\)( +\d+){3}$`, out)
	require.Contains(t, out, ": 0 findings\n")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var stored struct{ Results drillResults }
	require.NoError(t, json.Unmarshal(text, &stored))
	require.Equal(t, 4, stored.Results.Runs)
	require.Positive(t, stored.Results.Killed)
	require.Positive(t, stored.Results.Operations["Dup"].Ended, "each phase has one, and a rank survives")
	require.Empty(t, stored.Results.Findings)
}

// A rank that cannot continue is a finding: exit code 1, with the command that repeats it.
func TestFaultDrillFinds(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("BANYAN_SHM_RING_LINES", "none") // no number: Init of every rank fails
	code, out, errs := ftbench(t, "fault", "drill", "--runs", "3", "-n", "2", "--fabric", "shm", "--seed", "77", "--profile", "rts", "--within", "Send", "--exits", "off")
	require.Equal(t, 1, code, errs)
	require.Contains(t, errs, "FINDING seed 77: rank ")
	require.Contains(t, errs, "shm.ring.lines = none")
	require.Contains(t, errs, "again: ftbench fault drill --runs 1 --seed 77 -n 2-2 --fabric shm --profile rts --unauthenticated 100 --patience 30s --exits off --within \"Send\"\n")
	require.Contains(t, out, "# seeds from 77: 1 findings\n")
}

// A drill that --max-time ends has results also if all of its runs are findings.
func TestFaultDrillOfFindingsIsCut(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("BANYAN_SHM_RING_LINES", "none") // no number: Init of every rank fails
	file := filepath.Join(t.TempDir(), "drill.json")
	code, out, errs := ftbench(t, "fault", "drill", "--keep-going", "--max-time", "3s", "--runs", "1000000", "-n", "2",
		"--fabric", "shm", "--exits", "off", "--json", file)
	require.Equal(t, 1, code, errs)
	require.Contains(t, out, "cut by --max-time 3s: ")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var stored struct{ Results drillResults }
	require.NoError(t, json.Unmarshal(text, &stored))
	require.Zero(t, stored.Results.Runs)
	require.NotEmpty(t, stored.Results.Findings)
	require.Len(t, stored.Results.Findings, stored.Results.Cut.Done)
}

// In the simulator a seed is always the same run.
func TestFaultDrillSimulated(t *testing.T) {
	drill := func() string {
		code, out, errs := ftbench(t, "fault", "drill", "--fabric", "sim", "--runs", "3", "-n", "2-6", "--seed", "9")
		require.Zero(t, code, errs)
		require.Contains(t, out, "# seeds from 9: 0 findings\n")
		return out
	}
	require.Equal(t, drill(), drill())
}

// After an interrupt the table is printed, and nothing is left behind.
func TestFaultDrillInterrupted(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	m := measure(t, "fault", "drill", "--runs", "1000000", "-n", "2", "--fabric", "shm", "--exits", "off")
	for {
		files, err := os.ReadDir(dir)
		require.NoError(t, err)
		if len(files) > 0 { // a run has started
			break
		}
		require.NoError(t, unix.Kill(m.Process.Pid, 0))
	}
	require.NoError(t, m.Process.Signal(unix.SIGINT))
	out, err := io.ReadAll(m.out)
	require.NoError(t, err)
	var ended *exec.ExitError
	require.ErrorAs(t, m.Wait(), &ended)
	require.Equal(t, 130, ended.ExitCode(), m.errs.String())
	require.Contains(t, string(out), "# Banyan drill: ")
	require.Contains(t, string(out), ": 0 findings\n")
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, files)
}

func TestFaultDrillUsage(t *testing.T) {
	for _, c := range []struct{ flag, value, want string }{
		{"-n", "1-3", "1-3 ranks"}, {"-n", "x", "is no number of ranks"}, {"--fabric", "pigeon", "must be one of"},
		{"--profile", "mpi", "must be one of"}, {"--within", "Sned", "no operation"}, {"--runs", "0", "at least 1"},
	} {
		code, _, errs := ftbench(t, "fault", "drill", c.flag, c.value)
		require.Equal(t, exitUsage, code, c)
		require.Contains(t, errs, c.want, c)
	}
}
