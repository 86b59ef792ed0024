package launch

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/banyan-hpc/banyan/internal/launch/hosts"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestHostsThatCannotStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, c := range map[string]struct {
		shell string
		edit  func(*Spec)
		want  string
	}{
		"unknown host":      {`[ $host = a ] && exec "$@"; echo ssh: no such host >&2; exit 255`, nil, `launch: host b: the remote shell exited with code 255; it printed: ssh: no such host \(.*/rsh b .*\)`},
		"silent end":        {`[ $host = a ] && exec "$@"; exit 0`, nil, `host b: the remote shell ended \(.*: has it run .* there, and is that ftbench\? .* give its path .*with --remote-ftbench`},
		"killed":            {`[ $host = a ] && exec "$@"; kill -9 $$`, nil, "host b: the remote shell was killed by SIGKILL"},
		"no ftbench":        {`[ $host = a ] && exec "$@"; exec "$@.not"`, nil, "host b: the remote shell exited with code 127; it printed: .*: is .* on that host, .* give its path with --remote-ftbench"},
		"prints controls":   {`[ $host = a ] && exec "$@"; printf 'one\ttwo\033[2Jthree\377' >&2; exit 1`, nil, `it printed: one two\?\[2Jthree\? \(`},
		"hangs":             {`[ $host = a ] && exec "$@"; echo password: ; exec sleep 1000`, func(s *Spec) { s.InitTimeout = 5 * time.Second }, "host b: nothing has answered within 5s .*it printed: password: "},
		"another version":   {`printf '\211banyan proxy 99\r\n\032\n'; exec sleep 1000`, nil, `host [ab]: .* speaks version "99" of the proxies' protocol, this launcher version 1`},
		"a terminal":        {`printf '\211banyan proxy 1\r\r\n\032\r\n'; exec sleep 1000`, nil, "host [ab]: a terminal lies between"},
		"not a proxy":       {`exec yes`, nil, "host [ab]: 65536 bytes without a greeting"},
		"garbage after":     {`printf '\211banyan proxy 1\r\n\032\nConnection closed'; exec sleep 1000`, nil, "host [ab]: the input is no frame"},
		"no directory":      {`[ $host = b ] && rm -r ` + dir + `/here; exec "$@"`, func(s *Spec) { s.Dir = dir + "/here" }, "host [ab]: working directory " + dir + "/here: no such file or directory: .*--wdir"},
		"no program":        {`exec "$@"`, func(s *Spec) { s.Argv = []string{"no-such-program"} }, "host [ab]: cannot start no-such-program: "},
		"not executable":    {`exec "$@"`, func(s *Spec) { s.Argv = []string{"/bin/sh"}; s.Dir = "/etc/passwd" }, "host [ab]: working directory /etc/passwd: not a directory"},
		"no such shell":     {``, func(s *Spec) { s.Shell, _ = hosts.ParseShell("no-such-shell") }, `host [ab]: remote shell: exec: "no-such-shell"`},
		"unsafe name":       {``, func(s *Spec) { s.Proxy = []string{"/opt/my tools/ftbench"} }, "cannot be passed through every remote shell.*--remote-ftbench"},
		"too many ranks":    {``, func(s *Spec) { s.N = 5 }, "5 ranks for 2 slots"},
		"no hosts":          {``, func(s *Spec) { s.Hosts = []hosts.Host{} }, "an empty list of hosts"},
		"starting goes bad": {`exec "$@"`, func(s *Spec) { s.Argv = []string{broken(t)} }, "host [ab]: start rank [01]: .*exec format error"},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, os.MkdirAll(dir+"/here", 0o755))
			s := spread(t, script(2, "echo ran"))
			var out, errs buffer
			s.Stdout, s.Stderr = &out, &errs
			s.Shell = shellOf(t, c.shell)
			if c.edit != nil {
				c.edit(&s)
			}
			res, err := Run(context.Background(), s)
			require.Nil(t, res)
			require.Error(t, err)
			require.Regexp(t, c.want, err.Error())
			require.Empty(t, out.String(), "no rank runs unless all hosts are ready")
		})
	}
}

// broken is a program that passes for one until it is executed.
func broken(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "broken")
	require.NoError(t, os.WriteFile(path, []byte{0x7f, 'E', 'L', 'F', 0, 0}, 0o755))
	return path
}

// Output of a shell's start files does no harm, and is shown.
func TestHostsNoise(t *testing.T) {
	s := spread(t, ranks(t, "exchange", 2))
	s.Shell = shellOf(t, `echo Welcome to $host; echo "disk is full" >&2; "$@"; echo logout; echo bye >&2; exit 77`)
	res, out, err := run(t, s)
	require.Zero(t, res.Code)
	require.Equal(t, 2, strings.Count(out, "\n"), out)
	for _, want := range []string{"banyan: a: Welcome to a\n", "banyan: b: Welcome to b\n", "banyan: a: disk is full\n", "banyan: b: bye\n"} {
		require.Contains(t, err, want)
	}
}

func TestHostsInterruptedStart(t *testing.T) {
	sigs := make(chan os.Signal)
	asked := filepath.Join(t.TempDir(), "asked")
	require.NoError(t, unix.Mkfifo(asked, 0o600))
	s := spread(t, script(2, "echo ran"))
	s.Shell = shellOf(t, `echo > `+asked+`; exec sleep 1000`)
	s.Signals = sigs
	done := make(chan error, 1)
	go func() { _, err := Run(context.Background(), s); done <- err }()
	_, err := os.ReadFile(asked)
	require.NoError(t, err)
	sigs <- unix.SIGUSR1
	sigs <- unix.SIGINT
	var interrupted *InterruptedError
	require.ErrorAs(t, <-done, &interrupted)
	require.Equal(t, unix.SIGINT, interrupted.Signal)

	ctx, cancel := context.WithCancel(context.Background())
	s.Signals = nil
	go func() { _, err := Run(ctx, s); done <- err }()
	_, err = os.ReadFile(asked)
	require.NoError(t, err)
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
}
