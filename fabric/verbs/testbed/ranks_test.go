//go:build rdma

package testbed

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// The test binary is also the program of the ranks in the machines. The last rank is the victim: it is in machine 1,
// the others are in machine 0.
var roles = ranktest.Roles{
	"exchanges": exchanges,
	"waits":     waitsFor,
	"goes on":   goesOn,
	"rails":     rails,
}

func TestMain(m *testing.M) { ranktest.Main(m, roles, nil) }

// exchanges has all ranks send each other messages of every protocol, call every collective, and use windows.
func exchanges(w *banyan.World) error {
	if err := overRDMA(w); err != nil {
		return err
	}
	return errors.Join(ranktest.Ring(w), ranktest.Crowd(w), ranktest.CheckCollectivesAndSplit(w.Comm(), nil),
		window(w.Comm()), moves(w), notices(w), loan(w))
}

// notices has rank 0 put with notices into attached memory of the last rank, which takes it for itself then. But for the
// first put, which asks where the memory is, only notices are frames.
func notices(w *banyan.World) error {
	c, last := w.Comm(), w.Comm().Size()-1
	const times, n = 100, 20_000
	win, err := c.NewDynamicWindow(banyan.WithNotices(1))
	if err != nil {
		return err
	}
	mem, at := make([]byte, n), []int{0}
	if c.Rank() == last {
		if at[0], err = win.Attach(mem); err != nil {
			return err
		}
	}
	if err := errors.Join(banyan.Bcast(c, at, last), win.LockAll()); err != nil {
		return err
	}
	before := w.PeerCounters(last).FramesSent
	for i := 0; i < times && err == nil; i++ {
		switch c.Rank() {
		case 0:
			data := ranktest.Pattern(i, n)
			err = errors.Join(win.Put(data[:n/2], last, at[0]), win.PutNotify(data[n/2:], last, at[0]+n/2, 0), win.Flush(last))
			if err == nil {
				_, err = c.Recv(nil, last, 3)
			}
		case last:
			if err = errors.Join(win.WaitNotice(0, 1), ranktest.CheckEqual(mem, ranktest.Pattern(i, n))); err == nil {
				err = c.Send(nil, 0, 3)
			}
		}
	}
	if frames := w.PeerCounters(last).FramesSent - before; err == nil && c.Rank() == 0 && frames > 2*times {
		err = fmt.Errorf("%d frames for %d notices", frames, times)
	}
	return errors.Join(err, win.UnlockAll(), c.Barrier(), win.Free())
}

// loan has rank 0 lend memory to the last rank, whose adapter reads it.
func loan(w *banyan.World) error {
	c, last := w.Comm(), w.Comm().Size()-1
	const n = 300_000
	switch c.Rank() {
	case 0:
		mem, err := banyan.Alloc[byte](w, n)
		if err != nil {
			return err
		}
		copy(mem, ranktest.Pattern(5, n))
		before := w.PeerCounters(last).FramesSent
		err = c.Lend(mem, last, 4)
		if frames := w.PeerCounters(last).FramesSent - before; err == nil && frames > 5 { // heartbeats come between
			err = fmt.Errorf("%d frames for a loan", frames)
		}
		return errors.Join(err, banyan.Free(w, mem))
	case last:
		l, err := c.Borrow(0, 4)
		if err != nil {
			return err
		}
		if copies := w.PeerCounters(0).BorrowedCopies; copies != 1 {
			err = fmt.Errorf("%d copies of loans", copies)
		}
		return errors.Join(err, ranktest.CheckEqual(l.Bytes(), ranktest.Pattern(5, n)), l.Return())
	}
	return nil
}

