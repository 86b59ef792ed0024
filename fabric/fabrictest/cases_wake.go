package fabrictest

import "github.com/banyan-hpc/banyan/internal/proc"

func wakeCases() []Case {
	wakeups := func(b Budget) map[string]int64 { return map[string]int64{"wakeups": int64(b.Wakeups)} }
	return []Case{
		{Name: "wakeups", N: 2, Body: wakePingPong, Args: wakeups,
			About: "Every arrival after Arm rings: no wake-up is lost, sleeping on every wait."},
		{Name: "wakeups-credit", N: 2, Body: wakeCredit, Args: wakeups,
			About: "Credit that returns after Arm rings as well."},
		{Name: "wakeups-ring", N: 5, Body: wakeRing, Args: wakeups,
			About: "The same with more processes than cores."},
		{Name: "idle", N: 2, Body: idle,
			About: "Ready is false when there is nothing: a process can sleep."},
	}
}

// randomDelay spends a moment drawn anew each time, so that arrivals occur at every point of the
// receiver's way to sleep.
func randomDelay(e *Env) {
	for range e.Rand.IntN(200) {
		e.place.v.Load()
	}
}

// heartbeat shows the watchdog progress every so many rounds.
func heartbeat(e *Env, round int) {
	const every = 500
	if round%every == every-1 {
		e.Record("round", int64(round))
	}
}

func wakePingPong(e *Env) {
	e.SleepAlways = true
	other := 1 - e.ID
	for i := range e.Arg("wakeups") {
		if e.ID == 0 {
			randomDelay(e)
			e.Send(other, i&7)
		}
		e.pump(forReply, other, func() bool { return e.Got(other) > i })
		if e.ID == 1 {
			randomDelay(e)
			e.Send(other, i&7)
		}
		heartbeat(e, i)
	}
	e.Check(e.sleeps > 0 || e.Arg("wakeups") < 100, "never slept: Ready is always true")
	exchange(e, 1)
}

// wakeCredit lets the sender outrun a slow receiver.
func wakeCredit(e *Env) {
	e.SleepAlways = true
	other := 1 - e.ID
	limit := e.Conn(other).Caps().MaxFrame
	for i := range e.Arg("wakeups") / 4 {
		heartbeat(e, i)
		if e.ID == 0 {
			e.Send(other, limit-i%3)
			continue
		}
		e.pump(forFrames, other, func() bool { return e.Got(other) > i })
		randomDelay(e)
	}
	exchange(e, 1)
}

func wakeRing(e *Env) {
	e.SleepAlways = true
	next := proc.ID((int(e.ID) + 1) % e.Job.N)
	last := proc.ID((int(e.ID) + e.Job.N - 1) % e.Job.N)
	for i := range e.Arg("wakeups") / 8 {
		heartbeat(e, i)
		if e.ID == 0 {
			e.Send(next, i&7)
		}
		e.pump(forFrames, last, func() bool { return e.Got(last) > i })
		if e.ID != 0 {
			e.Send(next, i&7)
		}
	}
	exchange(e, 1)
}

func idle(e *Env) {
	other := 1 - e.ID
	e.raw = func(proc.ID, uint64, []byte) {}
	for i := range 100 {
		e.Send(other, i%minFrame)
		e.SendRaw(other, rawClass, 0, nil)
	}
	e.Finish(other)
	e.AwaitFinish(other)
	if e.ID == 0 {
		e.Control.Signal("silent")
		e.Control.Await(1, "looked")
		return
	}
	e.Control.Await(0, "silent")
	const looks = 100 // the rest of the exchange has to be taken first
	for i := 0; ; i++ {
		e.Host.Arm()
		ready := e.Provider.Ready()
		e.Host.Disarm()
		if !ready {
			break
		}
		e.poll()
		e.Check(i < looks, "Ready is true after %d polls without a sender", i)
	}
	e.Check(e.poll() == 0, "Poll finds something that Ready did not")
	e.Control.Signal("looked")
}
