package startup

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/launch"
	"github.com/banyan-hpc/banyan/internal/nodemem"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// The ranks of a machine map the memory that their launcher has made once, and none of each other's for
// a message, but for a rank that has not got it, and that maps a part of it for each of them.
func TestNodeMemory(t *testing.T) {
	exe, err := os.Executable()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out bytes.Buffer
	res, err := launch.Run(ctx, launch.Spec{
		N: 5, Argv: []string{"/bin/sh", "-c", fmt.Sprintf(`test $PMI_RANK = %d && unset %s; exec "$0"`, without, nodemem.Env), exe},
		Env:    append(os.Environ(), ranktest.RoleEnv+"=node memory", "BANYAN_FABRIC=shm"),
		Stdout: &out, Stderr: &out, OnFailure: launch.Continue,
	})
	require.NoError(t, err)
	for _, end := range res.Ends {
		require.False(t, end.Failed(), "%v\n%s", end, &out)
	}
}

// without is the rank of TestNodeMemory that has not got the memory.
const without = 1

func nodeMemory(w *banyan.World) error {
	c := w.Comm()
	buf := make([]byte, 8)
	var reqs []banyan.Request
	for peer := range c.Size() {
		if peer != c.Rank() {
			reqs = append(reqs, c.Irecv(buf[:1], peer, 0), c.Isend(buf[4:5], peer, 0))
		}
	}
	if err := banyan.WaitAll(reqs); err != nil {
		return err
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return err
	}
	node := strings.Count(string(maps), "memfd:"+nodemem.Name)
	others := strings.Count(string(maps), "memfd:banyan-shm")
	if c.Rank() != without && (node != 1 || others > 2) || c.Rank() == without && node != c.Size()-1 {
		return fmt.Errorf("rank %d maps parts of the node's memory %d times, and of segments %d times", c.Rank(), node, others)
	}
	return c.Barrier()
}
