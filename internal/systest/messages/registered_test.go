package messages

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/launch"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

func init() {
	roles["registered"] = registered
	roles["registered, killed"] = killedLender
	roles["registered, mapped"] = mappedMemory
	roles["registered, limit"] = limitedMemory
}

// registered exchanges messages of all lengths from memory of Alloc, into such memory and other.
func registered(w *banyan.World) error {
	c := w.Comm()
	peer := 1 - c.Rank()
	for _, n := range []int{1, 100, 4096, 8 << 10, 17 << 10, 64<<10 + 3, 1 << 20, 8 << 20} {
		for k, into := range []func(n int) ([]int32, error){
			func(n int) ([]int32, error) { return banyan.Alloc[int32](w, n) },
			func(n int) ([]int32, error) { return make([]int32, n), nil },
		} {
			out, err := banyan.Alloc[int32](w, n/4+2)
			if err != nil {
				return err
			}
			in, err := into(n/4 + 1)
			if err != nil {
				return err
			}
			for i := range out {
				out[i] = int32(i * (c.Rank() + n))
			}
			data := out[1:] // not at the beginning
			for range 3 {
				r := banyan.Irecv(c, in, peer, 1)
				if err := banyan.Send(c, data, peer, 1); err != nil {
					return err
				}
				if _, err := r.Wait(); err != nil {
					return err
				}
				for i := range in {
					if want := int32((i + 1) * (peer + n)); in[i] != want {
						return fmt.Errorf("%d bytes: element %d is %d, want %d", n, i, in[i], want)
					}
				}
			}
			if err := banyan.Free(w, out); err != nil {
				return err
			}
			if err := banyan.Free(w, in); (err == nil) != (k == 0) {
				return fmt.Errorf("free of %d: %v", k, err)
			}
		}
	}
	if m := w.Memory(); m.Used != 0 || m.Peak < 8<<20 {
		return fmt.Errorf("%+v", m)
	}
	return nil
}

func TestRegisteredMemory(t *testing.T) {
	for _, env := range [][]string{nil, {"BANYAN_FABRIC=tcp"}, {"BANYAN_DEBUG=on"}} {
		ranktest.Succeed(t, 2, "registered", env...)
	}
}

// killedLender has rank 0 die while rank 1 receives from its memory: each receive has all, or fails.
func killedLender(w *banyan.World) error {
	const n = 4 << 20
	c := w.Comm()
	if c.Rank() == 0 {
		out, err := banyan.Alloc[uint8](w, n)
		if err != nil {
			return err
		}
		for i := range out {
			out[i] = 7
		}
		for k := range 50 {
			c.Isend(out, 1, 0)
			if k == 40 {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // cannot fail
			}
		}
	}
	in, got := make([]byte, n), 0
	for {
		clear(in)
		if _, err := c.Recv(in, 0, 0); err != nil {
			if !banyan.IsFailure(err) {
				return err
			}
			return nil
		}
		if got++; slices.ContainsFunc(in, func(b byte) bool { return b != 7 }) {
			return fmt.Errorf("message %d is not whole", got)
		}
	}
}

func TestRegisteredMemoryOfTheDead(t *testing.T) {
	for range ranktest.Scaled(5, 2) {
		res, out := ranktest.Job(t, launch.Continue, 2, "registered, killed", "BANYAN_PROFILE=ulfm")
		require.False(t, res.Ends[1].Failed(), "%v\n%s", res.Ends[1], out)
	}
}

