package peers

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func shell(script string) Command { return Command{Argv: []string{"sh", "-c", script}, CPU: -1} }

func TestRunProgram(t *testing.T) {
	require.NoError(t, RunProgram(t.Context(), Command{Argv: []string{"sh", "-c", `test "$WORD" = yes`}, Env: []string{"WORD=yes"}}, time.Minute))
	err := RunProgram(t.Context(), shell("echo no luck >&2; exit 3"), time.Minute)
	require.ErrorContains(t, err, "exit status 3; its last words: no luck")
	require.Error(t, RunProgram(t.Context(), Command{Argv: []string{"/no/such/program"}}, time.Minute))

	// The children of a launcher end with it.
	err = RunProgram(t.Context(), shell("echo hello; sleep 600 & wait"), 2*time.Second)
	require.ErrorContains(t, err, "not over after 2s; its last words: hello")
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, RunProgram(cancelled, shell("sleep 600"), time.Minute), context.Canceled)
}

// The test's own ranks: as many shells as the command line requests, each passing.
func TestTimeStartup(t *testing.T) {
	command := func(script string) Program {
		return func(n int, args []string) Command {
			return Command{Argv: []string{"sh", "-c", script, "sh", strconv.Itoa(n), args[0]}}
		}
	}
	_, _, err := TimeStartup(t.Context(), 3, command(`echo "passed 1" >>"$2"`))
	require.ErrorContains(t, err, "1 lines of ranks that have passed the barrier, 3 were to come")

	file := t.TempDir() + "/none"
	require.Error(t, Pass(file), "the measuring program makes the file")
	passed, ended, err := TimeStartup(t.Context(), 2, func(_ int, args []string) Command {
		require.NoError(t, Pass(args[0]))
		require.NoError(t, Pass(args[0]))
		return shell("true")
	})
	require.NoError(t, err)
	require.Positive(t, passed)
	require.Less(t, passed, ended)
}

// Without the tools the error names the cure; with them the programs run.
func TestStartupOfMPI(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	for _, m := range []MPI{OpenMPI, MPICH} {
		command, err := m.Startup(t.Context())
		if lacks(m.Compiler, m.Launcher) {
			require.ErrorContains(t, err, "apt-get install "+m.Packages)
			continue
		}
		require.NoError(t, err)
		passed, ended, err := TimeStartup(t.Context(), 5, command)
		require.NoError(t, err)
		require.Less(t, passed, ended)
		t.Logf("%s: %v, launcher ended after %v", m.Name, passed, ended)
	}
}

func TestNetPIPEOfMPI(t *testing.T) {
	cpus, err := CPUs()
	if err != nil {
		cpus = [2]int{}
	}
	for _, m := range []MPI{OpenMPI, MPICH} {
		command, err := m.NetPIPE(cpus)
		if lacks(m.Launcher, "taskset", m.NetPIPEName) {
			require.ErrorContains(t, err, "apt-get install")
			continue
		}
		require.NoError(t, err)
		out := t.TempDir() + "/np.out"
		require.NoError(t, RunProgram(t.Context(), command("-l", "8", "-u", "8", "-p", "0", "-n", "5", "-o", out),
			time.Minute))
		require.FileExists(t, out)
	}
	t.Setenv("PATH", t.TempDir())
	_, err = MPICH.NetPIPE(cpus)
	require.ErrorContains(t, err, "no mpiexec.mpich in PATH")
}

func lacks(tools ...string) bool {
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			return true
		}
	}
	return false
}

// A file in a directory that others can write to is not executed. Without a home directory the
// programs are in such a directory for temporary files.
func TestCacheOfOthers(t *testing.T) {
	t.Setenv("HOME", "")
	t.Setenv("XDG_CACHE_HOME", "")
	root := t.TempDir()
	t.Setenv("TMPDIR", root)
	dir, err := cacheDir()
	require.NoError(t, err)
	require.Equal(t, root, filepath.Dir(dir))
	again, err := cacheDir()
	require.NoError(t, err, "our own is taken")
	require.Equal(t, dir, again)

	require.NoError(t, os.Chmod(dir, 0o777))
	_, err = cacheDir()
	require.ErrorContains(t, err, "remove it, or name another place in XDG_CACHE_HOME")
	require.NoError(t, os.Rename(dir, filepath.Join(root, "theirs")))
	require.NoError(t, os.Chmod(filepath.Join(root, "theirs"), 0o700))
	require.NoError(t, os.Symlink("theirs", dir))
	_, err = cacheDir()
	require.ErrorContains(t, err, "only you can write to", "a link may lead anywhere")
	require.NoError(t, os.Remove(dir))
	if os.Getuid() == 0 {
		require.NoError(t, os.Mkdir(dir, 0o700))
		require.NoError(t, os.Chown(dir, 12345, 12345))
		_, err = cacheDir()
		require.ErrorContains(t, err, "only you can write to")
	}
}
