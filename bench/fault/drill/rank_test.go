package drill

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/pattern"
	"github.com/banyan-hpc/banyan/launch"
)

// rank carries out its part of a plan.
type rank struct {
	p      *plan
	w      *banyan.World
	c      *banyan.Comm // the world's
	tags   *banyan.Comm // for receives of any tag
	wilds  *banyan.Comm // for receives from any source, of this phase
	me     int
	ops    int
	failed int // operations that ended with an error
	blamed map[int]bool
	doing  atomic.Pointer[string] // for the watchdog
}

// runRank is the whole life of a rank.
func runRank(p *plan) error {
	before, err := held()
	if err != nil {
		return err
	}
	opts := []banyan.Option{banyan.WithAsyncProgress(p.async)}
	self, err := strconv.Atoi(os.Getenv("PMI_RANK"))
	if err != nil {
		return err
	}
	if d := p.doomed[self]; d.first {
		end(d.delay)
	}
	w, err := banyan.Init(opts...)
	if err != nil {
		return p.missing(err)
	}
	r := &rank{p: p, w: w, c: w.Comm(), me: w.Comm().Rank(), blamed: map[int]bool{}}
	r.answer()
	if err := r.run(); err != nil {
		return fmt.Errorf("rank %d, %s: %w", r.me, *r.doing.Load(), err)
	}
	if d := p.doomed[r.me]; d.last {
		end(d.delay)
	}
	r.step("finalize")
	if err := w.Finalize(); err != nil {
		return fmt.Errorf("rank %d: %w", r.me, err)
	}
	r.step("nothing: it has finalized")
	if err := leaks(before); err != nil {
		return fmt.Errorf("rank %d: %w", r.me, err)
	}
	names := []int{}
	for rank := range r.blamed {
		names = append(names, rank)
	}
	slices.Sort(names)
	fmt.Printf(endFormat, r.me, r.ops, r.failed, names)
	return nil
}

// errMissing is the end of a rank that has found the start failed.
var errMissing = errors.New("the start failed")

// missing judges an error of Init: it must name ranks that were to die then.
func (p *plan) missing(err error) error {
	var missing *launch.MissingError
	if !errors.As(err, &missing) {
		return err
	}
	for _, lost := range missing.Lost {
		if !p.doomed[lost.Rank].first {
			return fmt.Errorf("rank %d is missed and was not to die: %w", lost.Rank, err)
		}
	}
	return fmt.Errorf("%w: %w", errMissing, err)
}

// What a rank prints when it has started, and when it ends well.
const (
	beginFormat = "drill: rank %d pid %d\n"
	endFormat   = "drill: rank %d ends after %d operations, %d failed, blamed %v\n"
)

// answer tells on SIGUSR1 what this rank is doing.
func (r *rank) answer() {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	r.step("its first operation")
	go func() {
		for range asked {
			fmt.Fprintf(os.Stderr, "drill: rank %d waits in operation %d: %s\n", r.me, r.ops, *r.doing.Load())
		}
	}()
}

// step says what comes next, and begins the end of this rank if it is doomed there.
func (r *rank) step(format string, args ...any) {
	what := fmt.Sprintf(format, args...)
	r.doing.Store(&what)
	r.ops++
	if d := r.p.doomed[r.me]; d.op == r.ops {
		end(d.delay)
	}
}

// end kills this process after a time in which it goes on.
func end(after time.Duration) {
	kill := func() { _ = unix.Kill(os.Getpid(), unix.SIGKILL) } // cannot fail
	if after == 0 {
		kill()
	}
	begun := time.Now()
	go func() {
		for time.Since(begun) < after {
			runtime.Gosched()
		}
		kill()
	}()
}

func (r *rank) run() error {
	var err error
	if r.tags, err = r.c.Dup(); err != nil {
		return err
	}
	fmt.Printf(beginFormat, r.me, os.Getpid())
	if err := r.meet(); err != nil {
		return err
	}
	for i := range r.p.phases {
		if err := r.phase(i, &r.p.phases[i]); err != nil {
			return fmt.Errorf("phase %d: %w", i, err)
		}
	}
	return r.tags.Free()
}

// meet has every rank exchange a message with each.
func (r *rank) meet() error {
	for peer := range r.p.n {
		r.step("first meeting with %d", peer)
		if _, err := r.c.Sendrecv(nil, peer, 0, nil, peer, 0); err != nil {
			if err := r.excuse(err, peer); err != nil {
				return err
			}
		}
	}
	return nil
}

// excuse answers nil for an error that the peer's death explains.
func (r *rank) excuse(err error, peer int) error {
	r.failed++
	var failed *banyan.ProcFailedError
	if !errors.As(err, &failed) || !slices.Equal(failed.Ranks, []int{peer}) {
		return fmt.Errorf("an operation with rank %d ended with: %w", peer, err)
	}
	return r.blame(failed)
}

// blame notes who an error names; who is not doomed is alive.
func (r *rank) blame(failed *banyan.ProcFailedError) error {
	for _, rank := range failed.Ranks {
		if !r.p.dies(rank) {
			return fmt.Errorf("rank %d is blamed and lives: %w", rank, failed)
		}
		r.blamed[rank] = true
	}
	return nil
}

// excuseAny answers nil for an error that somebody's death explains.
func (r *rank) excuseAny(err error) error {
	r.failed++
	var failed *banyan.ProcFailedError
	if errors.As(err, &failed) {
		return r.blame(failed)
	}
	if errors.Is(err, banyan.ErrProcFailedPending) && len(r.p.doomed) > 0 {
		return nil
	}
	return err
}

// check compares what was received with what was sent.
func (t *transfer) check(st banyan.Status, buf []byte) error {
	if st.Source != t.src || st.Tag != t.tag || st.Count != t.size {
		return fmt.Errorf("got %+v, want %+v", st, *t)
	}
	if n := pattern.Wrong(buf[:t.size], t.seed); n > 0 {
		return fmt.Errorf("%d bytes of %+v are wrong", n, *t)
	}
	return nil
}

// received judges the end of a receive from a named source.
func (r *rank) received(t *transfer, st banyan.Status, buf []byte, err error) error {
	if err != nil {
		return r.excuse(err, t.src)
	}
	return t.check(st, buf)
}

// sent judges the end of a send.
func (r *rank) sent(t *transfer, err error) error {
	if err != nil {
		return r.excuse(err, t.dst)
	}
	return nil
}

// together does the phase's collective on a communicator of its own, so that one that
// has failed here leaves nothing for the next.
func (r *rank) together(ph *phase) error {
	if ph.collective == none {
		return nil
	}
	c, err := r.c.Dup()
	if err != nil {
		return err
	}
	r.step("collective %d of %d elements", ph.collective, ph.elements)
	data := make([]int64, ph.elements)
	want := int64(0)
	switch ph.collective {
	case barrier:
		data, err = nil, c.Barrier()
	case bcast:
		if want = int64(1000 + ph.root); r.me == ph.root {
			fill(data, want)
		}
		err = banyan.Bcast(c, data, ph.root)
	case allreduce:
		fill(data, int64(r.me))
		want = int64(r.p.n * (r.p.n - 1) / 2)
		err = banyan.Allreduce(c, data, banyan.Sum)
	}
	if err != nil {
		return errors.Join(r.excuseAny(err), c.Free())
	}
	for _, v := range data {
		if v != want {
			return fmt.Errorf("a collective gave %d, want %d", v, want)
		}
	}
	return c.Free()
}

func fill(data []int64, v int64) {
	for i := range data {
		data[i] = v
	}
}
