//go:build rdma

// These tests start virtual machines. They fail where QEMU or the kernel's package lacks; make rdma
// installs all requirements.

package testbed

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/bench/compare/suite"
)

// result is the output of a run of rdma-vm, and its exit status.
type result struct {
	out, errs string
	status    int
}

// start runs rdma-vm with a limit of two minutes, which args may replace, and expects it to leave no files.
func start(t *testing.T, args ...string) result {
	t.Helper()
	temporary := t.TempDir()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "./rdma-vm", append([]string{"-t", "120"}, args...)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+temporary)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	left, err := os.ReadDir(temporary)
	require.NoError(t, err)
	require.Empty(t, left, "files of rdma-vm")
	return result{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

func TestCommand(t *testing.T) {
	t.Setenv("BANYAN_TEST_WORDS", "two  words's")
	here, err := os.Getwd()
	require.NoError(t, err)
	const script = `echo "$0|$1|$BANYAN_TEST_WORDS|$PWD|$(cat)"; echo trouble >&2; touch written && exit 7`
	got := start(t, "--", "bash", "-c", script, "$HOME", `a "b`)
	require.Equal(t, result{`$HOME|a "b|two  words's|` + here + "|\n", "trouble\n", 7}, got)
	require.NoFileExists(t, "written", "a machine has written to the host's files")
}

// Scripts of perftest's latency test: messages of two bytes between two queue pairs. Its server waits at TCP port 18515.
const (
	server = `ib_send_lat -d $RDMA_VM_DEV -x $RDMA_VM_GID -n 100 & `
	waits  = `until grep -q ':4853 .* 0A ' /proc/net/tcp /proc/net/tcp6; do sleep .05; done; `
	client = `ib_send_lat -d $RDMA_VM_DEV -x $RDMA_VM_GID -n 100 10.77.0.1`
)

// latencies is the row of the result, after 100 messages.
var latencies = regexp.MustCompile(`(?m)^(\[\d\] )? 2 +100 +[0-9.]+ `)

func TestMessagesInMachine(t *testing.T) {
	got := start(t, "bash", "-c", server+waits+client+" && wait $!")
	require.Zero(t, got.status, got)
	require.Len(t, latencies.FindAllString(got.out, -1), 2, got)
}

func TestMessagesBetweenMachines(t *testing.T) {
	got := start(t, "-n", "2", "bash", "-c", `set -e
		if [ $RDMA_VM_INDEX = 0 ]; then
			`+server+waits+`
			touch $RDMA_VM_SHARE/ready
			wait $!
		else
			until [ -e $RDMA_VM_SHARE/ready ]; do sleep .05; done
			`+client+`
		fi`)
	require.Zero(t, got.status, got)
	rows := latencies.FindAllStringSubmatch(got.out, -1)
	require.Len(t, rows, 2, got)
	require.ElementsMatch(t, []string{"[0] ", "[1] "}, []string{rows[0][1], rows[1][1]})
}

// command builds ftbench.
func command(t *testing.T) string {
	t.Helper()
	ftbench := filepath.Join(t.TempDir(), "ftbench")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", ftbench, "../../../cmd/ftbench")
	build.Env = append(os.Environ(), "CGO_ENABLED=1")
	said, err := build.CombinedOutput()
	require.NoError(t, err, string(said))
	return ftbench
}

// A job as docs/clusters.md shows it: two ranks in one machine, whose messages go over its device.
func TestJob(t *testing.T) {
	ftbench := command(t)
	got := start(t, "--", ftbench, "run", "-n", "2", "--fabric", "verbs", "--verbose", "--", ftbench, "osu", "latency", "-m", "1:8")
	require.Zero(t, got.status, got)
	require.Regexp(t, `(?m)^8 +[0-9.]+$`, got.out)
	require.Contains(t, got.errs, "peer 1: tcp: sends over RDMA, device rxe0")
}

// Banyan beside perftest, as docs/benchmarks.md shows it: each measure has samples of all programs.
func TestComparison(t *testing.T) {
	ftbench := command(t)
	got := start(t, "-m", "2048", "-t", "600", "--", ftbench, "compare", "--only", "verbs", "--max-time", "1ms",
		"--sample", "1ms", "--json", "-")
	require.Contains(t, []int{0, 3}, got.status, got) // so few samples may miss a bound
	var stored struct{ Results suite.Results }
	require.NoError(t, json.Unmarshal([]byte(got.out), &stored), got)
	require.Empty(t, stored.Results.Absent)
	require.Len(t, stored.Results.Measures, 6)
	for _, m := range stored.Results.Measures {
		require.Empty(t, m.Failed, m.Title)
		for _, s := range m.Rounds[0].Samples {
			t.Logf("%s, %s: %.2f µs", m.Title, s.Source, s.Seconds*1e6)
		}
	}
	require.Contains(t, got.errs, "put of 8 bytes and flush over RDMA")
}

// One machine loses power by intent, one by accident: the status is that of the second.
func TestPowerLoss(t *testing.T) {
	got := start(t, "-n", "2", "bash", "-c", `echo before
		[ $RDMA_VM_INDEX = 1 ] || echo 0 >$RDMA_VM_SHARE/status.0
		echo b >/proc/sysrq-trigger`)
	require.Equal(t, 125, got.status, got)
	require.Contains(t, got.out, "[0] before\n")
	require.Contains(t, got.out, "[1] before\n")
	require.Contains(t, got.errs, "rdma-vm: machine 1 died. Its console ends:\n")
	require.NotContains(t, got.errs, "machine 0 died")
}

func TestTimeLimit(t *testing.T) {
	got := start(t, "-t", "1", "sleep", "infinity")
	require.Equal(t, 124, got.status, got)
	require.Contains(t, got.errs, "rdma-vm: machine 0 is out of time, 1 s (-t)\n")
}

func TestMistakes(t *testing.T) {
	for name, tc := range map[string]struct {
		env  map[string]string
		args []string
		want string
	}{
		"option":      {nil, []string{"-x", "true"}, "option -x is unknown"},
		"value":       {nil, []string{"-n"}, "option -n is unknown or has no value"},
		"number":      {nil, []string{"-m", "1G", "true"}, `"1G" is no number`},
		"machines":    {nil, []string{"-n", "201", "true"}, "there are addresses for 200 machines"},
		"device":      {nil, []string{"-d", "mlx5", "true"}, "the devices are rxe and siw"},
		"no command":  {nil, nil, "no command"},
		"no programs": {map[string]string{"PATH": fewPrograms(t)}, []string{"true"}, "qemu-system-x86_64 is missing. On Debian: apt-get install"},
		"no kernel": {map[string]string{"RDMA_VM_KERNEL": "0.0.0-0-amd64", "XDG_CACHE_HOME": t.TempDir()}, []string{"true"},
			"linux-image-0.0.0-0-amd64 cannot be fetched (apt-get update"},
	} {
		t.Run(name, func(t *testing.T) {
			for variable, value := range tc.env {
				t.Setenv(variable, value)
			}
			got := start(t, tc.args...)
			require.Equal(t, 125, got.status, got)
			require.Contains(t, got.errs, "rdma-vm: ")
			require.Contains(t, got.errs, tc.want)
		})
	}
}

// fewPrograms is a folder with the programs that rdma-vm uses before it looks for QEMU.
func fewPrograms(t *testing.T) string {
	dir := t.TempDir()
	for _, program := range []string{"bash", "nproc", "uname"} {
		path, err := exec.LookPath(program)
		require.NoError(t, err)
		require.NoError(t, os.Symlink(path, filepath.Join(dir, program)))
	}
	return dir
}
