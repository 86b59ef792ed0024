//go:build emulator

// These tests run ranks that are built for arm64 under QEMU's user mode, which has no robust lists,
// no futex_waitv and no process_vm_readv, and shows a process a /proc/PID/stat of its own. make
// test-emulator runs them, make emulator installs their requirements.

package startup

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/internal/launch"
)

// farmFor builds the example farm for a processor.
func farmFor(t *testing.T, arch string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "farm")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", path, "github.com/banyan-hpc/banyan/examples/farm")
	cmd.Env = append(os.Environ(), "GOARCH="+arch)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return path
}

// Emulated ranks, alone and beside others, share memory, take no living rank for failed and notice
// a death.
func TestEmulatedRanks(t *testing.T) {
	const emulator, n = "qemu-aarch64-static", 4
	_, err := exec.LookPath(emulator)
	require.NoError(t, err, "make emulator installs it")
	emulated, here := farmFor(t, "arm64"), farmFor(t, "amd64")
	for name, some := range map[string]string{
		"all": "true", "those of even rank": "test $((PMI_RANK % 2)) = 0",
		"those of odd rank": "test $((PMI_RANK % 2)) = 1",
	} {
		t.Run(name, func(t *testing.T) {
			script := some + ` && exec ` + emulator + ` "$0" -kill; exec "$1" -kill`
			var out bytes.Buffer
			// A rank that takes a living one for failed hangs
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			res, err := launch.Run(ctx, launch.Spec{
				N: n, Argv: []string{"/bin/sh", "-c", script, emulated, here},
				Env:    append(os.Environ(), "BANYAN_FABRIC=shm"),
				Stdout: &out, Stderr: &out, OnFailure: launch.Continue,
			})
			require.NoError(t, err)
			for _, e := range res.Ends {
				if e.Rank == n-1 {
					require.Equal(t, syscall.SIGKILL, e.Signal, "%v\n%s", e, &out)
					continue
				}
				require.True(t, e.Finalized && !e.Failed(), "%v\n%s", e, &out)
			}
		})
	}
}
