package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// events decodes the lines of --json: each must be one, with known fields alone.
func events(t *testing.T, text []byte) (out []runEvent) {
	t.Helper()
	for line := range bytes.Lines(text) {
		d := json.NewDecoder(bytes.NewReader(line))
		d.DisallowUnknownFields()
		e := runEvent{}
		require.NoError(t, d.Decode(&e), "%s", line)
		require.False(t, e.Time.IsZero())
		out = append(out, e)
	}
	return out
}

// eventsOf finds those of a kind and a rank, which is -1 for those of no rank.
func eventsOf(all []runEvent, kind string, rank int) (out []runEvent) {
	for _, e := range all {
		if e.Event == kind && (rank < 0 && e.Rank == nil || e.Rank != nil && *e.Rank == rank) {
			out = append(out, e)
		}
	}
	return out
}

// dies is a job of which rank 1 is killed and rank 2 fails; all print their numbers.
const dies = `echo $PMI_RANK is $$; [ $PMI_RANK != 1 ] || kill -9 $$; [ $PMI_RANK != 2 ] || exit 5`

// checkDies checks the events of that job.
func checkDies(t *testing.T, all []runEvent, ranksOutput string) {
	t.Helper()
	for i, e := range all[:3] {
		require.Equal(t, "started", e.Event)
		require.Equal(t, i, *e.Rank)
		require.Regexp(t, fmt.Sprintf(`(?m)^%d is %d$`, i, e.PID), ranksOutput)
		require.NotEmpty(t, e.Host)
		exits := eventsOf(all, "exited", i)
		require.Len(t, exits, 1)
		require.Equal(t, e.PID, exits[0].PID)
		require.Equal(t, e.Host, exits[0].Host)
		require.Positive(t, exits[0].Duration)
		require.Less(t, e.Seconds, exits[0].Seconds)
		require.Equal(t, i > 0, len(eventsOf(all, "failure", i)) == 1)
	}
	exit := func(rank int) runEvent { return eventsOf(all, "exited", rank)[0] }
	require.Zero(t, *exit(0).Code)
	require.Equal(t, "SIGKILL", exit(1).Signal)
	require.Nil(t, exit(1).Code)
	require.Equal(t, 5, *exit(2).Code)
	require.Contains(t, eventsOf(all, "failure", 1)[0].Error, "was killed by SIGKILL")
	require.Contains(t, eventsOf(all, "failure", 2)[0].Error, "exited with code 5")
	last := all[len(all)-1]
	require.Equal(t, "ended", last.Event)
	require.Len(t, eventsOf(all, "ended", -1), 1)
	require.Equal(t, 5, *last.Code)
	require.GreaterOrEqual(t, last.Duration, exit(2).Duration)
}

func TestRunEvents(t *testing.T) {
	path := filepath.Join(t.TempDir(), "made", "events.jsonl")
	args := strings.Fields("run -n 3 --exit survivors --json")
	code, out, errs := ftbench(t, append(args, path, "--", "sh", "-c", dies)...)
	require.Equal(t, 5, code, errs)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	checkDies(t, events(t, text), out)
	require.NotContains(t, out+errs, "{")

	code, out, errs = ftbench(t, append(args, "-", "--", "sh", "-c", dies)...)
	require.Equal(t, 5, code, errs)
	checkDies(t, events(t, []byte(out)), errs)
}

// On hosts the events have their names and the process ids there, and a lost host is a failure of no rank.
func TestRunEventsOfHosts(t *testing.T) {
	t.Setenv(rshEnv, here)
	code, out, errs := ftbench(t, "run", "--exit", "survivors", "--hosts", "a:2,b", "--json", "-", "--",
		"sh", "-c", dies)
	require.Equal(t, 5, code, errs)
	all := events(t, []byte(out))
	checkDies(t, all, errs)
	require.Equal(t, "a", all[1].Host)
	require.Equal(t, "b", all[2].Host)

	on := &onText{text: `"rank":1`, path: filepath.Join(t.TempDir(), "go")}
	var words strings.Builder
	script := fmt.Sprintf(`until [ -e %s ]; do sleep 0.01; done
		[ $HERE = a ] || kill -9 $(awk '/PPid/ {print $2}' /proc/$$/status)`, on.path)
	code = run(&call{[]string{"run", "--hosts", "a,b", "--json", "-", "--", "sh", "-c", script}, on, &words})
	require.Equal(t, 1, code, words.String())
	all = events(t, on.all.Bytes())
	lost := eventsOf(all, "failure", -1)
	require.Len(t, lost, 1, on.all.String())
	require.Equal(t, "b", lost[0].Host)
	require.Contains(t, lost[0].Error, "host b is lost")
	require.True(t, eventsOf(all, "exited", 1)[0].Lost)
	require.Nil(t, eventsOf(all, "exited", 1)[0].Code)
	require.Zero(t, *eventsOf(all, "exited", 0)[0].Code)
}

// onText keeps the written text, and makes a file when it contains a given one.
type onText struct {
	all        bytes.Buffer
	text, path string
}

// Write implements io.Writer.
func (w *onText) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(w.text)) {
		if err := os.WriteFile(w.path, nil, 0o600); err != nil {
			return 0, err
		}
	}
	return w.all.Write(p)
}

// A job that does not start, and a log that cannot be written.
func TestRunEventsOfFailures(t *testing.T) {
	code, out, errs := ftbench(t, "run", "--json", "-", "--", "/no/such/program")
	require.Equal(t, 1, code, errs)
	all := events(t, []byte(out))
	require.Len(t, all, 1, out)
	require.Equal(t, "ended", all[0].Event)
	require.Equal(t, 1, *all[0].Code)
	require.Contains(t, all[0].Error, "/no/such/program")

	code, _, errs = ftbench(t, "run", "--json", "/dev/full", "--", "true")
	require.Equal(t, 1, code, errs)
	require.Regexp(t, regexp.MustCompile(`--json: events are missing: .*no space`), errs)
	code, _, errs = ftbench(t, "run", "--json", t.TempDir(), "--", "true")
	require.Equal(t, 1, code, errs)
	require.Contains(t, errs, "is a directory")
}