// moves has rank 0 put to the last one and get from there without frames.
func moves(w *banyan.World) error {
	c := w.Comm()
	const times, n = 100, 100_000
	mem, err := banyan.Alloc[byte](w, n)
	if err != nil {
		return err
	}
	win, err := c.AllocWindow(n)
	if err == nil {
		err = win.Fence()
	}
	if last := c.Size() - 1; err == nil && c.Rank() == 0 {
		before := w.PeerCounters(last).FramesSent
		for i := range times {
			copy(mem, ranktest.Pattern(i, n))
			got := make([]byte, n)
			err = errors.Join(win.Put(mem, last, 0), win.Flush(last), win.Get(got, last, 0), win.Flush(last),
				ranktest.CheckEqual(got, mem), win.Put(got[:8], last, 8), win.Get(mem[:8], last, 8), win.Flush(last))
			if err != nil {
				return err
			}
		}
		if frames := w.PeerCounters(last).FramesSent - before; frames > times { // heartbeats come between
			return fmt.Errorf("%d frames for %d rounds", frames, times)
		}
	}
	if err != nil {
		return err
	}
	return errors.Join(win.Fence(), win.Free(), banyan.Free(w, mem))
}

// overRDMA checks that the ranks of the other machine are reached over RDMA, after a message has connected them.
func overRDMA(w *banyan.World) error {
	c := w.Comm()
	if err := c.Barrier(); err != nil {
		return err
	}
	for peer := range c.Size() {
		if last := c.Size() - 1; peer == c.Rank() || (peer == last) == (c.Rank() == last) {
			continue
		}
		route, err := w.Route(peer)
		if err != nil {
			return err
		}
		if !strings.HasPrefix(route.Fabric, "verbs") {
			return fmt.Errorf("rank %d is reached by %+v", peer, route)
		}
	}
	return nil
}

// window has each rank put a block into the memory of each, get it back, and add to a counter there.
func window(c *banyan.Comm) error {
	const block = 40_000
	n, me := c.Size(), c.Rank()
	win, err := c.AllocWindow(n*block + 8)
	if err != nil {
		return err
	}
	if err := win.Fence(); err != nil {
		return err
	}
	for target := range n {
		if err := win.Put(ranktest.Pattern(me, block), target, me*block); err != nil {
			return err
		}
		if err := banyan.Accumulate(win, []uint64{1 << (8 * me)}, target, n*block/8, banyan.AccSum); err != nil {
			return err
		}
	}
	if err := win.Fence(); err != nil {
		return err
	}
	count := make([]uint64, 1)
	got := make([]byte, block)
	for target := range n {
		from := (me + 1) % n
		if err := errors.Join(win.Get(got, target, from*block), banyan.Get(win, count, target, n*block/8), win.Fence()); err != nil {
			return err
		}
		if err := ranktest.CheckEqual(got, ranktest.Pattern(from, block)); err != nil {
			return fmt.Errorf("block %d of rank %d: %w", from, target, err)
		}
		want := uint64(0)
		for rank := range n {
			want += 1 << (8 * rank)
		}
		if count[0] != want {
			return fmt.Errorf("counter of rank %d: %#x, want %#x", target, count[0], want)
		}
	}
	return win.Free()
}

// waitsFor: rank 0 exchanges messages with the victim, the others wait for one that never comes.
func waitsFor(w *banyan.World) error {
	c := w.Comm()
	victim := c.Size() - 1
	if err := overRDMA(w); err != nil {
		return err
	}
	if c.Rank() == victim || c.Rank() == 0 {
		b := make([]byte, 8)
		return survives(c, func() error {
			_, err := c.Sendrecv(b, victim-c.Rank(), 1, b, victim-c.Rank(), 1)
			return err
		})
	}
	if _, err := c.Recv(nil, 0, 3); err != nil { // so that its call does not begin long before the failure
		return err
	}
	return survives(c, func() error {
		_, err := c.Recv(nil, victim, 2)
		return err
	})
}

