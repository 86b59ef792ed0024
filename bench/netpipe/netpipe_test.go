package netpipe

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/pattern"
)

func TestSizes(t *testing.T) {
	for _, c := range []struct {
		lower, upper, perturbation int
		want                       []int
	}{
		{1, 64, 3, []int{1, 2, 3, 4, 6, 8, 12, 13, 16, 19, 21, 24, 27, 29, 32, 35, 45, 48, 51, 61, 64, 67}},
		{1, 64, 0, []int{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64}},
		{1, 1, 3, []int{1}},
		{64, 200, 3, []int{61, 64, 67, 93, 96, 99, 125, 128, 131, 189, 192, 195}},
		{64, 64, 0, []int{64}},
		{64, 64, 3, []int{61, 64, 67}},
		{100, 450, 0, []int{100, 150, 200, 300, 400}},
		{3, 20, 0, []int{3, 4, 6, 9, 12, 18}},
		{16, 40, 6, []int{10, 16, 18, 22, 24, 26, 30, 32, 38}}, // 16+6 > 24-6: still ascending
	} {
		got := Sizes(c.lower, c.upper, c.perturbation)
		require.Equal(t, c.want, got, "%d to %d ± %d", c.lower, c.upper, c.perturbation)
	}
	all := Sizes(1, 8<<20, 3)
	require.Len(t, all, 124, "NetPIPE's number of points up to 8 MiB")
	require.Equal(t, 8<<20+3, all[len(all)-1])
	for p := range 100 {
		s := Sizes(1, 1<<20, p)
		require.True(t, slices.IsSorted(s))
		require.Positive(t, s[0])
	}
}

// small is a run that takes no time.
func small(m Mode) Options {
	o := Defaults()
	o.Upper, o.TrialTime, o.Mode, o.Integrity = 40<<10, 50*time.Microsecond, m, true
	return o
}

// Loans transfer as many points as messages, and unsupported modes are refused.
func TestLoans(t *testing.T) {
	for _, m := range []Mode{PingPong, Streaming} {
		o := small(m)
		o.Registered, o.Lent, o.Integrity = true, true, false
		n := 0
		require.NoError(t, simulated(func(w *banyan.World) error {
			return Run(w, o, func(Point) error {
				n++
				return nil
			})
		}))
		require.Len(t, Sizes(o.Lower, o.Upper, o.Perturbation), n)
		for _, wrong := range []func(*Options){
			func(o *Options) { o.Registered = false }, func(o *Options) { o.Integrity = true },
			func(o *Options) { o.Mode = Bidirectional },
		} {
			o := o
			wrong(&o)
			require.ErrorContains(t, o.Check(), "loans")
		}
	}
}

// simulated runs body as two ranks in virtual time.
func simulated(body func(w *banyan.World) error) error {
	return banyan.Simulate(2, banyan.Simulation{}, body)
}

func TestRun(t *testing.T) {
	bytes := map[Mode]float64{PingPong: 1, Streaming: 1, Bidirectional: 2}
	latency := map[Mode]float64{}
	for _, m := range []Mode{PingPong, Streaming, Bidirectional} {
		t.Run(m.String(), func(t *testing.T) {
			o := small(m)
			var got []Point // written on rank 0 alone
			require.NoError(t, simulated(func(w *banyan.World) error {
				return Run(w, o, func(p Point) error {
					require.Zero(t, w.Comm().Rank())
					got = append(got, p)
					return nil
				})
			}))
			var sizes []int
			for _, p := range got {
				sizes = append(sizes, p.Size)
				require.Len(t, p.Trials, 3)
				require.Equal(t, slices.Min(p.Trials), p.Seconds)
				require.GreaterOrEqual(t, p.Repeats, minRepeats)
				require.InEpsilon(t, bytes[m]*8*float64(p.Size)/p.Seconds/(1<<20), p.Mbps, 1e-9)
				// In virtual time every trial takes the time that the warm-up has predicted.
				trial := p.Seconds * float64(p.Repeats)
				if m == PingPong {
					trial *= 2
				}
				if p.Repeats > minRepeats {
					require.InEpsilon(t, o.TrialTime.Seconds(), trial, 0.5, "%+v", p)
				}
			}
			require.Equal(t, Sizes(1, 40<<10, 3), sizes)
			latency[m] = got[0].Seconds
		})
	}
	require.Less(t, latency[Streaming], latency[PingPong], "a stream does not wait for answers")
}

