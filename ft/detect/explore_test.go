package detect

import (
	"math/bits"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// newWorld makes the job and the schedule of a seed.
func newWorld(seed uint64, broken mutant) *world {
	rng := rand.New(rand.NewPCG(seed, 0x0de7ec7))
	n := 2 + rng.IntN(7)
	switch rng.IntN(40) {
	case 0:
		n = 2 + rng.IntN(63)
	case 1, 2, 3, 4:
		n = 8 + rng.IntN(9)
	}
	period := 200 * ms
	cfg := Config{Period: period, Timeout: period * fabric.Time(4+rng.IntN(4)), Seed: seed}
	if seed%3 == 0 {
		cfg.Node = nodes(rng, n, 1+n/3)
	}
	w := quietWorld(rng, n, cfg, broken)
	w.plan()
	for _, e := range w.heap {
		if e.what >= evCut {
			w.last = max(w.last, e.at)
		}
	}
	return w
}

// quietWorld is a job of n without events.
func quietWorld(rng *rand.Rand, n int, cfg Config, broken mutant) *world {
	cfg.Procs = n
	w := &world{
		rng:    rng,
		cfg:    cfg,
		delay:  []fabric.Time{ms, 5 * ms, cfg.Period / 10}[rng.IntN(3)],
		late:   []fabric.Time{1, ms, 10 * ms}[rng.IntN(3)],
		refuse: rng.IntN(2) == 0,
	}
	if rng.IntN(6) == 0 {
		w.cfg.Partition = Off
	}
	for i := range n {
		cfg := w.cfg
		cfg.Self = proc.ID(i)
		p := &node{m: New(cfg, fabric.Time(rng.Int64N(int64(10*ms)))), view: map[int]bool{}, connect: map[int]bool{}}
		p.m.broken = broken
		p.tick = p.m.Due()
		w.nodes = append(w.nodes, p)
		w.push(event{at: p.tick, what: evTick, to: i})
	}
	w.last = 3 * w.cfg.Timeout
	return w
}

// plan draws the faults.
func (w *world) plan() {
	t := w.cfg.Timeout
	begin := 2 * t
	if w.cfg.Seed%5 == 0 { // the first faults come during the start
		begin = 0
	}
	at := func() fabric.Time { return begin + fabric.Time(w.rng.Int64N(int64(2*t))) }
	mix := w.rng.IntN(64)
	if mix&1 != 0 {
		w.kills(at)
	}
	if mix&2 != 0 {
		w.partition(at())
	}
	if mix&4 != 0 {
		for range 1 + w.rng.IntN(2) {
			w.pause(w.rng.IntN(len(w.nodes)), at(), w.duration())
		}
	}
	if mix&8 != 0 && mix&16 != 0 {
		for range 1 + w.rng.IntN(len(w.nodes)) {
			w.push(event{at: at(), what: evLeave, to: w.rng.IntN(len(w.nodes))})
		}
	}
	if mix&48 == 32 {
		w.link(at(), mix == 32)
	}
}

// duration is short or long relative to the timeout.
func (w *world) duration() fabric.Time {
	if w.rng.IntN(2) == 0 {
		return w.cfg.Timeout + fabric.Time(w.rng.Int64N(int64(2*w.cfg.Timeout)))
	}
	return 1 + fabric.Time(w.rng.Int64N(int64(w.cfg.Timeout)))
}

func (w *world) kills(at func() fabric.Time) {
	n := len(w.nodes)
	evidence := 0
	if w.rng.IntN(2) == 0 {
		evidence = 1 + w.rng.IntN(2)
	}
	storm, when := w.rng.IntN(2) == 0, at()
	for range 1 + w.rng.IntN(n) {
		if !storm {
			when = at()
		}
		w.push(event{at: when, what: evKill, to: w.rng.IntN(n), arg: evidence})
		when += fabric.Time(w.rng.Int64N(int64(w.delay)))
	}
}

func (w *world) partition(at fabric.Time) {
	c := &cut{side: make([]bool, len(w.nodes)), oneWay: w.rng.IntN(4) == 0}
	share := 1 + w.rng.IntN(3)
	for i := range c.side {
		c.side[i] = w.rng.IntN(4) < share
	}
	c.forever = w.cfg.Partition == Majority && !c.oneWay && w.rng.IntN(3) == 0
	length := w.duration()
	if c.forever {
		length = 1 << 60
	}
	for _, p := range w.nodes {
		p.noise += length
	}
	w.cutFor(c, at, length)
}

func (w *world) cutFor(c *cut, at, length fabric.Time) {
	w.cuts = append(w.cuts, c)
	w.push(event{at: at, what: evCut, arg: len(w.cuts) - 1})
	if !c.forever {
		w.push(event{at: at + length, what: evHeal, arg: len(w.cuts) - 1})
	}
}

// link cuts one link. Without other faults, and with others to confirm, that has no consequences.
func (w *world) link(at fabric.Time, alone bool) {
	n := len(w.nodes)
	a := w.rng.IntN(n)
	c := &cut{a: a, b: (a + 1 + w.rng.IntN(n-1)) % n, oneWay: w.rng.IntN(2) == 0}
	length := w.duration()
	if !alone || n == 2 {
		for _, p := range w.nodes {
			p.noise += length
		}
	}
	w.cutFor(c, at, length)
}

func (w *world) pause(i int, at, length fabric.Time) {
	w.nodes[i].noise += length
	w.short, w.long = w.short || length < w.cfg.Timeout, w.long || length >= w.cfg.Timeout
	w.push(event{at: at, what: evPause, to: i})
	w.push(event{at: at + length, what: evResume, to: i})
}

// quiet is the time after the last disturbance within which all is known, and a losing side has
// given up.
func (w *world) quiet() fabric.Time { return 3*w.cfg.Timeout + 4*w.cfg.Period }

// excused reports whether a process may have been silent for the timeout, as seen from another:
// heartbeats come once a period, and a lost query is repeated after half of the window.
func (w *world) excused(p *node) bool {
	return p.killed || p.ended != nil || p.noise+8*w.delay+4*w.late >= w.cfg.Timeout-2*w.cfg.Period
}

// reported checks accuracy when a failure is reported.
func (w *world) reported(p *node, self, peer int, cause proc.Cause) {
	w.tell("%d reports %d: %v", self, peer, cause)
	w.report = w.now
	q := w.nodes[peer]
	if q.left && q.noise == 0 {
		w.fault("%d reports %d, which has departed", self, peer)
	}
	if !q.left && !w.excused(q) {
		w.fault("%d reports %d, which was not silent for long", self, peer)
	}
}

// endedBy checks that only processes that may end do.
func (w *world) endedBy(self int, err *EndError) {
	if !err.Partition {
		by := w.nodes[err.By]
		if !by.m.hasFailed(proc.ID(self)) && by.runs() {
			w.fault("%d ends itself: %v, which is not so", self, err)
		}
		return
	}
	silent, count := 0, 0
	for i, p := range w.nodes {
		if p.left && p.noise == 0 {
			continue
		}
		count++
		if i != self && (p.left || p.noise > 0 || p.killed || p.ended != nil) {
			silent++
		}
	}
	if silent*2 < count {
		w.fault("%d ends itself with %d of %d silent: %v", self, silent, count, err)
	}
}

// check compares the knowledge of all in the end.
func (w *world) check() {
	var survivors []int
	for i, p := range w.nodes {
		if p.runs() {
			survivors = append(survivors, i)
		}
	}
	for _, i := range survivors {
		m := w.nodes[i].m
		for j, q := range w.nodes {
			switch id := proc.ID(j); {
			case i == j || q.left:
			case !q.runs() && !m.hasFailed(id):
				w.fault("%d does not know that %d is dead", i, j)
			case q.runs() && m.hasFailed(id) && !(w.cfg.Partition == Off && q.m.hasFailed(proc.ID(i))) && !w.hole(i, j):
				w.fault("%d takes %d for dead, which goes on", i, j)
			}
		}
	}
	for _, c := range w.open {
		for _, i := range survivors {
			if c.forever && c.side[i] != c.side[survivors[0]] && !w.hole(i, survivors[0]) {
				w.fault("%d and %d go on at both sides of a cut", survivors[0], i)
			}
		}
	}
	w.checkFrames()
}

// checkFrames: the number of frames is bounded, by much less without events.
func (w *world) checkFrames() {
	n := len(w.nodes)
	limit := n * (2*int(w.now/w.cfg.Period) + 4)
	disturbed := w.cuts != nil
	for _, p := range w.nodes {
		disturbed = disturbed || p.killed || p.left || p.noise > 0
	}
	if disturbed {
		logn := bits.Len(uint(n))
		limit = int(w.now/w.cfg.Period)*n*(2+4*logn) + 12*n*n*n + 200*n
	}
	if w.frames > limit {
		w.fault("%d frames by %d processes, limit %d", w.frames, n, limit)
	}
	if w.longest > MaxPayload {
		w.fault("a frame of %d bytes", w.longest)
	}
}

// explore runs one seed and returns its world, with the faults. Two processes that count each other
// as failed and both go on are right where doc.go says so; verdicts are recorded to decide that.
func explore(seed uint64, broken mutant, verbose bool) *world {
	w := newWorld(seed, broken)
	w.verbose = verbose
	w.settle(w.quiet())
	w.check()
	if len(w.wrong) > 0 {
		w = newWorld(seed, broken)
		w.verbose, w.judged = verbose, true
		w.settle(w.quiet())
		w.check()
	}
	return w
}

// hole reports whether doc.go permits two processes to go on both, and counts it.
func (w *world) hole(i, j int) bool {
	if !w.judged || !w.explained(i, j) {
		return false
	}
	w.torn = true
	return true
}

func report(t *testing.T, seed uint64) {
	w := explore(seed, mutant{}, true)
	t.Fatalf("seed %d (BANYAN_SEED=%d go test ./ft/detect -run Explore), %d processes, %+v:\n%s\nwrong:\n%s",
		seed, seed,
		len(w.nodes), w.cfg, strings.Join(w.story, "\n"), strings.Join(w.wrong, "\n"))
}

// For any schedule every survivor knows every failure in time, no process is reported that was not
// silent, and a condemned process ends.
func TestExplore(t *testing.T) {
	from, seeds := uint64(0), uint64(1e4)
	switch wanted := os.Getenv("BANYAN_SEED"); {
	case wanted != "":
		one, last, several := strings.Cut(wanted, "-")
		var err error
		from, err = strconv.ParseUint(one, 0, 64)
		require.NoError(t, err, "BANYAN_SEED=%s: a seed, or FIRST-LAST", wanted)
		if seeds = 1; several {
			to, err := strconv.ParseUint(last, 0, 64)
			require.NoError(t, err, "BANYAN_SEED=%s: a seed, or FIRST-LAST", wanted)
			require.GreaterOrEqual(t, to, from)
			seeds = to - from + 1
		}
	case os.Getenv("BANYAN_LONG") != "":
		seeds = 1e6
	case testing.Short(): // the first of them have all that the race detector could find
		seeds = 1000
	}
	kinds, wrong := exploreAll(from, seeds)
	if len(wrong) > 0 {
		report(t, slices.Min(wrong))
	}
	torn := kinds[tornKind]
	delete(kinds, tornKind)
	t.Logf("%d schedules from seed %d, in %d of them both sides go on: %v", seeds, from, torn, kinds)
	require.Less(t, torn*10_000, max(int(seeds), 20_000), "both sides go on too often")
	if seeds >= 1000 {
		for _, kind := range kindNames {
			require.Greater(t, uint64(kinds[kind])*50, seeds, "schedules with %s", kind)
		}
	}
}

// tornKind counts the schedules after which both sides of a partition go on.
const tornKind = "torn"

// exploreAll explores on all cores. It returns the number of schedules of each kind, and the first
// failing seed of each core.
func exploreAll(from, seeds uint64) (kinds map[string]int, wrong []uint64) {
	kinds = make(map[string]int)
	var next atomic.Uint64
	var together sync.Mutex
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			own, failed := make(map[string]int), []uint64(nil)
			for i := next.Add(1) - 1; i < seeds && failed == nil; i = next.Add(1) - 1 {
				w := explore(from+i, mutant{}, false)
				if w.torn {
					own[tornKind]++
				}
				if w.kinds(own); len(w.wrong) > 0 {
					failed = []uint64{from + i}
				}
			}
			together.Lock()
			defer together.Unlock()
			for kind, n := range own {
				kinds[kind] += n
			}
			wrong = append(wrong, failed...)
		})
	}
	workers.Wait()
	return kinds, wrong
}

// Each part of the protocol is needed: without it the explorer finds a failing schedule.
func TestExplorerFindsMutants(t *testing.T) {
	for _, c := range []struct {
		name   string
		broken mutant
		first  uint64 // where the search begins: near one that finds it
		seeds  uint64
	}{
		{"no regard for the own lateness", mutant{hurried: true}, 0, 2e3},
		{"new neighbours not told", mutant{forget: true}, 14900, 1e5},
		{"silent not counted", mutant{alone: true}, 0, 2e3},
		{"nothing repeated", mutant{silent: true}, 0, 2e4},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := c.first; seed < c.first+c.seeds; seed++ {
				if w := explore(seed, c.broken, false); len(w.wrong) > 0 &&
					len(explore(seed, mutant{}, false).wrong) == 0 {
					t.Logf("found by seed %d: %s", seed, w.wrong[0])
					return
				}
			}
			t.Fatalf("not found in %d seeds", c.seeds)
		})
	}
}
