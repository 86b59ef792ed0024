package fabrictest

import (
	"sync/atomic"

	"github.com/banyan-hpc/banyan/fabric"
)

func hostCases() []Case {
	return []Case{
		{Name: "host-sleep", N: 1, Body: hostSleep,
			About: "Sleep ends at the first ring since Arm, or at the deadline."},
		{Name: "host-parker", N: 1, Body: hostParker, Args: rounds,
			About: "An Unpark before the Park is kept; a park until a deadline ends then."},
		{Name: "host-ring", N: 1, Body: hostRing, Args: rounds,
			About: "Any goroutine may ring, and each ring after Arm ends the sleep."},
		{Name: "host-pause", N: 1, Body: hostPause,
			About: "A pause lasts as long as requested, beside a goroutine that sleeps at the bell."},
		{Name: "host-outlives", N: 1, Body: hostOutlives,
			About: "Any goroutine may ring, also one that comes after Provider.Close."},
	}
}

// rounds passes Budget.Rounds on.
func rounds(b Budget) map[string]int64 { return map[string]int64{"rounds": int64(b.Rounds)} }

func hostSleep(e *Env) {
	h := e.Host
	h.Arm()
	h.Ring()
	h.Sleep(fabric.Forever) // ends, or the watchdog finds it
	h.Arm()
	h.Disarm()
	start := h.Now()
	deadline := start + 300_000
	for h.Now() < deadline {
		h.Arm()
		h.Sleep(deadline)
	}
	h.Arm()
	h.Sleep(start) // a deadline that has passed
	e.Check(h.Now() >= deadline, "the clock runs backwards")
}

func hostParker(e *Env) {
	here, there := e.Host.NewParker(), e.Host.NewParker()
	here.Unpark()
	here.Park()
	here.Unpark()
	here.ParkUntil(fabric.Forever)
	start := e.Host.Now()
	here.ParkUntil(start + 200_000)
	e.Check(e.Host.Now() >= start+200_000, "ParkUntil ended before its deadline")
	here.ParkUntil(start) // has passed
	var turns atomic.Int64
	n := int64(e.Arg("rounds"))
	e.Host.Go(func() {
		for range n {
			there.Park()
			turns.Add(1)
			here.Unpark()
		}
	})
	for i := range n {
		there.Unpark()
		here.Park()
		e.Check(turns.Load() == i+1, "Park ended without an Unpark")
	}
}

// hostRing sleeps until another activity changes a value and then rings.
func hostRing(e *Env) {
	e.SleepAlways = true
	var asked, done atomic.Int64
	n := int64(e.Arg("rounds"))
	e.Host.Go(func() {
		for i := range n {
			for asked.Load() <= i {
				e.Host.Yield()
			}
			done.Add(1)
			e.Host.Ring()
		}
	})
	for i := range n {
		asked.Add(1)
		e.pump(forReply, e.ID, func() bool { return done.Load() == i+1 })
	}
}

func hostPause(e *Env) {
	const length = 200_000
	h, paused := e.Host, e.Host.NewParker()
	start := h.Now()
	h.Go(func() {
		h.Pause(0)
		h.Pause(length)
		paused.Unpark()
	})
	for h.Now() < start+length/2 {
		h.Arm()
		h.Sleep(start + length/2)
	}
	paused.Park()
	e.Check(h.Now() >= start+length, "the pause was too short")
}

func hostOutlives(e *Env) {
	e.Depart()
	e.Close()
	e.Host.Ring()
}
