package fault

import (
	"bytes"
	"context"
	"io"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

var detection = Detection{Ranks: 4, Kills: 5, PerJob: 3, VictimMB: 1, Settle: time.Millisecond, Timeout: time.Minute}

// Every survivor of every round is measured, however it waits.
func TestDetect(t *testing.T) {
	for _, how := range []Wait{ForVictim, ForAny, InBarrier, Polling} {
		t.Run(string(how), func(t *testing.T) {
			o := detection
			o.Wait = how
			var rest bytes.Buffer
			rounds := 0
			r, err := o.Measure(t.Context(), processes("detect", Op(how), 0), &rest, Watch{Round: func(Round) { rounds++ }})
			require.NoError(t, err)
			require.Equal(t, o.Kills, rounds)
			require.Equal(t, o.Kills, r.Last.Count)
			require.Equal(t, 3*o.Kills, r.Each.Count)
			require.Len(t, r.All(), r.Each.Count)
			require.Positive(t, r.Each.Min)
			require.GreaterOrEqual(t, r.Last.Max, r.Last.P50)
			require.Equal(t, r.Last.Max, r.Each.Max)
			// Two jobs, of 3 and of 2 victims.
			require.Equal(t, o.Processes(3)+o.Processes(2), bytes.Count(rest.Bytes(), []byte(greeting)))
		})
	}
}

// The error of a failed rank takes precedence over the missing report.
func TestDetectRankFails(t *testing.T) {
	o := detection
	o.Wait = ForVictim
	_, err := o.Measure(t.Context(), processes("detect", "dance", 0), io.Discard, Watch{})
	require.ErrorContains(t, err, "exited with code 3")
	require.ErrorContains(t, err, "dance")
}

// noRanks is a job without ranks that ends with the context.
func noRanks(ctx context.Context, _ int, _ func(int) bool, _ io.Writer) error {
	<-ctx.Done()
	return nil
}

// The error of a late start names the ranks that are missing.
func TestDetectNamesLateRanks(t *testing.T) {
	o := Detection{Ranks: 3, Kills: 1, PerJob: 1, Wait: ForVictim, Timeout: time.Hour, StartTimeout: time.Millisecond}
	seen := newObserver(make(chan sighting), nil)
	seen.at(stage{cause: 2})[1] = sighting{Rank: 1, PID: 7, Cause: 2}
	_, err := o.round(t.Context(), seen, 2, o.StartTimeout)
	require.ErrorContains(t, err, "ranks [0 2] were not ready for the death of rank 2")
	o.Ranks = 40
	_, err = o.Measure(t.Context(), noRanks, io.Discard, Watch{})
	require.ErrorContains(t, err, "13 14 15] and 24 more were not ready for the death of rank 39")
}

// The limit of detection is a survivor's, not that of its report, which comes later.
func TestDetectTimeout(t *testing.T) {
	o := Detection{Ranks: 2, Kills: 1, PerJob: 1, Wait: ForVictim, Timeout: 5 * time.Millisecond}
	victim := exec.Command("sleep", "1000")
	require.NoError(t, victim.Start())
	arriving := make(chan sighting, 1)
	var words []string
	seen := newObserver(arriving, func(text string) {
		if len(words) == 0 { // the survivor is late by far, and its report comes
			arriving <- sighting{PID: victim.Process.Pid, Cause: 1, At: math.MaxInt64}
		}
		words = append(words, text)
	})
	seen.at(stage{cause: 1})[0] = sighting{Cause: 1}
	seen.at(stage{cause: 1})[1] = sighting{Rank: 1, PID: victim.Process.Pid, Cause: 1}
	_, err := o.round(t.Context(), seen, 1, time.Hour)
	require.ErrorContains(t, err, "5ms after the death of rank 1 (wait: victim) 1 of 1 survivors had not noticed it: ranks [0]")
	require.Error(t, victim.Wait(), "it was killed")
	require.Contains(t, words, "0 of 1 ranks know of the death, 1.025s at most")
}

// A start may take longer than a survivor's detection: its limit is separate and grows with the job.
// The watch receives the progress.
func TestSlowStart(t *testing.T) {
	o := detection
	o.Ranks, o.PerJob, o.Kills, o.Wait = 3, 1, 1, ForVictim
	arriving := make(chan sighting)
	var words []string
	seen := newObserver(arriving, func(text string) {
		if rank := len(words); rank < o.Ranks {
			go func() { arriving <- sighting{Rank: rank, PID: 1, Cause: 2} }()
		}
		words = append(words, text)
	})
	got, err := seen.collect(t.Context(), stage{cause: 2}, 3, o.StartLimit(1))
	require.NoError(t, err)
	require.Len(t, got, 3)
	require.Equal(t, []string{
		"0 of 3 ranks are ready, 31.5s at most", "1 of 3 ranks are ready, 31.5s at most",
		"2 of 3 ranks are ready, 31.5s at most", "",
	}, words)
	o.Ranks = 400
	require.Equal(t, 230*time.Second, o.StartLimit(1))
}

// Reports of different ranks overtake each other.
func TestReportsOutOfOrder(t *testing.T) {
	arriving := make(chan sighting, 3)
	for _, s := range []sighting{{Rank: 1, Cause: 3}, {Rank: 1, Cause: 2, At: 9}, {Rank: 0, Cause: 2, At: 8}} {
		arriving <- s
	}
	close(arriving)
	seen := newObserver(arriving, nil)
	got, err := seen.collect(t.Context(), stage{2, true}, 2, time.Hour)
	require.NoError(t, err)
	require.Equal(t, map[int]sighting{0: {Cause: 2, At: 8}, 1: {Rank: 1, Cause: 2, At: 9}}, got)
	got, err = seen.collect(t.Context(), stage{cause: 3}, 1, time.Hour)
	require.NoError(t, err)
	require.Len(t, got, 1)
	_, err = seen.collect(t.Context(), stage{cause: 3}, 2, time.Hour)
	require.ErrorIs(t, err, errJobEnded)
}

func TestDetectionCheck(t *testing.T) {
	good := Detection{Ranks: 2, Kills: 1, PerJob: 1, Wait: ForAny, Timeout: 1}
	require.NoError(t, good.Check())
	for name, spoil := range map[string]func(*Detection){
		"-n 1":             func(o *Detection) { o.Ranks = 1 },
		"--kills 0":        func(o *Detection) { o.Kills = 0 },
		"--per-job 0":      func(o *Detection) { o.PerJob = 0 },
		"--victim-rss -1":  func(o *Detection) { o.VictimMB = -1 },
		`--wait "asleep"`:  func(o *Detection) { o.Wait = "asleep" },
		"--timeout 0s":     func(o *Detection) { o.Timeout = 0 },
		"--settle -1ns":    func(o *Detection) { o.Settle = -1 },
		"--start-timeout":  func(o *Detection) { o.StartTimeout = -1 },
		"--kills 10000000": func(o *Detection) { o.Kills = 10_000_000 },
	} {
		o := good
		spoil(&o)
		require.ErrorContains(t, o.Check(), name)
	}
}

func TestTail(t *testing.T) {
	require.Equal(t, []TailPoint{{1, 1}, {5, 0.75}, {5, 0.5}, {9, 0.25}}, Tail([]time.Duration{5, 9, 1, 5}))
}

// A survivor that has noticed waits for the harness's signal, or for its limit.
func TestHold(t *testing.T) {
	resumed := make(chan os.Signal, 1)
	signal.Notify(resumed, unix.SIGUSR1)
	defer signal.Stop(resumed)
	require.NoError(t, resume(map[int]sighting{0: {PID: os.Getpid()}}))
	hold(resumed, time.Hour)
	require.Empty(t, resumed)
	hold(nil, 1)
	require.ErrorContains(t, resume(map[int]sighting{7: {Rank: 7, PID: 1 << 29}}), "resume rank 7, process 536870912")
}
