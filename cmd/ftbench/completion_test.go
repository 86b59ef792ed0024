package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestComplete(t *testing.T) {
	for _, c := range []struct{ words, want string }{
		{"ru", "run"}, {"osu la", "latency latency_mt"}, {"run --tag", "--tag-output"}, {"run --bind ", "none core"},
		{"run --bind = c", "core"}, {"run -np 2 --exit r", "rank0"}, {"run -n 2 -- ./app --b", ""},
		{"run ./app --b", ""}, {"completion ", "bash zsh fish"}, {"--vers", "--version"}, {"ra", ""},
	} {
		code, out, errs := ftbench(t, append([]string{"complete", "--"}, strings.Split(c.words, " ")...)...)
		require.Zero(t, code, errs)
		require.Equal(t, c.want, strings.Join(strings.Fields(out), " "), c.words)
	}
}

// Each shell that is installed reads its script; bash completes with it.
func TestCompletionScripts(t *testing.T) {
	dir := t.TempDir()
	self, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, os.Symlink(self, filepath.Join(dir, "ftbench")))
	for shell, ask := range map[string]string{
		"bash": `PATH=` + dir + `:$PATH; COMP_WORDS=(ftbench osu al); COMP_CWORD=2; _ftbench; echo "${COMPREPLY[@]}"`,
		"zsh":  `echo allreduce`, // completion itself needs a terminal there
		"fish": `set PATH ` + dir + ` $PATH; complete -C 'ftbench osu al'`,
	} {
		code, script, errs := ftbench(t, "completion", shell)
		require.Zero(t, code, errs)
		if _, err := exec.LookPath(shell); err != nil {
			t.Logf("%s is not installed", shell)
			continue
		}
		if shell == "zsh" {
			script = "autoload -U compinit; compinit -D\n" + script
		}
		out, err := exec.Command(shell, "-c", script+ask).CombinedOutput()
		require.NoError(t, err, string(out))
		require.Equal(t, "allreduce", strings.TrimSpace(string(out)), shell)
	}
}
