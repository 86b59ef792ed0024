package repairs

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"testing"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// roundsEnv is the number of revocations.
const roundsEnv = "BANYAN_TEST_ROUNDS"

// pendingBytes is the length of the messages under way at a revocation.
const pendingBytes = 4 << 20

// ULFM 17.3.1: ranks take turns in revoking a communicator with long messages under way in both
// directions, then shrink and free it. All requests end, their buffers do not change afterwards,
// and no memory and no descriptor is left.
func TestRevokeWithLongMessagesPending(t *testing.T) {
	rounds := 15
	if os.Getenv("BANYAN_LONG") != "" {
		rounds = 100
	}
	fabrics := map[string][]string{
		"shm": nil, "streamed": {ranktest.NoCopyEnv + "=1"}, "tcp": {"BANYAN_FABRIC=tcp"},
		"mixed": {ranktest.Nodes("a;a;b;b")},
	}
	if testing.Short() {
		rounds = 6
	}
	for name, env := range ranktest.JoinedBy(fabrics) {
		t.Run(name, func(t *testing.T) {
			ranktest.Succeed(t, 4, "revokes", append(env, roundsEnv+"="+strconv.Itoa(rounds))...)
		})
	}
}

// revokes is the role of a rank of TestRevokeWithLongMessagesPending.
func revokes(w *banyan.World) error {
	c := w.Comm()
	rounds, err := strconv.Atoi(os.Getenv(roundsEnv))
	if err != nil {
		return err
	}
	out, in := make([][]byte, c.Size()), make([][]byte, c.Size())
	for i := range out {
		out[i], in[i] = make([]byte, pendingBytes), make([]byte, pendingBytes)
	}
	same := rand.New(rand.NewPCG(7, 7)) // the same numbers at all ranks
	var before leavings
	for round := range rounds {
		if err := revokeOnce(c, round, same.IntN(c.Size()), out, in); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		if round == 4 {
			before = count()
		}
	}
	after := count()
	if after.descriptors > before.descriptors || after.heap > before.heap+4<<20 {
		return fmt.Errorf("left behind: %+v, before %+v", after, before)
	}
	return nil
}

// revokeOnce is a round.
func revokeOnce(w *banyan.Comm, round, revoker int, out, in [][]byte) error {
	c, err := w.Dup()
	if err != nil {
		return err
	}
	var reqs []banyan.Request
	for peer := range c.Size() {
		if peer == c.Rank() {
			continue
		}
		fill(out[peer], byte(round))
		// One side of half of the pairs has not posted its receives: the announced messages are
		// withdrawn.
		if (round+peer)%2 == 0 {
			reqs = append(reqs, c.Irecv(in[peer], peer, 1))
		}
		reqs = append(reqs, c.Issend(out[peer], peer, 1), c.Irecv(in[peer][:8], peer, 9))
	}
	if c.Rank() == revoker {
		if err := c.Revoke(); err != nil {
			return err
		}
	}
	for _, r := range reqs {
		if _, err := r.Wait(); err != nil && !errors.Is(err, banyan.ErrRevoked) {
			return err
		}
	}
	if err := c.Barrier(); !errors.Is(err, banyan.ErrRevoked) {
		return fmt.Errorf("barrier: %w", cmpOr(err))
	}
	left, err := c.Shrink()
	if err != nil {
		return err
	}
	if err := errors.Join(c.Free(), left.Barrier()); err != nil {
		return err
	}
	return errors.Join(unread(left, out, in), left.Free())
}

func fill(b []byte, with byte) {
	b[0] = with
	for n := 1; n < len(b); n *= 2 { // not byte by byte, which the race detector makes slow
		copy(b[n:], b[:n])
	}
}

// unread checks that the buffers belong to the application again: new contents stay, here and in
// the peers' buffers.
func unread(c *banyan.Comm, out, in [][]byte) error {
	for peer := range c.Size() {
		if peer == c.Rank() {
			continue
		}
		fill(in[peer], 0xaa)
		fill(out[peer], 0xbb)
	}
	if err := c.Barrier(); err != nil {
		return err
	}
	for peer := range c.Size() {
		if peer == c.Rank() {
			continue
		}
		if bytes.Count(in[peer], []byte{0xaa}) != pendingBytes || bytes.Count(out[peer], []byte{0xbb}) != pendingBytes {
			return fmt.Errorf("a buffer was written to after its request had ended")
		}
	}
	return c.Barrier()
}

// leavings are the resources that a process uses.
type leavings struct{ descriptors, heap int }

func count() leavings {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		panic(err)
	}
	return leavings{len(fds), int(m.HeapAlloc)}
}
