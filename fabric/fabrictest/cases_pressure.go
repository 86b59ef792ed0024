package fabrictest

import (
	"fmt"

	"github.com/banyan-hpc/banyan/internal/proc"
)

func pressureCases() []Case {
	return []Case{
		{Name: "pressure", N: 2, Body: pressure,
			About: "Without polls of the receiver, the sender is refused after bounded bytes, and woken by credit."},
		{Name: "pressure-both", N: 2, Body: pressureBoth,
			About: "Two full links without polls drain when both sides poll."},
		{Name: "pressure-incast", N: 6, Body: pressureIncast, Args: rounds,
			About: "One sleeping receiver is slower than many senders."},
	}
}

// Limits of the frames that a provider may accept for a peer that does not poll.
const (
	maxUnpolledBytes  = 64 << 20
	maxUnpolledFrames = 1 << 20
)

// fillUp sends frames of n bytes until a peer that does not poll has refused often, and returns the
// number accepted. This process polls, which does not help.
func fillUp(e *Env, id proc.ID, n int) int {
	const often = 300
	took, bytes := 0, 0
	e.place.set(forCredit, id)
	for refused := 0; refused < often; {
		if e.TrySend(id, n) {
			took++
			bytes += n
			refused = 0
			e.Check(bytes <= maxUnpolledBytes && took <= maxUnpolledFrames,
				"%d frames of %d bytes taken for a peer that does not poll", took, n)
			continue
		}
		if e.Ended(id) {
			break
		}
		refused++
		e.pollOrYield()
	}
	e.place.set(running, 0)
	return took
}

func pressure(e *Env) {
	caps := e.Conn(1 - e.ID).Caps()
	list := []int{0, 1, caps.Inline, caps.Inline + 1, caps.MaxFrame / 3, caps.MaxFrame}
	marks := -1
	e.raw = func(_ proc.ID, imm uint64, _ []byte) { marks = int(imm) }
	e.SleepAlways = true
	// A medium may need both sides to poll before it carries anything.
	e.SendRaw(1-e.ID, rawClass, 0, nil)
	e.pump(forFrames, 1-e.ID, func() bool { return marks >= 0 })
	const more = 20
	last := 0
	for i, n := range list {
		full := fmt.Sprint("full ", i)
		if e.ID == 0 {
			took := fillUp(e, 1, n)
			e.Check(took > 0, "no frame of %d bytes was taken", n)
			e.Control.Signal(full)
			for range more {
				e.Send(1, n)
			}
			e.SendRaw(1, rawClass, uint64(e.Sent(1)), nil)
			e.pump(forSignal, 1, func() bool { return e.Control.Seen(1, full) })
			continue
		}
		e.Control.Await(0, full)
		e.pump(forFrames, 0, func() bool { return marks > last }) // it may have arrived before
		last = marks
		e.Check(e.Got(0) == marks, "%d frames came, %d were sent", e.Got(0), marks)
		e.Control.Signal(full)
	}
	exchange(e, 1)
}

func pressureBoth(e *Env) {
	other := 1 - e.ID
	e.SleepAlways = true
	for e.TrySend(other, anySize(e, e.Conn(other).Caps().MaxFrame)) {
		e.Check(e.Sent(other) <= maxUnpolledFrames, "%d frames taken for a peer that does not poll", e.Sent(other))
	}
	e.Control.Signal("full")
	e.Control.Await(other, "full")
	exchange(e, 500)
}

// pressureIncast makes the receiver take a few frames at a time.
func pressureIncast(e *Env) {
	e.SleepAlways = true
	if e.ID != 0 {
		for range 20 * e.Arg("rounds") {
			e.Send(0, anySize(e, min(4*minFrame, e.frameLimit(0))))
		}
		e.Finish(0)
		return
	}
	e.Others(func(id proc.ID) {
		e.AwaitFinish(id)
		e.Check(e.Got(id) == 20*e.Arg("rounds"), "%d frames came from %v", e.Got(id), id)
	})
}
