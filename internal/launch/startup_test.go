package launch

import (
	"net"
	"regexp"
	"testing"

	"github.com/banyan-hpc/banyan/internal/launch/pmi"
	"github.com/stretchr/testify/require"
)

// A long wait is reported, once, with its reason. On a busy machine the report may come before the first attempt has
// failed, and thus without one.
func TestStartUpReportsWhatItWaitsFor(t *testing.T) {
	t.Parallel() // it waits for the time-out
	server := setOut(t, "join", somePort(t), 0, 2, pmi.InitTimeoutEnv+"=4s", "MASTER_ADDR=nowhere.invalid")
	var reason string
	for try := 0; try < 5 && reason == ""; try++ {
		port := somePort(t)
		client := setOut(t, "join", port, 1, 2, pmi.InitTimeoutEnv+"=4s")
		client.end(9)
		parts := regexp.MustCompile(`^banyan: rank 1 waits for rank 0 at 127\.0\.0\.1:` + port + ` \(MASTER_ADDR and MASTER_PORT\), at most 4s \(BANYAN_INIT_TIMEOUT\)(.*)
join: launch: rank 0 has not answered at 127\.0\.0\.1:\d+ within 4s: .*connection refused
$`).FindStringSubmatch(client.out.String())
		require.NotNil(t, parts, client.out.String())
		reason = parts[1]
	}
	require.Regexp(t, `^: .*connection refused$`, reason)
	server.end(9)
	require.Regexp(t, `^banyan: rank 0 waits for MASTER_ADDR to be an address of the machine where it runs, at most 4s \(BANYAN_INIT_TIMEOUT\).*
join: launch: unusable launcher environment: MASTER_ADDR does not resolve where RANK=0 runs: lookup nowhere\.invalid.*
$`, server.out.String())
}

// Without IPv6 rank 0 reports that; with it the ranks meet there.
func TestRendezvousOverIPv6(t *testing.T) {
	port := somePort(t)
	l, err := net.Listen("tcp", "[::1]:"+port)
	if err != nil {
		out := setOut(t, "join", port, 0, 2, "MASTER_ADDR=::1").end(9)
		require.Regexp(t, "MASTER_ADDR is no address of the machine|cannot listen", out)
		return
	}
	require.NoError(t, l.Close())
	var ranks []*single
	for r, addr := range []string{"::1", "[::1]", "::1"} {
		ranks = append(ranks, setOut(t, "exchange", port, r, 3, "MASTER_ADDR="+addr))
	}
	for _, s := range ranks {
		s.end(0)
	}
}
