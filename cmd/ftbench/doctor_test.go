package main

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/internal/exits"
)

// unwrapped is a text with its wrapped lines joined again.
func unwrapped(text string) string { return wrappedLine.ReplaceAllString(text, " $1") }

// wrappedLine matches where a line was broken, before a word.
var wrappedLine = regexp.MustCompile(`\n(?:#   |  | {28})(\S)`)

// Alone the command tries every fabric between two real ranks; every line has its verdict, and the
// remedy for a missing part.
func TestDoctorOfTheMachine(t *testing.T) {
	code, out, errs := ftbench(t, "doctor")
	require.Zero(t, code, errs)
	require.Empty(t, errs)
	for line := range strings.Lines(out) {
		require.Regexp(t, `^(# [a-z ]+|((ok|warning|missing) +| {28})\S.*)\n$`, line)
	}
	out = unwrapped(out)
	for _, f := range []string{"shm +two ranks reach each other, shm", "unix +two ranks reach each other, unix", `tcp +two ranks reach each other, tcp \S+ > \S+`} {
		require.Regexp(t, "(?m)^ok +"+f, out)
	}
	for _, part := range []string{"pid namespace", "sealed memfd", "127.0.0.1", "verbs", "deaths", "pidfd", "bpf",
		"allowed", "open files", "knobs"} {
		require.Contains(t, out, part)
	}
}

func TestDoctorOfSomeFabrics(t *testing.T) {
	t.Setenv(fabricEnv, "") // the command sets it
	t.Setenv(networksEnv, "")
	code, out, errs := ftbench(t, "doctor", "--fabric", "unix", "--networks", "lo")
	require.Zero(t, code, errs)
	require.Regexp(t, `(?m)^warning +shm +left out`, out)
	require.Regexp(t, `(?m)^warning +tcp +left out`, out)
	require.Regexp(t, `(?m)^ok +lo +127.0.0.1 used: named by lo`, out)
	code, out, errs = ftbench(t, "doctor", "--fabric", "tcp,shm", "--networks", "nothere0")
	out = unwrapped(out)
	require.Equal(t, exitFailed, code, "a fabric that was asked for does not work")
	require.Equal(t, "ftbench: doctor: 2 lines with missing above: each has its cure\n", errs)
	require.Regexp(t, `(?m)^missing +tcp +two ranks do not reach each other: rank \d: tcp: .*nothere0.*: see the parts below$`, out)
	require.NotContains(t, out, "exited with code")
	t.Setenv(fabricEnv, "pigeon")
	code, _, errs = ftbench(t, "doctor")
	require.Equal(t, exitUsage, code)
	require.Contains(t, errs, "pigeon")
}

// As a job the command prints each pair once.
func TestDoctorOfAJob(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	t.Setenv("BANYAN_DETECT_TIMEOUT", "7s")
	t.Setenv(exits.Env, exits.Off)
	code, out, errs := ftbench(t, "run", "-n", "3", "--", self, "doctor")
	require.Zero(t, code, errs)
	require.Equal(t, unwrapped(`# 3 ranks on 1 node
  rank  node     0     1     2
     0     0     -   shm   shm
     1     0   shm     -   shm
     2     0   shm   shm     -
shm: 6 ways
# failure detection
silence: of 7s is death (detect.timeout), heartbeats each 500ms (detect.period), partition rule majority (detect.partition)
node 0: deaths are told of first by robust words
`), unwrapped(out))
	t.Setenv("BANYAN_DETECT_TIMEOUT", "")
	code, out, errs = ftbench(t, "run", "-n", "3", "--fabric", "tcp", "--verbose", "--", self, "doctor")
	out = unwrapped(out)
	require.Zero(t, code, errs)
	require.Contains(t, out, "tcp: 6 ways, as 0 > 1: not shm: neither may use it (BANYAN_FABRIC")
	require.Regexp(t, `(?m)^# sockets
     0 > 1: tcp \S+:\d+ > \S+:\d+, \w+
     0 > 2: tcp \S+:\d+ > \S+:\d+, \w+
     1 > 2: tcp \S+:\d+ > \S+:\d+, \w+
connections: admitted 3, healed 0, refused 0
# failure detection
silence: of (3s is death \(detect.timeout\), heartbeats each 500ms \(detect.period\)|12s is death \(detect.timeout\), heartbeats each 2s \(detect.period; 4 times the defaults as ranks share cores\)), .*
node 0: deaths are told of first by connection$`, out)
	require.Regexp(t, `banyan: rank \d: connections: admitted \d, healed 0, refused 0\n`, errs)
	require.Regexp(t, `banyan: rank \d: peer \d: tcp: connected`, errs)
	code, out, errs = ftbench(t, "run", "-n", "3", "--", "sh", "-c", `if [ $PMI_RANK = 1 ]; then BANYAN_FABRIC=unix; else BANYAN_FABRIC=shm; fi; export BANYAN_FABRIC; exec "$0" doctor`, self)
	out = unwrapped(out)
	require.Equal(t, exitFailed, code)
	require.Regexp(t, `ftbench: doctor: 2 ways without fabric: the reasons are above\nbanyan: rank 0 exited with code 1 after [^\n]*\n$`, errs)
	require.Contains(t, out, "     1     0     ?     -     ?\n")
	require.Contains(t, out, "?: not asked, as rank 0 does not reach it: 1\n")
	require.Contains(t, out, "none: 2 ways, as 0 > 1: route from rank 0 to rank 1: no fabric joins")
}