// mappedMemory: although the kernel may not read another process here, messages from allocated memory take a few
// frames each, and not their bytes in frames as those from other memory.
func mappedMemory(w *banyan.World) error {
	const times = 20
	c := w.Comm()
	peer := 1 - c.Rank()
	for _, n := range []int{8 << 10, 64 << 10, 1 << 20, 8 << 20} {
		mem, err := banyan.Alloc[byte](w, n)
		if err != nil {
			return err
		}
		var frames [2]uint64 // of ordinary memory, of allocated
		for k, buf := range [][]byte{make([]byte, n), mem} {
			before := w.PeerCounters(peer).FramesSent
			for i := range times {
				if c.Rank() == 1 {
					copy(buf, make([]byte, n))
					if _, err := c.Recv(buf, 0, 1); err != nil {
						return err
					}
					if want := ranktest.Pattern(i, n); !bytes.Equal(buf, want) {
						return fmt.Errorf("%d bytes: message %d is wrong", n, i)
					}
				} else {
					copy(buf, ranktest.Pattern(i, n))
					if err := c.Send(buf, 1, 1); err != nil {
						return err
					}
				}
			}
			if err := c.Barrier(); err != nil {
				return err
			}
			frames[k] = w.PeerCounters(peer).FramesSent - before
		}
		if c.Rank() == 0 && (frames[1] > 4*times || n > 1<<20 && frames[0] < 10*times) {
			return fmt.Errorf("%d messages of %d bytes: %d frames from other memory, %d from allocated", times, n, frames[0], frames[1])
		}
		if err := banyan.Free(w, mem); err != nil {
			return err
		}
	}
	if m := w.Memory(); m.Limit <= 0 {
		return fmt.Errorf("%+v", m)
	}
	return nil
}

func TestRegisteredMemoryIsMapped(t *testing.T) {
	ranktest.Succeed(t, 2, "registered, mapped", ranktest.NoCopyEnv+"=1", "BANYAN_DEBUG=off")
}

// limitedMemory: the user's limit holds, on each fabric, and its error names the cure.
func limitedMemory(w *banyan.World) error {
	mem, err := banyan.Alloc[float64](w, 1<<17)
	if err != nil {
		return err
	}
	_, err = banyan.Alloc[byte](w, 1)
	if !errors.Is(err, banyan.ErrNoMemory) || banyan.ClassOf(err) != banyan.ClassNoMemory ||
		!strings.Contains(fmt.Sprint(err), "BANYAN_MEMORY_LIMIT") {
		return fmt.Errorf("beyond the limit: %v", err)
	}
	if m := w.Memory(); m.Limit != 1<<20 || m.Used != 1<<20 {
		return fmt.Errorf("%+v", m)
	}
	return banyan.Free(w, mem)
}

func TestMemoryLimit(t *testing.T) {
	for _, fabric := range []string{"shm", "tcp"} {
		ranktest.Succeed(t, 2, "registered, limit", "BANYAN_MEMORY_LIMIT=1m", "BANYAN_FABRIC="+fabric)
	}
}

// A simulated rank allocates as any other, and its option is the limit.
func TestAllocInSimulation(t *testing.T) {
	require.NoError(t, banyan.Simulate(2, banyan.Simulation{Options: []banyan.Option{banyan.WithMemoryLimit(1 << 20)}}, limitedMemory))
}

// Memory is not given back while a message from it is under way, or one into it.
func TestFreeOfMemoryInUse(t *testing.T) {
	require.NoError(t, banyan.Simulate(2, banyan.Simulation{Seed: 1}, func(w *banyan.World) error {
		c := w.Comm()
		memory, err := banyan.Alloc[byte](w, 1<<20)
		if err != nil {
			return err
		}
		if c.Rank() == 1 {
			w.Sleep(1e9)
			_, err := c.Recv(memory, 0, 0)
			return errors.Join(err, banyan.Free(w, memory))
		}
		r := c.Isend(memory[1:], 1, 0)
		for _, part := range [][]byte{memory, memory[:1], memory[:1:1]} { // the whole is freed
			if err := banyan.Free(w, part); !errors.Is(err, banyan.ErrArgument) {
				return fmt.Errorf("free of a message's memory: %w", err)
			}
		}
		_, err = r.Wait()
		return errors.Join(err, banyan.Free(w, memory))
	}))
	require.NoError(t, banyan.Simulate(2, banyan.Simulation{Seed: 1}, func(w *banyan.World) error {
		c := w.Comm()
		if c.Rank() == 0 {
			w.Sleep(1e9)
			return c.Send(nil, 1, 0)
		}
		memory, err := banyan.Alloc[byte](w, 100)
		if err != nil {
			return err
		}
		r := c.Irecv(memory, 0, 0)
		if err := banyan.Free(w, memory); !errors.Is(err, banyan.ErrArgument) {
			return fmt.Errorf("free of a receive's memory: %w", err)
		}
		_, err = r.Wait()
		return errors.Join(err, banyan.Free(w, memory))
	}))
}
