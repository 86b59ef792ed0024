package suite

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/bench/compare"
	"github.com/banyan-hpc/banyan/bench/netpipe"
	"github.com/banyan-hpc/banyan/bench/peers"
)

// The recorded files are of NetPIPE 3.7.2 from Debian 12, with Open MPI 4.1.4, MPICH 4.0.2 and on
// plain sockets: -l 64 -u 1023 -p 0 -n 2000.
func TestSecondsOfRecorded(t *testing.T) {
	sizes := chunk{lower: 64, upper: 1023}.sizes()
	require.Equal(t, []int{64, 96, 128, 192, 256, 384, 512, 768}, sizes)
	for file, want := range map[string]float64{"np.openmpi": 0.413775e-6, "np.mpich2": 0.6290078e-6,
		"np.tcp": 32.971024157e-6} {
		rows, err := netpipe.ReadFile(filepath.Join("testdata", file))
		require.NoError(t, err)
		got, err := secondsOf(rows, sizes)
		require.NoError(t, err)
		require.InDelta(t, want, got[0], 1e-12, file)
		for i, row := range rows {
			require.InDelta(t, row.Seconds, got[i], 5.1e-9, "NetPIPE rounds to 10 ns")
		}
		_, err = secondsOf(rows[:7], sizes)
		require.ErrorContains(t, err, "has measured 7 sizes")
		_, err = secondsOf(rows, sizes[:7])
		require.ErrorContains(t, err, "has measured 768 bytes")
		rows[3].Mbps = 0
		_, err = secondsOf(rows, sizes)
		require.ErrorContains(t, err, "192 bytes at 0 Mbps")
	}
}

// The chunks put together are NetPIPE's schedule, without gap or overlap.
func TestNetpipeChunks(t *testing.T) {
	var all []int
	for _, g := range netpipeGroups {
		all = nil
		for _, k := range g.chunks(20 * time.Millisecond) {
			require.GreaterOrEqual(t, k.repeats, 5)
			all = append(all, k.sizes()...)
		}
		require.Equal(t, netpipe.Sizes(1, LargestSize, 0), all, g.name)
	}
}

// boundsOf counts the bounds of a group by name and limit, and checks the compared sources.
func boundsOf(t *testing.T, group string, sizes SizeRange, others ...string) (*compare.Sweep, map[compare.Bound]int) {
	t.Helper()
	c := &Comparison{Options: Options{Sample: time.Millisecond, Sizes: sizes},
		netpipes: map[string][]netpipeRun{group: {{name: ours}}}}
	for _, name := range others {
		c.netpipes[group] = append(c.netpipes[group], netpipeRun{name: name})
	}
	s := c.sweeps(group)[0]
	count := map[compare.Bound]int{}
	for _, part := range s.Parts {
		require.Equal(t, ours, part.Sources[0].Name, "the subject")
		require.Len(t, part.Sources, 1+len(others))
		for _, p := range part.Points {
			for _, b := range p.Bounds {
				count[b]++
			}
		}
	}
	return s, count
}

// The bounds of shared memory hold at each size over both; the median's is of those sizes.
func TestNetpipeHasTheBounds(t *testing.T) {
	s, count := boundsOf(t, groupNetpipe, SizeRange{}, openmpi, mpich)
	want := map[compare.Bound]int{}
	for _, peer := range []string{openmpi, mpich} {
		want[compare.Bound{ID: "B3-2", Over: peer, Ratio: compare.OfTimes, Limit: 1}] = 12
		want[compare.Bound{ID: "B3-3", Over: peer, Ratio: compare.OfRates, Limit: 0.95}] = len(netpipe.Sizes(64, 8<<20,
			0))
	}
	require.Equal(t, want, count)
	require.Equal(t, compare.Bound{ID: "B3-4", Over: "the better", Ratio: compare.OfRates, Limit: 1}, s.Middle)
	s, _ = boundsOf(t, groupNetpipe, SizeRange{1, 1000}, openmpi, mpich)
	require.Zero(t, s.Middle, "a part of the curve has another median")
}

