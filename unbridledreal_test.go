package banyan_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/launch"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

func TestMain(m *testing.M) { ranktest.Main(m, ranktest.Roles{"unbridled": unbridled}, nil) }

const floodEnv = "BANYAN_TEST_FLOOD"

// mostGrown is by how much a rank may grow while one of its peers sends it whatever it can, in KiB.
const mostGrown = 20 << 10

// unbridled has rank 1 send without a limit, and rank 0 wait for something else.
func unbridled(w *banyan.World) error {
	c := w.Comm()
	if err := c.Barrier(); err != nil {
		return err
	}
	if c.Rank() == 1 {
		flood(os.Getenv(floodEnv))
		return nil
	}
	before, err := peak()
	if err != nil {
		return err
	}
	_, err = c.Recv(make([]byte, 8), 1, 6)
	after, perr := peak()
	switch {
	case perr != nil:
		return perr
	case err == nil || !strings.Contains(err.Error(), "corrupt data"):
		return fmt.Errorf("the receive has ended with %w", err)
	case after-before > mostGrown:
		return fmt.Errorf("rank 0 has grown by %d KiB", after-before)
	}
	fmt.Fprintf(os.Stderr, "grown by %d KiB: %v\n", after-before, err)
	return nil
}

// peak is the largest amount of memory that this process has had, in KiB.
func peak() (kib int, err error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kib); n == 1 {
			return kib, nil
		}
	}
	return 0, fmt.Errorf("no VmHWM in %q", status)
}

// A peer that has the secret and ignores its credit is cut off as corrupt, and the rank that it floods stays small.
func TestUnbridledPeer(t *testing.T) {
	for _, fabric := range []string{"shm", "tcp"} {
		for _, kind := range []string{"short", "long", "unknown communicator", "fragments", "announced", "agreements", "pieces", "asks"} {
			if fabric == "tcp" && kind == "asks" {
				continue // without polls the peer sends nothing either
			}
			t.Run(fabric+"/"+kind, func(t *testing.T) {
				res, out := ranktest.Job(t, launch.Continue, 2, "unbridled", "BANYAN_FABRIC="+fabric, floodEnv+"="+kind)
				require.False(t, res.Ends[0].Failed(), "%v\n%s", res.Ends, out)
				t.Log(out)
			})
		}
	}
}
