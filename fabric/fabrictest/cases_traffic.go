package fabrictest

import (
	"math"
	"runtime"
	"slices"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

func trafficCases() []Case {
	return []Case{
		{Name: "sizes", N: 2, Body: sizes,
			About: "Frames of every size arrive whole and in order, both ways at once."},
		{Name: "sizes-asleep", N: 2, Body: sizesAsleep,
			About: "The same, sleeping on every wait."},
		{Name: "all-to-all", N: 8, Body: allToAll, Args: rounds,
			About: "Many peers at once; order is kept for each."},
		{Name: "unhandled", N: 2, Body: unhandled,
			About: "Frames of a class without listener are dropped, return their credit and affect no others."},
		{Name: "allocations", N: 2, Body: allocations, Isolated: true,
			About: "TrySend and Poll do not allocate."},
	}
}

// thresholds are the sizes at which a provider may change its method, up to the longest frame.
func thresholds(c fabric.Caps) []int {
	var list []int
	add := func(n int) {
		for _, n := range [3]int{n - 1, n, n + 1} {
			if n >= 0 && n <= c.MaxFrame {
				list = append(list, n)
			}
		}
	}
	for n := range 257 {
		add(n)
	}
	for n := 1; n <= c.MaxFrame; n *= 2 {
		add(n)
	}
	for _, n := range [...]int{c.Inline, c.Eager, c.MaxFrame / 3, c.MaxFrame} {
		add(n)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func sizes(e *Env) {
	other := 1 - e.ID
	list := thresholds(e.Conn(other).Caps())
	for _, n := range list {
		e.Send(other, n)
	}
	for range 3 {
		e.Rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		for _, n := range list {
			e.Send(other, n)
		}
	}
	e.Finish(other)
	e.AwaitFinish(other)
}

func sizesAsleep(e *Env) {
	e.SleepAlways = true
	sizes(e)
}

// anySize draws a size, every order of magnitude with the same probability.
func anySize(e *Env, limit int) int {
	return int(math.Exp(e.Rand.Float64()*math.Log(float64(limit+1)))+0.5) - 1
}

func allToAll(e *Env) {
	for range e.Arg("rounds") {
		for _, i := range e.Rand.Perm(e.Job.N) {
			if id := proc.ID(i); id != e.ID {
				e.Send(id, anySize(e, e.Conn(id).Caps().MaxFrame))
			}
		}
	}
	e.Others(e.Finish)
	e.Others(e.AwaitFinish)
}

func unhandled(e *Env) {
	other := 1 - e.ID
	for i := range 5000 {
		e.SendRaw(other, unhandledClass, uint64(i), e.buffer(i%minFrame))
		if i%10 == 0 {
			e.Send(other, i%minFrame)
		}
	}
	e.Finish(other)
	e.AwaitFinish(other)
	e.Check(e.Got(other) == 500, "%d frames came, 500 were sent", e.Got(other))
}

// allocations bounces frames with a listener of its own, because Env's allocates. A few allocations
// in all are the runtime's own.
func allocations(e *Env) {
	other := 1 - e.ID
	c := e.Conn(other)
	arrived, bounced := 0, 0
	e.sink.Deliver[rawClass] = func(proc.ID, uint64, []byte) { arrived++ }
	var buf []byte
	sent := func() bool { return c.TrySend(rawClass, 0, buf) }
	came := func() bool { return arrived == bounced }
	bounce := func(times int) {
		for range times {
			bounced++
			if e.ID == 0 {
				e.pump(forCredit, other, sent)
			}
			e.pump(forReply, other, came)
			if e.ID == 1 {
				e.pump(forCredit, other, sent)
			}
		}
	}
	const times = 2000
	var before, after runtime.MemStats
	for i, n := range []int{0, c.Caps().Inline, c.Caps().Inline + 1, c.Caps().MaxFrame} {
		e.SleepAlways = i%2 == 1
		buf = make([]byte, n)
		bounce(times)
		runtime.ReadMemStats(&before)
		bounce(times)
		runtime.ReadMemStats(&after)
		got := after.Mallocs - before.Mallocs
		e.Check(got < times/20, "%d allocations for %d frames of %d bytes", got, times, n)
	}
	exchange(e, 1)
}

// pollOrYield is one poll that lets others run if there was nothing.
func (e *Env) pollOrYield() {
	e.inPoll = true
	if e.Provider.Poll(&e.sink) == 0 {
		e.Host.Yield()
	}
	e.inPoll = false
}