// The bounds over TCP are of one byte and of the large sizes; the others of those runs, and all of
// Unix sockets, are for information.
func TestTCPHasTheBounds(t *testing.T) {
	s, count := boundsOf(t, groupTCP, SizeRange{}, nptcp, openmpiTCP)
	large := len(netpipe.Sizes(64<<10, 8<<20, 0))
	want := map[compare.Bound]int{
		{ID: "B4-1", Over: nptcp, Ratio: compare.OfTimes, Limit: 1}:         1,
		{ID: "B4-2", Over: openmpiTCP, Ratio: compare.OfTimes, Limit: 0.75}: 1,
	}
	for _, peer := range []string{nptcp, openmpiTCP} {
		want[compare.Bound{ID: "B4-3", Over: peer, Ratio: compare.OfRates, Limit: 0.95}] = large
		want[compare.Bound{Over: peer, Ratio: compare.OfTimes}] = 6 // 2, 3, 4, 6, 8 and 12 bytes
	}
	require.Equal(t, want, count)
	require.Equal(t, "1", s.Parts[0].Points[0].Label)
	require.Zero(t, s.Middle)

	s, _ = boundsOf(t, groupTCP, SizeRange{1, LargestSize}, nptcp)
	require.Len(t, s.Parts, 10, "the whole curve, where it is asked for")
	_, count = boundsOf(t, groupUnix, SizeRange{}, nptcp, openmpiTCP)
	for b := range count {
		require.Zero(t, b.Limit)
	}
	require.Len(t, count, 4)
}

// A program that claims to measure TCP and does not is detected.
func TestNetpipeThatDoesNotUseTCP(t *testing.T) {
	recorded, err := os.ReadFile(filepath.Join("testdata", "np.tcp"))
	require.NoError(t, err)
	run := netpipeRun{name: "liar", run: func(_ context.Context, args ...string) error {
		return os.WriteFile(args[len(args)-1], recorded, 0o600)
	}}
	// More messages than anything else on this machine can send meanwhile.
	k := chunk{lower: 64, upper: 1023, repeats: 1 << 40}
	seconds, err := run.sample(t.Context(), k)
	require.NoError(t, err)
	require.Len(t, seconds, 8)
	run.overTCP = true
	_, err = run.sample(t.Context(), k)
	require.ErrorContains(t, err, "it does not use TCP")
}

// The peers over TCP are those that are installed, and their messages are segments: NPtcp, as the
// subject, against Open MPI.
func TestPeersOverTCP(t *testing.T) {
	cpus, err := peers.CPUs()
	if err != nil {
		cpus = [2]int{}
	}
	c := &Comparison{cpus: cpus, self: "ftbench", Options: Options{Sample: time.Millisecond},
		netpipes: map[string][]netpipeRun{}, commands: map[string]string{}, absent: map[string]string{}}
	require.NoError(t, c.addNetpipes(t.Context(), netpipeGroups[groupTCP]))
	require.Equal(t, "BANYAN_FABRIC=tcp ftbench run -n 2 --bind core --on-failure abort -- ftbench netpipe --trials "+
		"3 -l LOWER -u UPPER -p 0 -n REPEATS -o FILE", c.commands["tcp banyan"])
	for name, tool := range map[string]string{nptcp: "NPtcp", openmpiTCP: "NPopenmpi"} {
		i := slices.IndexFunc(c.netpipes[groupTCP], func(r netpipeRun) bool { return r.name == name })
		if _, err := exec.LookPath(tool); err != nil {
			require.Contains(t, c.absent[tool], "apt-get install")
			require.Negative(t, i)
			continue
		}
		require.True(t, c.netpipes[groupTCP][i].overTCP)
		seconds, err := c.netpipes[groupTCP][i].sample(t.Context(), chunk{lower: 1, upper: 4, repeats: 200})
		require.NoError(t, err)
		require.Len(t, seconds, 4)
	}
}