// The error names networks that connect no two machines, with the other networks.
func TestDoctorOfHostsThatAreEnclosed(t *testing.T) {
	if !namespaces(t) {
		return
	}
	self, err := os.Executable()
	require.NoError(t, err)
	code, out, errs := ftbench(t, "run", "--netns", "2", "--networks", "lo", "--", self, "doctor")
	require.Equal(t, exitFailed, code)
	out = unwrapped(out)
	require.Regexp(t, `none: 1 way, as 0 > 1: .*; not tcp: rank 1 is reached from its own machine only: its networks are lo \(BANYAN_NETWORKS.*\), which leaves out \w+ 10\.\d+\.\d+\.\d+: name one that joins the machines`, out)
	require.Contains(t, errs, "doctor: 1 way without fabric")
	code, out, errs = ftbench(t, "run", "--netns", "2", "-n", "4", "--networks", "10.0.0.0/8", "--", self, "doctor")
	require.Zero(t, code, errs)
	require.Contains(t, out, "tcp: 8 ways")
	require.NotContains(t, out, "?")
}

// A pair of hosts without a path between them does not make other pairs look separated.
func TestDoctorOfAPairOfHostsWithoutAPath(t *testing.T) {
	if !namespaces(t) {
		return
	}
	self, err := os.Executable()
	require.NoError(t, err)
	t.Setenv("BANYAN_TCP_HEAL", "3s")
	code, out, _ := ftbench(t, "run", "--netns", "3", "-n", "3", "--netns-fault", "0-1@0s", "--", self, "doctor")
	require.NotZero(t, code)
	out = unwrapped(out)
	require.Regexp(t, `     0     0     -  none   tcp
     1     1     \?     -     \?
     2     2   tcp   tcp     -`, out)
	require.Regexp(t, `none: 1 way, as 0 > 1: by tcp, not connected yet: (connection timed out|no route to host|resource)`, out)
}

// If no rank needs the networks, one of the ranks reports those that do not exist.
func TestNetworksThatNobodyNeeds(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	t.Setenv(networksEnv, "nothere0")
	code, out, errs := ftbench(t, "run", "-n", "3", "--", self, "doctor")
	require.Zero(t, code, errs)
	require.Contains(t, out, "shm: 6 ways")
	require.Regexp(t, `^banyan: rank 0: tcp: .*"nothere0"; there are lo 127.0.0.1.*: correct the networks \(BANYAN_NETWORKS.* continues without\n$`, errs)
	t.Setenv(networksEnv, "lo,!nothere0")
	code, _, errs = ftbench(t, "run", "-n", "3", "--", self, "doctor")
	require.Zero(t, code, errs)
	require.Empty(t, errs)
}

// The name of the fabric in a file of results is that which was used.
func TestResultsNameTheFabric(t *testing.T) {
	for _, args := range []string{"osu latency -m 8:8 -i 10 -x 1", "netpipe -u 8 --trial-time 1ms --trials 1 -o " +
		t.TempDir() + "/np.out"} {
		for fabric, want := range map[string]string{"": "shm", "unix": "unix", "tcp,shm": "shm", "sim": "sim"} {
			argv := append(strings.Fields(args), "--json", "-")
			if fabric != "" {
				argv = append(argv, "--fabric", fabric)
			}
			code, out, errs := ftbench(t, argv...)
			require.Zero(t, code, errs)
			var file struct{ Results struct{ Fabric string } }
			require.NoError(t, json.Unmarshal([]byte(out), &file))
			require.Equal(t, want, file.Results.Fabric, args)
		}
	}
}
