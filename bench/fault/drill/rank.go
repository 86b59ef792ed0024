package drill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
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
	"github.com/banyan-hpc/banyan/fabric/tcp"
	"github.com/banyan-hpc/banyan/internal/job"
	"github.com/banyan-hpc/banyan/internal/launch/join"
)

// Env names the variable by which a process learns that it is a rank of a drill: it is
// to call Rank.
const Env = "BANYAN_DRILL"

// ErrMissing is the end of a rank that has found the start failed because others died
// in it. Its process is to exit with CodeMissing.
var ErrMissing = errors.New("the start failed")

// CodeMissing is the exit code of such a rank.
const CodeMissing = 4

// rank carries out its part of a plan.
type rank struct {
	p      *plan
	w      *banyan.World
	c      *banyan.Comm // the world's
	tags   *banyan.Comm // for receives of any tag
	wilds  *banyan.Comm // for receives from any source, of this phase
	me     int
	phases int
	ops    int
	failed int // operations that ended with an error
	agreed int // agreements and shrinks
	blamed map[int]bool
	acked  map[*banyan.Comm]map[int]bool
	trace  *trace
	live   context.Context // which does not end, but could
	doing  atomic.Pointer[string]
	out    io.Writer
}

// Rank is the whole life of a rank: it joins the job, carries out what [Env] says, and
// tells the driver on out. It dies in it where it is to.
func Rank(out io.Writer) error {
	var s script
	if err := json.Unmarshal([]byte(os.Getenv(Env)), &s); err != nil {
		return fmt.Errorf("drill: %s: %w", Env, err)
	}
	p := newPlan(s)
	self, err := strconv.Atoi(os.Getenv("PMI_RANK"))
	if err != nil || self < 0 || self >= p.n {
		return fmt.Errorf("drill: PMI_RANK=%q: %w", os.Getenv("PMI_RANK"), err)
	}
	tr, err := openTrace(s.Trace, p.n)
	if err != nil {
		return err
	}
	defer tr.close() //nolint:errcheck // the process ends
	before, err := held()
	if err != nil {
		return err
	}
	if d := p.doomed[self]; d.first {
		end(d.delay)
	}
	time.Sleep(p.nap(self, -1))
	w, err := banyan.Init(banyan.WithAsyncProgress(p.async), banyan.WithFabric(p.words[self]),
		banyan.WithProfile(p.profile), banyan.WithErrorsFatal(false))
	if err != nil {
		return p.missing(err)
	}
	live, stop := context.WithCancel(context.Background())
	defer stop()
	r := &rank{
		p: p, w: w, c: w.Comm(), me: self, blamed: map[int]bool{}, acked: map[*banyan.Comm]map[int]bool{},
		trace: tr, live: live, out: out,
	}
	return r.life(before)
}

// life is what follows the start.
func (r *rank) life(before map[string]int) error {
	stop := r.answer()
	if err := r.run(); err != nil {
		return fmt.Errorf("rank %d, %s: %w", r.me, *r.doing.Load(), err)
	}
	r.w.Sleep(r.p.nap(r.me, len(r.p.phases)))
	r.step("finalize")
	if d := r.p.doomed[r.me]; d.last {
		end(d.delay)
	}
	r.begin(finalize)
	if err := r.done(finalize, r.w.Finalize()); err != nil {
		return fmt.Errorf("rank %d: %w", r.me, err)
	}
	r.step("nothing: it has finalized")
	stop()
	if err := leaks(before); err != nil {
		return fmt.Errorf("rank %d: %w", r.me, err)
	}
	names := []int{}
	for rank := range r.blamed {
		names = append(names, rank)
	}
	slices.Sort(names)
	_, err := fmt.Fprintf(r.out, endFormat, r.me, r.ops, r.failed, names)
	return err
}

// missing judges an error of Init: it must name ranks that were to die then.
func (p *plan) missing(err error) error {
	var missing *join.MissingError
	if !errors.As(err, &missing) {
		return err
	}
	for _, lost := range missing.Lost {
		if !p.doomed[lost.Rank].first {
			return fmt.Errorf("rank %d is missed and was not to die: %w", lost.Rank, err)
		}
	}
	return fmt.Errorf("%w: %w", ErrMissing, err)
}

// What a rank prints when it has started, and when it ends well.
const (
	beginFormat = "drill: rank %d pid %d port %s\n"
	endFormat   = "drill: rank %d ends after %d operations, %d failed, blamed %v\n"
)

// port is where strangers reach this rank, "none" if nowhere.
func (r *rank) port() string {
	if r.p.besiege {
		if f, err := tcp.Forge(job.Joined().Published("tcp")); err == nil {
			for _, to := range f.To {
				if r.p.hosts == 0 && to.Addr().IsValid() {
					return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), to.Port()).String()
				}
			}
		}
	}
	return "none"
}

// answer tells on SIGUSR1 what this rank is doing.
func (r *rank) answer() (stop func()) {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	r.step("its first operation")
	go func() {
		for range asked {
			fmt.Fprintf(os.Stderr, "drill: rank %d waits in operation %d: %s\n", r.me, r.ops, *r.doing.Load())
		}
	}()
	return func() { signal.Stop(asked); close(asked) }
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

// begin notes an operation that comes next, in which this rank may be doomed.
func (r *rank) begin(k Kind) {
	r.trace.add(r.me, k, underWay, 1)
	if d, doomed := r.p.doomed[r.me]; doomed && d.aim == k && !d.after && r.phases >= d.in {
		endLater(d.delay)
	}
}

// done notes how it has ended.
func (r *rank) done(k Kind, err error) error {
	r.trace.add(r.me, k, underWay, -1)
	r.trace.add(r.me, k, ended, 1)
	if err != nil {
		r.trace.add(r.me, k, failed, 1)
	}
	return err
}

// end kills this process after a time in which it goes on.
func end(after time.Duration) {
	if after == 0 {
		kill()
	}
	endLater(after)
}

func kill() { _ = unix.Kill(os.Getpid(), unix.SIGKILL) } // cannot fail

// endLater lets it go on in any case.
func endLater(after time.Duration) {
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
	if _, err := fmt.Fprintf(r.out, beginFormat, r.me, os.Getpid(), r.port()); err != nil {
		return err
	}
	if err := r.meet(); err != nil {
		return err
	}
	for i := range r.p.phases {
		r.phases = i
		r.w.Sleep(r.p.nap(r.me, i))
		if err := r.phase(&r.p.phases[i]); err != nil {
			return fmt.Errorf("phase %d: %w", i, err)
		}
	}
	if err := r.tags.Free(); err != nil || r.p.farewell == nil {
		return err
	}
	return r.farewell(r.p.farewell)
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
