package drill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/fabric/tcp"
	"github.com/banyan-hpc/banyan/internal/job"
	"github.com/banyan-hpc/banyan/internal/launch/join"
)

// Env is the variable by which a process learns that it is a rank of a drill: it calls Rank.
const Env = "BANYAN_DRILL"

// ErrMissing is the end of a rank whose start failed because others died in it. Its process exits
// with CodeMissing.
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
	host   host
	phases int
	ops    int
	failed int // operations that ended with an error
	notes  []note
	blamed map[int]bool
	acked  map[*banyan.Comm]map[int]bool
	trace  *trace
	live   context.Context // does not end, but could
	doing  atomic.Pointer[string]
	out    io.Writer
}

// host is where a rank runs: a process, or the simulator.
type host interface {
	// die kills this rank after a time in which it continues.
	die(after time.Duration)
	// deadline returns a context that ends after a time.
	deadline(parent context.Context, after time.Duration) (context.Context, context.CancelFunc)
}

// newRank returns the rank of a world.
func newRank(p *plan, w *banyan.World, h host, t *trace, live context.Context, out io.Writer) *rank {
	r := &rank{
		p: p, w: w, c: w.Comm(), me: w.Comm().Rank(), host: h, trace: t, live: live, out: out,
		blamed: map[int]bool{}, acked: map[*banyan.Comm]map[int]bool{},
	}
	r.step("its first operation")
	return r
}

// Rank is the whole life of a process that is a rank: it joins the job, carries out the script in
// [Env], and reports to the driver on out. A doomed rank dies in it.
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
		process{}.die(d.delay)
	}
	time.Sleep(p.nap(self, -1))
	w, err := banyan.Init(banyan.WithAsyncProgress(p.async), banyan.WithFabrics(p.words[self]),
		banyan.WithProfile(p.profile), banyan.WithErrorsFatal(false))
	if err != nil {
		return p.missing(err)
	}
	live, stop := context.WithCancel(context.Background())
	defer stop()
	r := newRank(p, w, process{}, tr, live, out)
	stopAnswers := r.answer()
	if err := r.life(w.Finalize); err != nil {
		return err
	}
	stopAnswers()
	if err := leaks(before); err != nil {
		return fmt.Errorf("rank %d: %w", r.me, err)
	}
	return r.farewellReport()
}

// life is everything from the start to the end of finalize.
func (r *rank) life(finalize func() error) error {
	if err := r.run(); err != nil {
		return fmt.Errorf("rank %d, %s: %w", r.me, *r.doing.Load(), err)
	}
	r.w.Sleep(r.p.nap(r.me, len(r.p.phases)))
	r.step("finalize")
	if d := r.p.doomed[r.me]; d.last {
		r.host.die(d.delay)
	}
	r.begin(finalizeKind)
	if err := r.done(finalizeKind, finalize()); err != nil {
		return fmt.Errorf("rank %d: %w", r.me, err)
	}
	r.step("nothing: it has finalized")
	return nil
}

// farewellReport reports a good end.
func (r *rank) farewellReport() error {
	end := &endReport{Ops: r.ops, Failed: r.failed, Blamed: slices.Sorted(maps.Keys(r.blamed)), Notes: r.notes}
	return report{Rank: r.me, End: end}.write(r.out)
}

// missing judges an error of Init: it must name ranks that were to die during the start.
func (p *plan) missing(err error) error {
	var missing *join.MissingError
	if !errors.As(err, &missing) {
		return err
	}
	for _, lost := range missing.Lost {
		if d := p.doomed[lost.Rank]; !d.first && d.step == 0 {
			return fmt.Errorf("rank %d is missing and was not to die: %w", lost.Rank, err)
		}
	}
	return fmt.Errorf("%w: %w", ErrMissing, err)
}

// port is where unauthenticated connections reach this rank, "" if nowhere.
func (r *rank) port() string {
	if r.p.flooded {
		if f, err := tcp.Forge(job.Joined().Published("tcp")); err == nil {
			for _, to := range f.To {
				if r.p.hosts == 0 && to.Addr().IsValid() {
					return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), to.Port()).String()
				}
			}
		}
	}
	return ""
}

// step names the next operation, and kills a rank that is to die there.
func (r *rank) step(format string, args ...any) {
	what := fmt.Sprintf(format, args...)
	r.doing.Store(&what)
	r.ops++
	if d := r.p.doomed[r.me]; d.op > 0 && d.op == r.ops {
		r.host.die(d.delay)
	}
}

// begin records an operation that comes next, in which this rank may be doomed. The rank continues
// in any case.
func (r *rank) begin(k Kind) {
	r.trace.add(r.me, k, underWay, 1)
	if d, doomed := r.p.doomed[r.me]; doomed && d.aim == k && !d.after && r.phases >= d.in {
		r.host.die(max(1, d.delay))
	}
}

// done records how it has ended.
func (r *rank) done(k Kind, err error) error {
	r.trace.add(r.me, k, underWay, -1)
	r.trace.add(r.me, k, ended, 1)
	if err != nil {
		r.trace.add(r.me, k, failed, 1)
	}
	return err
}

func (r *rank) run() error {
	var err error
	if r.tags, err = r.c.Dup(); err != nil {
		return err
	}
	if err := (report{Rank: r.me, PID: os.Getpid(), Port: r.port()}).write(r.out); err != nil {
		return err
	}
	if err := r.connect(); err != nil {
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

// connect exchanges a message with each rank.
func (r *rank) connect() error {
	for peer := range r.p.n {
		r.step("first message with %d", peer)
		if _, err := r.c.Sendrecv(nil, peer, 0, nil, peer, 0); err != nil {
			if err := r.excuse(err, peer); err != nil {
				return err
			}
		}
	}
	return nil
}
