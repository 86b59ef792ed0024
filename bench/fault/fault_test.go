package fault

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/signal"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/bench/ranks/rankstest"
)

var tested = Options{Ranks: 4, Kills: 5, PerJob: 3, VictimMB: 1, Settle: time.Millisecond, Timeout: time.Minute}

func TestMain(m *testing.M) {
	rankstest.Main(m.Run, func(role string, w *banyan.World) error {
		o := tested
		o.Wait = Wait(role)
		return Rank(w, o, os.Stdout)
	})
}

// job starts ranks that wait in that way.
func job(how Wait) Start {
	return func(ctx context.Context, ranks, kills int, out io.Writer) error {
		return rankstest.Job(string(how))(ctx, ranks, func(rank int) bool { return rank >= ranks-kills }, out)
	}
}

// Every survivor of every round is measured, however it waits.
func TestDetect(t *testing.T) {
	for _, how := range []Wait{ForVictim, ForAny, InBarrier, Polling} {
		t.Run(string(how), func(t *testing.T) {
			o := tested
			o.Wait = how
			var rest bytes.Buffer
			rounds := 0
			r, err := Detect(t.Context(), o, job(how), &rest, Watch{Round: func(Round) { rounds++ }})
			require.NoError(t, err)
			require.Equal(t, o.Kills, rounds)
			require.Equal(t, o.Kills, r.Last.Count)
			require.Equal(t, 3*o.Kills, r.Each.Count)
			require.Len(t, r.All(), r.Each.Count)
			require.Positive(t, r.Each.Min)
			require.GreaterOrEqual(t, r.Last.Max, r.Last.P50)
			require.Equal(t, r.Last.Max, r.Each.Max)
			// Two jobs, of 3 and of 2 victims.
			require.Equal(t, o.Processes(3)+o.Processes(2), bytes.Count(rest.Bytes(), []byte("some rank says hello\n")))
		})
	}
}

// A rank that fails is what the error tells, not what the harness missed for it.
func TestRankFails(t *testing.T) {
	o := tested
	o.Wait = ForVictim
	_, err := Detect(t.Context(), o, job("no such way"), io.Discard, Watch{})
	require.ErrorContains(t, err, "exited with code 3")
	require.ErrorContains(t, err, "no such way")
}

// lonely is a job without ranks that ends with the context.
func lonely(ctx context.Context, _, _ int, _ io.Writer) error {
	<-ctx.Done()
	return nil
}

// Who is not ready in time, or does not notice, is named.
func TestSilence(t *testing.T) {
	o := Options{Ranks: 3, Kills: 1, PerJob: 1, Wait: ForVictim, Timeout: time.Hour, StartTimeout: time.Millisecond}
	k := &killer{o: o, limit: o.StartTimeout, lines: make(chan line), said: make(map[stage]map[int]line)}
	k.heard(2, false)[1] = line{rank: 1, pid: 7, victim: 2}
	_, err := k.collect(t.Context(), 2, o.Ranks, false)
	require.ErrorContains(t, err, "ranks [0 2] were not ready for the death of rank 2")
	o.Ranks = 40
	_, err = Detect(t.Context(), o, lonely, io.Discard, Watch{})
	require.ErrorContains(t, err, "13 14 15] and 24 more were not ready for the death of rank 39")
}

// A start that takes longer than a survivor may is no failure: it has a limit of its own, which
// grows with the job, and who watches is told how far it is.
func TestSlowStart(t *testing.T) {
	o := tested
	o.Ranks, o.PerJob, o.Kills, o.Wait, o.Timeout = 3, 1, 1, ForVictim, 1
	lines := make(chan line)
	var words []string
	k := &killer{
		o: o, limit: o.StartLimit(1), lines: lines, said: make(map[stage]map[int]line),
		watch: Watch{Waiting: func(text string) {
			if rank := len(words); rank < o.Ranks {
				go func() { lines <- line{rank: rank, pid: 1, victim: 2} }() // later than o.Timeout
			}
			words = append(words, text)
		}},
	}
	got, err := k.collect(t.Context(), 2, 3, false)
	require.NoError(t, err)
	require.Len(t, got, 3)
	require.Equal(t, []string{
		"0 of 3 ranks are ready, 31.5s at most", "1 of 3 ranks are ready, 31.5s at most", "2 of 3 ranks are ready, 31.5s at most", "",
	}, words)
	o.Ranks = 400
	require.Equal(t, 230*time.Second, o.StartLimit(1))
}

