package collectives

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// hugeEnv is the number of words of 8 bytes of the huge buffers.
const hugeEnv = "BANYAN_TEST_HUGE"

// hugeBuffers are those of one rank. The send buffer is zero except for few words, so that it takes little
// memory.
type hugeBuffers struct {
	c         *banyan.Comm
	send, got []uint64
}

// marks are the places that are not zero: the ends, those around the middle and around 2^31 bytes.
func (h *hugeBuffers) marks() (out []int) {
	n := len(h.send)
	for _, at := range []int{0, 1, n/2 - 1, n / 2, 1<<28 - 1, 1 << 28, n - 1} {
		if at < n {
			out = append(out, at)
		}
	}
	return out
}

func mark(rank, at int) uint64 { return uint64(rank+1)<<40 + uint64(at) }

// holds compares words of the received data, from a place on, with those of a rank from another place
// on.
func (h *hugeBuffers) holds(at, n, rank, from int) error {
	sparse := map[int]uint64{}
	for _, m := range h.marks() {
		sparse[m-1], sparse[m+1] = 0, 0
	}
	for _, m := range h.marks() {
		sparse[m] = mark(rank, m)
	}
	for m, want := range sparse {
		if m < from || m >= from+n {
			continue
		}
		if got := h.got[at+m-from]; got != want {
			return fmt.Errorf("rank %d: word %d is %#x, not %#x, word %d of rank %d", h.c.Rank(), at+m-from, got, want, m, rank)
		}
	}
	return nil
}

// huge has two ranks call collectives with buffers of many gigabytes.
func huge(w *banyan.World) error {
	n, err := strconv.Atoi(os.Getenv(hugeEnv))
	if err != nil {
		return err
	}
	c, me := w.Comm(), w.Comm().Rank()
	other := 1 - me
	h := &hugeBuffers{c, make([]uint64, n), make([]uint64, n)}
	for _, at := range h.marks() {
		h.send[at] = mark(me, at)
	}
	half := n / 2
	for _, x := range []struct {
		name string
		call func() error
		held func() error
	}{
		{"bcast", func() error {
			if me == 0 {
				return banyan.Bcast(c, h.send, 0)
			}
			return banyan.Bcast(c, h.got, 0)
		}, func() error { return at(me == 1, h.holds(0, n, 0, 0)) }},
		{"gather", func() error { return banyan.Gather(c, h.send[:half], h.got, 0) },
			func() error { return at(me == 0, errors.Join(h.holds(0, half, 0, 0), h.holds(half, half, 1, 0))) }},
		{"scatter", func() error { return banyan.Scatter(c, h.send, h.got[:half], 0) },
			func() error { return h.holds(0, half, 0, me*half) }},
		{"allgather", func() error { return banyan.Allgather(c, h.send[:half], h.got) },
			func() error { return errors.Join(h.holds(0, half, 0, 0), h.holds(half, half, 1, 0)) }},
		{"alltoallv", func() error {
			send, recv := make([][]uint64, 2), make([][]uint64, 2)
			send[other], recv[other] = h.send, h.got
			_, err := banyan.Ialltoallv(c, send, recv).Wait()
			return err
		}, func() error { return h.holds(0, n, other, 0) }},
		{"allreduce", func() error { return banyan.Allreduce(c, h.send, h.got, banyan.Max) },
			func() error { return h.holds(0, n, 1, 0) }},
	} {
		if err := x.call(); err != nil {
			return fmt.Errorf("%s: %w", x.name, err)
		}
		if err := x.held(); err != nil {
			return fmt.Errorf("%s: %w", x.name, err)
		}
		clear(h.got)
	}
	return nil
}

// at is an error where it counts.
func at(here bool, err error) error {
	if here {
		return err
	}
	return nil
}

// More than 2^31 bytes in a buffer, with BANYAN_LONG: that takes 8 GiB. Else 40 MB.
func TestHugeCollectives(t *testing.T) {
	n := 5_000_002
	if os.Getenv("BANYAN_LONG") != "" {
		n = 1<<28 + 400_002
	}
	for _, fabric := range []string{"shm", "tcp"} {
		t.Run(fabric, func(t *testing.T) {
			ranktest.Succeed(t, 2, "huge", "BANYAN_FABRIC="+fabric, "BANYAN_DEBUG=off", fmt.Sprint(hugeEnv, "=", n))
		})
	}
}
