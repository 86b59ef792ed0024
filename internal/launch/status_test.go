package launch

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/banyan-hpc/banyan/internal/launch/join"
	"github.com/banyan-hpc/banyan/internal/launch/pmi"
	"github.com/banyan-hpc/banyan/internal/launch/spawn"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The exit status of a job by its rule, when its ranks end in this order.
func TestExitStatus(t *testing.T) {
	well, kill, segv := spawn.End{}, spawn.End{Signal: unix.SIGKILL}, spawn.End{Signal: unix.SIGSEGV}
	exit := func(code int) spawn.End { return spawn.End{Code: code} }
	left := spawn.End{Joined: true} // without finalizing
	type codes [3]int               // by rule: any, rank 0, survivors
	for name, c := range map[string]struct {
		ends    []spawn.End // of rank 0, 1, …
		free    codes       // without MaxFailures
		bounded codes       // with 2
	}{
		"all well":              {[]spawn.End{well, well, well, well}, codes{0, 0, 0}, codes{0, 0, 0}},
		"killed":                {[]spawn.End{well, kill, segv, well}, codes{137, 0, 0}, codes{137, 0, 0}},
		"fenced":                {[]spawn.End{well, exit(join.ExitFenced), well, well}, codes{71, 0, 0}, codes{71, 0, 0}},
		"lost with its host":    {[]spawn.End{well, {Lost: true}, well, well}, codes{1, 0, 0}, codes{1, 0, 0}},
		"rank 0 is killed":      {[]spawn.End{kill, well, well, well}, codes{137, 137, 0}, codes{137, 137, 0}},
		"an error among kills":  {[]spawn.End{well, kill, exit(4), well}, codes{137, 0, 4}, codes{137, 0, 4}},
		"a panic":               {[]spawn.End{well, exit(2), well, well}, codes{2, 0, 2}, codes{2, 0, 2}},
		"without finalizing":    {[]spawn.End{well, left, well, well}, codes{1, 0, 1}, codes{1, 0, 1}},
		"rank 0 has an error":   {[]spawn.End{exit(6), kill, well, well}, codes{6, 6, 6}, codes{6, 6, 6}},
		"a code after Finalize": {[]spawn.End{well, {Code: join.ExitFenced, Joined: true, Finalized: true}, well}, codes{71, 0, 71}, codes{71, 0, 71}},
		"too many are killed":   {[]spawn.End{well, segv, kill, kill}, codes{139, 0, 0}, codes{139, 139, 139}},
		"none survives":         {[]spawn.End{segv, kill, kill}, codes{139, 139, 139}, codes{139, 139, 139}},
		"none survives, late":   {[]spawn.End{kill, exit(3)}, codes{137, 137, 3}, codes{137, 137, 3}},
	} {
		for rule := range 3 {
			for limit, want := range map[int]codes{0: c.free, 2: c.bounded} {
				spec := Spec{N: len(c.ends), Exit: ExitRule(rule), MaxFailures: limit}
				require.Equal(t, want[rule], statusOf(spec, c.ends), "%s, rule %d, limit %d", name, rule, limit)
			}
		}
	}
}

// statusOf is the status of a job whose ranks end in their order.
func statusOf(spec Spec, ends []spawn.End) int {
	j := &job{plan: plan{Spec: spec}, srv: pmi.NewServer("x", spec.N, time.Hour), ends: make([]spawn.End, spec.N), left: spec.N, gone: make(chan struct{})}
	j.out, j.err = newSinks(nil, nil, j.gone, j.onWriteError)
	for rank, end := range ends {
		end.Rank = rank
		j.onEnd(end)
	}
	close(j.gone)
	return j.code
}

// The same for ranks on hosts: one is killed, and then the whole host is lost.
func TestExitStatusOfHosts(t *testing.T) {
	for rule, want := range map[ExitRule]int{ExitAny: 137, ExitRank0: 0, ExitSurvivors: 0} {
		s := spread(t, script(2, `[ $PMI_RANK = 0 ] || kill -9 $$`))
		s.Exit = rule
		res, _, errs := run(t, s)
		require.Equal(t, want, res.Code, errs)

		sigs := make(chan os.Signal, 1)
		s = spread(t, script(2, `trap '[ $PMI_RANK = 0 ] || echo $PPID' USR1; echo ready
			[ $PMI_RANK = 0 ] || while [ -d /proc/$PPID ]; do sleep 0.01; done`))
		s.Exit, s.Signals = rule, sigs
		printed, done := start(s)
		<-printed
		<-printed
		sigs <- unix.SIGUSR1 // is forwarded once all ranks run
		proxy, err := strconv.Atoi(<-printed)
		require.NoError(t, err)
		require.NoError(t, unix.Kill(proxy, unix.SIGKILL))
		res = <-done
		require.True(t, res.Ends[1].Lost)
		require.Equal(t, min(want, 1), res.Code)
	}
}

// A forwarded signal is the user's wish, under every rule.
func TestExitStatusOfSignals(t *testing.T) {
	for _, rule := range []ExitRule{ExitAny, ExitRank0, ExitSurvivors} {
		sigs := make(chan os.Signal, 1)
		s := script(2, "echo ready; exec sleep 1000")
		s.Signals, s.Exit = sigs, rule
		printed, done := start(s)
		<-printed
		<-printed
		sigs <- unix.SIGTERM
		require.Equal(t, 128+int(unix.SIGTERM), (<-done).Code)
	}
}

// More failures than are allowed end the job.
func TestMaxFailures(t *testing.T) {
	s := script(4, `[ $PMI_RANK = 0 ] && exec sleep 1000; kill -9 $$`)
	s.MaxFailures, s.Exit = 2, ExitSurvivors
	res, _, errs := run(t, s)
	require.Contains(t, errs, "banyan: ending the other ranks\n")
	require.Equal(t, 137, res.Code)
	require.True(t, res.Ends[0].Stopped)
}
