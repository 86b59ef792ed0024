package messages

import (
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/launch"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

func init() {
	roles["split, the sender dies"] = func(w *banyan.World) error { return dieInCopy(w, 0) }
	roles["split, the receiver dies"] = func(w *banyan.World) error { return dieInCopy(w, 1) }
}

// dieInCopy sends from memory of Alloc to memory of Alloc, so both ranks copy parts of each message, until a
// goroutine of one rank kills it. A message of which the other has no error is whole.
func dieInCopy(w *banyan.World, victim int) error {
	const n = 4 << 20
	c := w.Comm()
	mem, err := banyan.Alloc[byte](w, n)
	if err != nil {
		return err
	}
	var messages atomic.Int32
	if c.Rank() == victim {
		go func() {
			for messages.Load() < 20 {
			}
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // cannot fail
		}()
	}
	for i := range mem {
		mem[i] = 7
	}
	for {
		if c.Rank() == 0 {
			err = c.Send(mem, 1, 0)
		} else {
			clear(mem)
			_, err = c.Recv(mem, 0, 0)
		}
		switch {
		case banyan.IsFailure(err):
			return banyan.Free(w, mem)
		case err != nil:
			return err
		case slices.ContainsFunc(mem, func(b byte) bool { return b != 7 }):
			return fmt.Errorf("message %d is not whole", messages.Load())
		}
		messages.Add(1)
	}
}

func TestDeathsWhileBothCopy(t *testing.T) {
	for victim, role := range []string{"split, the sender dies", "split, the receiver dies"} {
		for range ranktest.Scaled(5, 2) {
			res, out := ranktest.Job(t, launch.Continue, 2, role, "BANYAN_PROFILE=ulfm")
			require.False(t, res.Ends[1-victim].Failed(), "%v\n%s", res.Ends[1-victim], out)
		}
	}
}