// No two messages within a pool share a line, on either side, and the figures are those of the same
// messages in one buffer: the simulator has no caches.
func TestCold(t *testing.T) {
	times := map[bool][]float64{}
	for _, cold := range []bool{false, true} {
		for _, m := range []Mode{PingPong, Streaming, Bidirectional} {
			o := small(m)
			o.Lower, o.Upper, o.Cold = 1<<10, 40<<10, cold
			require.NoError(t, simulated(func(w *banyan.World) error {
				return Run(w, o, func(p Point) error {
					times[cold] = append(times[cold], p.Seconds)
					return nil
				})
			}))
		}
	}
	require.Equal(t, times[false], times[true])

	p := newPool(20 << 20)
	require.GreaterOrEqual(t, len(p.b), 80<<20)
	for _, size := range []int{1, 64, 65, 20<<20 + 3} {
		p.at = 0
		var last []byte
		for range min(1000, len(p.b)/(size+2*line)-1) {
			b := p.next(size)
			require.Len(t, b, size)
			if last != nil {
				require.Greater(t, address(b)/line, (address(last)+uintptr(size)-1)/line)
			}
			last = b
		}
		for range 3 { // beyond the end it begins again
			b := p.next(size)
			require.Len(t, b, size)
		}
	}
}

func TestCacheSize(t *testing.T) {
	dir := t.TempDir()
	for i, size := range []string{"32K\n", "x", "1024K\n", "99999999K"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, fmt.Sprint("index", i)), 0o777))
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprint("index", i), "size"), []byte(size), 0o666))
	}
	require.Equal(t, mostCache, cacheSize(filepath.Join(dir, "index")))
	require.NoError(t, os.Remove(filepath.Join(dir, "index3", "size")))
	require.Equal(t, 1<<20, cacheSize(filepath.Join(dir, "index")))
	require.Zero(t, cacheSize(filepath.Join(dir, "none")))
}

func TestFixedRepeats(t *testing.T) {
	o := small(PingPong)
	o.Upper, o.Repeats, o.Trials = 8, 17, 2
	require.NoError(t, simulated(func(w *banyan.World) error {
		return Run(w, o, func(p Point) error {
			require.Equal(t, 17, p.Repeats)
			require.Len(t, p.Trials, 2)
			return nil
		})
	}))
}

func TestGrown(t *testing.T) {
	const trial = 100 * time.Millisecond
	for _, c := range []struct {
		n       int
		elapsed time.Duration
		next    int
		done    bool
	}{
		{100, 10 * time.Millisecond, 1000, true},
		{100, 40 * time.Millisecond, 250, true},
		{1, time.Second, minRepeats, true},
		{100, 5 * time.Millisecond, 250, false},
		{100, 9999 * time.Microsecond, 200, false},
		{10, time.Microsecond, 200, false},
		{10, 0, 200, false},
		{maxRepeats, 0, maxRepeats, true},
		{maxRepeats/10 - 1, 0, 2 * (maxRepeats/10 - 1), false},
	} {
		next, done := grown(c.n, c.elapsed, trial)
		require.Equal(t, c.done, done, "%+v", c)
		require.Equal(t, c.next, next, "%+v", c)
	}
}

func TestEmitEndsTheRun(t *testing.T) {
	stop := errors.New("enough")
	require.ErrorIs(t, simulated(func(w *banyan.World) error {
		o := small(PingPong)
		o.Upper = 1
		return Run(w, o, func(Point) error { return stop })
	}), stop)
}

func TestCheck(t *testing.T) {
	for want, change := range map[string]func(*Options){
		"sizes from 0":            func(o *Options) { o.Lower = 0 },
		"sizes from 9 to 8":       func(o *Options) { o.Lower, o.Upper = 9, 8 },
		"upper ≤ 1073741824":      func(o *Options) { o.Upper = maxSize + 1 },
		"perturbation of -1":      func(o *Options) { o.Perturbation = -1 },
		"0 trials":                func(o *Options) { o.Trials = 0 },
		"-1 repeats":              func(o *Options) { o.Repeats = -1 },
		"a time above 0":          func(o *Options) { o.TrialTime = 0 },
		"netpipe: mode 3 is none": func(o *Options) { o.Mode = 3 },
	} {
		o := Defaults()
		require.NoError(t, o.Check())
		change(&o)
		require.ErrorContains(t, o.Check(), want)
		require.ErrorContains(t, simulated(func(w *banyan.World) error { return Run(w, o, nil) }), want)
	}
	require.ErrorContains(t, banyan.Simulate(3, banyan.Simulation{}, func(w *banyan.World) error {
		return Run(w, Defaults(), nil)
	}), "the job has 3 ranks, exactly 2 are needed")
}

func TestModeInJSON(t *testing.T) {
	b, err := json.Marshal(Options{Mode: Bidirectional})
	require.NoError(t, err)
	require.Contains(t, string(b), `"mode":"bidirectional"`)
}

// liar stands in for one side of the integrity check and makes the byte at place of each message
// that it sends wrong; place -1 makes none wrong. It finds nothing wrong itself.
func liar(w *banyan.World, m Mode, size, n, place int) error {
	p, err := newPair(w, &Options{Mode: m}, size)
	if err != nil {
		return err
	}
	out := make([]byte, size)
	for i := range checked(size, n) {
		pattern.Fill(out, seed(i, p.first))
		if place >= 0 {
			out[place] ^= 1
		}
		switch {
		case m == Bidirectional:
			err = p.exchange(out, p.rbuf, 1)
		case m == Streaming:
			err = p.send(out, 1)
		case p.first:
			err = p.ping(out, p.rbuf, 1)
		default:
			err = errors.Join(p.receive(p.rbuf, 1), p.send(out, 1))
		}
		if err != nil {
			return err
		}
	}
	return p.sync()
}