// goesOn: rank 0 and the last one exchange numbered messages of every protocol until a while after the file healed is
// there and they use RDMA again.
func goesOn(w *banyan.World) error {
	c := w.Comm()
	if err := overRDMA(w); err != nil {
		return err
	}
	last := c.Size() - 1
	if c.Rank() != 0 && c.Rank() != last {
		return c.Barrier()
	}
	peer := last - c.Rank()
	const more = 300
	for n, left := 0, more; left > 0; n++ {
		if n == 50 {
			announce("going", c.Rank())
		}
		size := []int{9, 3000, 200_000}[n%3]
		out, in := ranktest.Pattern(n+c.Rank(), size), make([]byte, size)
		if c.Rank() == 0 {
			if again, err := healed(w, peer); err != nil {
				return err
			} else if again {
				left--
			}
		}
		out[0] = byte(min(left, 1)) // rank 0 says when it is over
		if _, err := c.Sendrecv(out, peer, 1, in, peer, 1); err != nil {
			return err
		}
		if c.Rank() == last {
			left = int(in[0])
		}
		if err := ranktest.CheckEqual(in[1:], ranktest.Pattern(n+peer, size)[1:]); err != nil {
			return fmt.Errorf("message %d: %w", n, err)
		}
	}
	return c.Barrier()
}

// rails has rank 0 send messages of a megabyte to the last rank until a while after the file down is there.
func rails(w *banyan.World) error {
	c, last := w.Comm(), w.Comm().Size()-1
	if err := overRDMA(w); err != nil {
		return err
	}
	const n, more = 1 << 20, 20
	mem, err := banyan.Alloc[byte](w, n)
	for round, left := 0, more; err == nil && left > 0; round++ {
		want := ranktest.Pattern(round, n)
		switch c.Rank() {
		case 0:
			if _, wrong := os.Stat(os.Getenv("RDMA_VM_SHARE") + "/down"); wrong == nil {
				left--
			}
			copy(mem, want)
			mem[0] = byte(min(left, 1)) // rank 0 says when it is over
			err = c.Ssend(mem, last, 1)
		case last:
			_, err = c.Recv(mem, 0, 1)
			left = int(mem[0])
			err = errors.Join(err, ranktest.CheckEqual(mem[1:], want[1:]))
		default:
			left = 0
		}
		if round == 10 {
			announce("going", c.Rank())
		}
	}
	return errors.Join(err, c.Barrier(), banyan.Free(w, mem))
}

// healed reports whether the link is up again, and messages to a peer go over RDMA again.
func healed(w *banyan.World, peer int) (bool, error) {
	if _, err := os.Stat(os.Getenv("RDMA_VM_SHARE") + "/healed"); err != nil {
		return false, nil
	}
	route, err := w.Route(peer)
	return w.PeerCounters(peer).Healed > 0 && strings.HasPrefix(route.Detail, "verbs"), err
}

// survives calls do until the victim has failed, writes how long the call lasted that has failed, and has the
// survivors sum among themselves.
func survives(c *banyan.Comm, do func() error) error {
	var err error
	var start time.Time
	for n := 0; err == nil; n++ {
		if n == 50 && c.Rank() == 0 {
			if err := c.Send(nil, 1, 3); err != nil {
				return err
			}
		}
		if n == 50 || c.Rank() == 1 && n == 0 { // the failure may happen now
			announce("going", c.Rank())
		}
		start = time.Now()
		err = do()
	}
	took := time.Since(start)
	if !banyan.IsFailure(err) {
		return err
	}
	left, err2 := c.Shrink()
	if err2 != nil {
		return err2
	}
	if failed := c.FailedRanks(); !slices.Equal(failed, []int{c.Size() - 1}) {
		return fmt.Errorf("ranks %v have failed", failed)
	}
	if err := ranktest.CheckCollectives(left, nil); err != nil {
		return err
	}
	fmt.Printf("rank %d, after %d ms: %v\n", c.Rank(), took.Milliseconds(), err)
	return nil
}

// announce makes a file that all machines see.
func announce(what string, rank int) {
	if err := os.WriteFile(fmt.Sprintf("%s/%s.%d", os.Getenv("RDMA_VM_SHARE"), what, rank), nil, 0o600); err != nil {
		panic(err)
	}
}
