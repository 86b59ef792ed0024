package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/banyan-hpc/banyan/internal/launch"
	"github.com/stretchr/testify/require"
)

func TestFaultIsRead(t *testing.T) {
	for text, want := range map[string]netFault{
		"0-1@2s+500ms": {kind: '-', a: 0, b: 1, at: 2 * time.Second, dur: 500 * time.Millisecond},
		"3>1@0s":       {kind: '>', a: 3, b: 1},
		"2/0@1m":       {kind: '/', a: 2, b: 0, at: time.Minute},
		"2@1s+1s":      {a: 2, b: 2, at: time.Second, dur: time.Second},
	} {
		var f netFault
		require.NoError(t, f.UnmarshalText([]byte(text)), text)
		want.text = text
		require.Equal(t, want, f)
	}
	for text, why := range map[string]string{
		"0-1":       "the time is missing",
		"0-1@soon":  "no time",
		"0-1@1s+":   "no time",
		"0-1@1s+0s": "no time",
		"0-0@1s":    "one host",
		"-1@1s":     "no host",
		"a@1s":      "no host",
		"0/1@1s+1s": "once",
		"0-1@-1s":   "no time",
		"@1s":       "no host",
	} {
		var f netFault
		require.ErrorContains(t, f.UnmarshalText([]byte(text)), why, text)
	}
}

// A job whose connections are reset and whose network is cut for a while ends as if nothing had
// been.
func TestFaultsHeal(t *testing.T) {
	if os.Getenv("BANYAN_NO_NETNS") != "" {
		t.Log("NOT TESTED: BANYAN_NO_NETNS is set")
		return
	}
	self, err := os.Executable()
	require.NoError(t, err)
	code, out, errs := ftbench(t, "run", "--netns", "2",
		"--netns-fault", "0/1@150ms", "--netns-fault", "0-1@200ms+200ms", "--netns-fault", "0>1@500ms+100ms",
		"--netns-fault", "1@700ms+100ms",
		"--", self, "osu", "latency", "-m", "1:65536", "-i", "2000")
	require.Zero(t, code, errs)
	require.Contains(t, errs, "150ms: the connections between hosts 0 and 1 are reset")
	require.Contains(t, errs, "200ms: nothing passes between hosts 0 and 1")
	require.Contains(t, errs, "400ms: no more: nothing passes")
	require.True(t, strings.Contains(out, "65536"), out)
}

// A fault that cannot be applied is reported with the end of the job, whatever that is, and not announced.
func TestFaultThatFails(t *testing.T) {
	if !namespaces(t) {
		return
	}
	f := netnsFlags{Netns: 2, NetnsFault: []netFault{{text: "0-7@0s", kind: '-', a: 0, b: 7}}}
	for script, want := range map[string]string{"exit 3": "exit code 3", "exit 0": "--netns-fault=0-7@0s: "} {
		var said strings.Builder
		spec := launch.Spec{Argv: []string{"sh", "-c", script}, Env: os.Environ(), Stderr: &said}
		err := f.startNetns(spec, nil)
		require.ErrorContains(t, err, want)
		require.Contains(t, said.String()+fmt.Sprintf("ftbench: %v\n", err), "ftbench: --netns-fault=0-7@0s: netns: ")
		require.NotContains(t, said.String(), "nothing passes")
	}

	code, out, errs := ftbench(t, "run", "--netns", "2", "--json", "-", "--", "sh", "-c", "exit 3")
	require.Equal(t, 3, code, errs)
	require.Empty(t, eventsOf(events(t, []byte(out)), "ended", -1)[0].Error)
}