// One wrong byte per message, first, middle or last, from either side, is found and counted; none
// is found where there is none.
func TestIntegrityFindsAWrongByte(t *testing.T) {
	const size, n = 5000, 7
	for _, c := range []struct {
		mode Mode
		liar int
		cold bool
	}{{PingPong, 0, false}, {PingPong, 1, false}, {PingPong, 0, true}, {Streaming, 0, false},
		{Bidirectional, 0, false}, {Bidirectional, 1, false}} {
		for _, place := range []int{-1, 0, 2500, size - 1} {
			var found error
			require.NoError(t, simulated(func(w *banyan.World) error {
				if w.Comm().Rank() == c.liar {
					return liar(w, c.mode, size, n, place)
				}
				p, err := newPair(w, &Options{Mode: c.mode, Cold: c.cold}, size)
				if err != nil {
					return err
				}
				found = p.integrity(size, n)
				return nil
			}))
			about := fmt.Sprintf("%v, rank %d lies at %d", c.mode, c.liar, place)
			if place < 0 {
				require.NoError(t, found, about)
				continue
			}
			require.EqualError(t, found, "integrity check: 7 bytes arrived wrong in messages of 5000 bytes", about)
		}
	}
}

// An error that one side has found the other reports too: here the sender of a stream, which
// receives nothing that it could check.
func TestIntegrityFailsOnBothRanks(t *testing.T) {
	const size, n, wrong = 8, 4, 5
	var found error
	require.NoError(t, simulated(func(w *banyan.World) error {
		p, err := newPair(w, &Options{Mode: Streaming}, size)
		if err != nil {
			return err
		}
		if p.first {
			found = p.integrity(size, n)
			return nil
		}
		if err := p.receive(p.rbuf, n); err != nil {
			return err
		}
		p.word[0] = wrong
		return p.sync()
	}))
	var corrupt *CorruptError
	require.ErrorAs(t, found, &corrupt)
	require.Equal(t, CorruptError{Size: size, Bytes: wrong}, *corrupt)
}

func TestChecked(t *testing.T) {
	for _, c := range [][3]int{{1, 5000, 1000}, {1, 10, 10}, {1 << 20, 500, 64}, {1 << 30, 3, 3}, {1 << 30, 100, 3}} {
		require.Equal(t, c[2], checked(c[0], c[1]), "%d bytes, %d repeats", c[0], c[1])
	}
}

// The rows are read back as they were, small times too.
func TestRowsGoRound(t *testing.T) {
	var b strings.Builder
	points := []Point{{Size: 1, Mbps: 84.77, Seconds: 90e-9}, {Size: 8 << 20, Mbps: 123456.789, Seconds: 518.25e-6}}
	for _, p := range points {
		require.NoError(t, WriteRow(&b, p))
	}
	require.Equal(t, "       1 84.770000   0.000000090000\n 8388608 123456.789000   0.000518250000\n", b.String())
	rows, err := ReadRows(strings.NewReader(b.String()))
	require.NoError(t, err)
	require.Equal(t, []Row{{1, 84.77, 90e-9}, {8 << 20, 123456.789, 518.25e-6}}, rows)
}

func TestReadRows(t *testing.T) {
	rows, err := ReadRows(strings.NewReader("# a comment\n\n       1 0.165059   0.00004622\n       " +
		"2\t0.33\t0.00004622\t0.1 9\n"))
	require.NoError(t, err)
	require.Equal(t, []Row{{1, 0.165059, 0.00004622}, {2, 0.33, 0.00004622}}, rows,
		"as NetPIPE writes them, and with further columns")
	for text, want := range map[string]string{
		"1 2 3\n1 2\n":  "line 2: 2 columns: bytes, Mbps and seconds are needed",
		"x 2 3":         `line 1: "x" is no number of bytes`,
		"0 2 3":         `line 1: "0" is no number of bytes`,
		"\n1.5 2 3":     `line 2: "1.5" is no number of bytes`,
		"1 fast 3":      `line 1: "fast" is no number from 0 on`,
		"1 2 -3":        `line 1: "-3" is no number from 0 on`,
		"1 NaN 3":       `line 1: "NaN" is no number from 0 on`,
		"1 2 3\n<html>": "line 2: 1 columns",
	} {
		_, err := ReadRows(strings.NewReader(text))
		require.ErrorContains(t, err, want)
	}
}

func TestLine(t *testing.T) {
	p := Point{Size: 131, Repeats: 4321, Mbps: 987.654, Seconds: 1.0123e-6}
	require.Equal(t, " 37:     131 bytes   4321 times -->   987.65 Mbps in      1.012 usec", Line(37, p))
}
