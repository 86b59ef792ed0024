package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestComplete(t *testing.T) {
	for _, c := range []struct{ words, want string }{
		{"ru", "run"}, {"osu la", "latency latency_mt latency_persistent"}, {"osu put_bw -w ", "allocate create"}, {"osu fop_latency --sync-option l", "lock lock_all"}, {"run --tag", "--tag-output"}, {"run --bind ", "none core"},
		{"run --bind = c", "core"}, {"run --bind=c", "--bind=core"},
		{"run --nothing=c", ""}, {"run -np 2 --exit r", "rank0"}, {"run -n 2 -- ./app --b", ""},
		{"run ./app --b", ""}, {"completion ", "bash zsh fish"}, {"--vers", "--version"}, {"ra", ""},
	} {
		code, out, errs := ftbench(t, append([]string{"complete", "--"}, strings.Split(c.words, " ")...)...)
		require.Zero(t, code, errs)
		require.Equal(t, c.want, strings.Join(strings.Fields(out), " "), c.words)
	}
}

// terminal is a zsh script that completes a line in a shell on a terminal of its own: nothing else completes
// there.
const terminal = `zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z "PATH=$PWD:\$PATH; PS1=; autoload -U compinit; compinit -D -u; source =(ftbench completion zsh); echo rea''dy"
zpty -r z out '*ready*'
zpty -w -n z "$1"$'\t'
zpty -r z out "*$2*"
echo $2
`

// Each shell that is installed completes with its script.
func TestCompletionScripts(t *testing.T) {
	dir := t.TempDir()
	self, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, os.Symlink(self, filepath.Join(dir, "ftbench")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "afile"), nil, 0o600))
	for _, c := range []struct{ shell, line, want string }{
		{"bash", "ftbench osu multi", "multi_lat"}, {"bash", "ftbench run --bind co", "core"},
		{"zsh", "ftbench osu multi", "multi_lat"}, {"zsh", "ftbench run --bind=co", "--bind=core"},
		{"zsh", "ftbench osu latency --json afi", "afile"},
		{"fish", "ftbench osu multi", "multi_lat"}, {"fish", "ftbench completion ", "bash fish zsh"},
		{"fish", "ftbench run --bind=c", "--bind=core"}, {"fish", "ftbench osu latency --json afi", "afile"},
	} {
		if _, err := exec.LookPath(c.shell); err != nil {
			t.Logf("NOT TESTED: %v", err)
			continue
		}
		code, script, errs := ftbench(t, "completion", c.shell)
		require.Zero(t, code, errs)
		args := map[string][]string{
			"bash": {"-c", script + `PATH=$PWD:$PATH; COMP_WORDS=($0); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
				_ftbench; echo "${COMPREPLY[@]}"`, c.line},
			"zsh":  {"-f", "-c", terminal, "zsh", c.line, c.want},
			"fish": {"--no-config", "-c", "set PATH $PWD $PATH\n" + script + "complete -C '" + c.line + "'"},
		}[c.shell]
		ctx, end := context.WithTimeout(t.Context(), time.Minute) // a terminal in which nothing is completed hangs
		defer end()
		cmd := exec.CommandContext(ctx, c.shell, args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "HOME="+dir, "PWD="+dir)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s: %s\n%s", c.shell, c.line, out)
		require.Equal(t, c.want, strings.Join(strings.Fields(string(out)), " "), "%s: %s", c.shell, c.line)
	}
}
