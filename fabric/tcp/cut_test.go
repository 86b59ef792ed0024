package tcp

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Connections are broken at random between processes that live and send all the time: no frame may
// be lost, duplicated, changed or out of order; each loan returns once, each buffer is requested
// and reported once. The processes are endpoints in this one, polled in turn, so that a seed
// repeats the schedule except for the kernel's part.
func TestCuts(t *testing.T) {
	cuts := 300
	switch {
	case os.Getenv("BANYAN_LONG") != "":
		cuts = 10_000
	case testing.Short():
		cuts = 40
	}
	for name, cfg := range map[string]Config{
		"tcp":  {Inet: true, Networks: []string{"127.0.0.0/8"}, Outbox: 1 << 20},
		"tiny": {Inet: true, Networks: []string{"127.0.0.0/8"}, Outbox: minOutbox},
		"unix": {Unix: true, Outbox: minOutbox},
	} {
		t.Run(name, func(t *testing.T) {
			leavesNothing(t)
			seed := seedOf(t)
			tn := newMesh(t, cfg, 3, seed)
			tn.run(cuts)
			tn.settle()
			tn.requireCounted()
			tn.depart()
			require.GreaterOrEqual(t, tn.heals(), cuts/4, "most cuts must have hit a connection")
		})
	}
}

// seedOf is BANYAN_SEED, or a new seed; a failing test prints it.
func seedOf(t *testing.T) uint64 {
	seed, err := strconv.ParseUint(os.Getenv("BANYAN_SEED"), 10, 64)
	if err != nil {
		seed = uint64(time.Now().UnixNano())
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("BANYAN_SEED=%d runs it again", seed)
		}
	})
	return seed
}

// leavesNothing makes a test fail that leaks descriptors.
func leavesNothing(t *testing.T) {
	warm, err := Open(Config{MaxProcs: 1, Secret: secret, Inet: true}) // opens the descriptors that Go's runtime keeps
	require.NoError(t, err)
	require.NoError(t, warm.Close())
	before := descriptors(t)
	t.Cleanup(func() { require.Equal(t, before, descriptors(t), "descriptors") })
}

// descriptors counts the open descriptors of each kind.
func descriptors(t *testing.T) map[string]int {
	const dir = "/proc/self/fd/"
	names, err := os.ReadDir(dir)
	require.NoError(t, err)
	kinds := make(map[string]int)
	for _, n := range names {
		if to, err := os.Readlink(dir + n.Name()); err == nil { // one is of ReadDir itself
			kind, _, _ := strings.Cut(to, ":[")
			kinds[kind]++
		}
	}
	return kinds
}

// stall is the time without events after which a test counts as hanging.
const stall = 40 * time.Second