// The lines of different ranks overtake each other.
func TestLinesOutOfOrder(t *testing.T) {
	var said sync.WaitGroup
	lines := make(chan line, 8)
	said.Go(func() {
		w := wired(lines, io.Discard)
		for _, part := range []string{"fault: rank 1 pid 1 victim 3 at 0\nfau", "lt: rank 1 pid 1 victim 2 at 9\nnoise\n", "fault: rank 0 pid 1 victim 2 at 8\n"} {
			_, _ = w.Write([]byte(part)) // its writer is io.Discard
		}
		close(lines)
	})
	k := &killer{o: Options{Ranks: 3, Timeout: time.Hour}, limit: time.Hour, lines: lines, said: make(map[stage]map[int]line)}
	got, err := k.collect(t.Context(), 2, 2, true)
	require.NoError(t, err)
	require.Equal(t, map[int]line{0: {0, 1, 2, 8}, 1: {1, 1, 2, 9}}, got)
	got, err = k.collect(t.Context(), 3, 1, false)
	require.NoError(t, err)
	require.Len(t, got, 1)
	said.Wait()
	_, err = k.collect(t.Context(), 3, 2, false)
	require.ErrorIs(t, err, errJobEnded)
}

func TestOptions(t *testing.T) {
	good := Options{Ranks: 2, Kills: 1, PerJob: 1, Wait: ForAny, Timeout: 1}
	require.NoError(t, good.Check())
	for name, spoil := range map[string]func(*Options){
		"-n 1":             func(o *Options) { o.Ranks = 1 },
		"--kills 0":        func(o *Options) { o.Kills = 0 },
		"--per-job 0":      func(o *Options) { o.PerJob = 0 },
		"--victim-rss -1":  func(o *Options) { o.VictimMB = -1 },
		`--wait "asleep"`:  func(o *Options) { o.Wait = "asleep" },
		"--timeout 0s":     func(o *Options) { o.Timeout = 0 },
		"--settle -1ns":    func(o *Options) { o.Settle = -1 },
		"--start-timeout":  func(o *Options) { o.StartTimeout = -1 },
		"--kills 10000000": func(o *Options) { o.Kills = 10_000_000 },
	} {
		o := good
		spoil(&o)
		require.ErrorContains(t, o.Check(), name)
	}
}

func TestUnaware(t *testing.T) {
	require.Equal(t, []Step{{1, 1}, {5, 0.75}, {5, 0.5}, {9, 0.25}}, Unaware([]time.Duration{5, 9, 1, 5}))
}

// A percentile is never beyond what was measured.
func TestSpread(t *testing.T) {
	s, err := spread([]time.Duration{1_000_001, 3_000_000})
	require.NoError(t, err)
	require.Equal(t, time.Duration(3_000_000), s.P99)
	require.Equal(t, time.Duration(1_000_001), s.Min)
	require.InDelta(t, 2_000_000, float64(s.Mean), 4000)
}

// Who has noticed waits for the word of the harness, which goes to all, or for its limit.
func TestHold(t *testing.T) {
	onward := make(chan os.Signal, 1)
	signal.Notify(onward, unix.SIGUSR1)
	defer signal.Stop(onward)
	require.NoError(t, release(map[int]line{0: {pid: os.Getpid()}}))
	hold(onward, time.Hour)
	require.Empty(t, onward)
	hold(nil, 1)
	require.ErrorContains(t, release(map[int]line{7: {rank: 7, pid: 1 << 29}}), "send rank 7, process 536870912, on")
}
