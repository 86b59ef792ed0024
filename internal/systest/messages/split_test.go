package messages

import (
	"errors"
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
	for victim, name := range []string{"sender", "receiver"} {
		roles["split, the "+name+" dies"] = func(w *banyan.World) error {
			mem, err := banyan.Alloc[byte](w, splitBytes)
			if err != nil {
				return err
			}
			return errors.Join(dieInCopy(w, victim, mem), banyan.Free(w, mem))
		}
		roles["split, the "+name+" dies, heap"] = func(w *banyan.World) error {
			return dieInCopy(w, victim, make([]byte, splitBytes))
		}
	}
}

const splitBytes = 4 << 20

// dieInCopy sends from mem to mem, so both ranks copy parts of each message, until a goroutine of one rank kills it. A
// message of which the other has no error is whole, and after an error nothing changes its buffer.
func dieInCopy(w *banyan.World, victim int, mem []byte) (err error) {
	c := w.Comm()
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
			for before := slices.Clone(mem); err != nil && messages.Add(1) < 200; {
				if !slices.Equal(before, mem) {
					return errors.New("the dead have written")
				}
			}
			return nil
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
		for _, memory := range []string{"", ", heap"} {
			for range ranktest.Scaled(5, 2) {
				res, out := ranktest.Job(t, launch.Continue, 2, role+memory, "BANYAN_PROFILE=ulfm")
				require.False(t, res.Ends[1-victim].Failed(), "%v\n%s", res.Ends[1-victim], out)
			}
		}
	}
}
