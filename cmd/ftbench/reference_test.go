package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReference(t *testing.T) {
	code, want, errs := ftbench(t, "docs", "markdown")
	require.Zero(t, code, errs)
	for _, command := range []string{"run", "osu latency", "fault drill", "completion", "docs"} {
		require.Contains(t, want, "\n## ftbench "+command+"\n\n```text\nUsage: ftbench "+command)
	}
	require.NotContains(t, want, "## ftbench rank", "hidden commands")
	got, err := os.ReadFile("../../docs/reference.md")
	require.NoError(t, err)
	require.True(t, string(got) == want, "docs/reference.md is not the help: make docs writes it")
}

func TestManPage(t *testing.T) {
	code, page, errs := ftbench(t, "docs", "man")
	require.Zero(t, code, errs)
	require.Contains(t, page, ".SH FTBENCH OSU LATENCY\n.nf\n\\&Usage: ftbench osu latency")
	if _, err := exec.LookPath("groff"); err != nil {
		t.Log("groff is not installed: the page is not formatted")
		return
	}
	groff := exec.Command("groff", "-man", "-ww", "-k", "-z")
	groff.Stdin = strings.NewReader(page)
	out, err := groff.CombinedOutput() // -z: warnings alone
	require.NoError(t, err, string(out))
	require.Empty(t, string(out))
}
