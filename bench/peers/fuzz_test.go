package peers

import (
	"math"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// Any output of the programs that are measured beside Banyan, and of the machine's kernel, gives
// numbers that can be compared, or an error.
func FuzzOutput(f *testing.F) {
	f.Add("iterations,overall_mr\n1000,250000.5\n")
	f.Add("bcast 8 1250.5\n")
	f.Add("ok 1250.5\n")
	f.Add("passed 99\n")
	f.Add("99\n")
	f.Add("Tcp: InSegs OutSegs\nTcp: 1 2\n")
	f.Add("cpu  1\ncpu0 1 2 3 4 5 6 7 8\ncpu1 inf nan 3 4 5 6 7 8\n")
	f.Add("bcast 8 inf\n")
	f.Add("bcast 8 1250.5 9000\n")
	f.Add("# Size\n8 0.5\n")
	f.Add("10.500000\n")
	f.Fuzz(func(t *testing.T, text string) {
		positive := func(v float64, err error) {
			require.True(t, err != nil || v > 0 && !math.IsInf(v, 1), "%v of %q", v, text)
		}
		positive(parseUCX(text))
		positive(parsePerftest(text, true))
		positive(parsePerftest(text, false))
		if times, longest, err := parseCollectives(text, []Collective{{Op: "bcast", Bytes: 8}}); err == nil {
			positive(times[0], nil)
			require.True(t, longest[0] >= 0 && !math.IsInf(longest[0], 1))
		}
		if times, err := parseOSU(text, 1); err == nil {
			positive(times[0], nil)
		}
		d, err := parseReply(text)
		require.True(t, err != nil || d >= 0)
		if rounds, err := parseDeaths(text, 1, 1); err == nil {
			require.Positive(t, rounds[0][0])
		}
		last, err := parsePasses(text, 1)
		require.True(t, err != nil || last > 0)
		if n, err := parseSegments(text); err == nil {
			require.Contains(t, text, strconv.FormatInt(n, 10))
		}
		if idle, all, err := parseStat(text, [2]int{0, 1}); err == nil {
			require.True(t, 0 <= idle && idle <= all && !math.IsInf(all, 1), "%v of %v", idle, all)
		}
		listens(text, 80)
	})
}

// A job is written as it is read, within the limits.
func FuzzJob(f *testing.F) {
	f.Add(Job{Latency, 8, 1, 10, 100}.String())
	f.Add("latency 8 1 -1 1")
	f.Add("bcast:8")
	f.Fuzz(func(t *testing.T, line string) {
		if j, err := parseJob(line); err == nil {
			again, err := parseJob(j.String())
			require.NoError(t, err)
			require.Equal(t, j, again)
		}
		if c, err := ParseCollective(line); err == nil {
			again, err := ParseCollective(c.String())
			require.NoError(t, err)
			require.Equal(t, c, again)
		}
	})
}
