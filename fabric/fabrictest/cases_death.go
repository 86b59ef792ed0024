package fabrictest

import (
	"errors"
	"slices"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

func deathCases() []Case {
	return []Case{
		{Name: "kill-transfer", N: 3, Victims: []proc.ID{0}, Body: killTransfer,
			Reaches: []string{framesOfDead},
			About: "A peer killed in mid-transfer: what came is whole and in order, the death is reported once, others " +
				"go on."},
		{Name: "kill-two", N: 4, Victims: []proc.ID{0, 1}, Body: killTransfer,
			Reaches: []string{framesOfDead},
			About:   "Two peers killed at about the same time."},
		{Name: "kill-connect", N: 6, Victims: []proc.ID{0}, Body: killConnect,
			Reaches: []string{framesForDead},
			About:   "Connect to a peer that is being killed: a connection whose end is reported, or ErrPeerGone."},
		{Name: "kill-get", N: 2, Victims: []proc.ID{0}, Body: killGet, Reaches: []string{getsGood},
			About: "Get from a peer that dies: good data or ErrPeerGone."},
		{Name: "die-before-connect", N: 2, Repeat: true, Body: dieBeforeConnect,
			About: "Connect to a dead process is an error or is followed by Down."},
		{Name: "die-unmet", N: 2, Repeat: true, Body: dieUnmet,
			About: "Connect to a dead process that has sent: its frames, then Down; or ErrPeerGone, then nothing."},
		{Name: "die-asleep", N: 2, Repeat: true, Body: dieAsleep,
			Reaches: []string{framesOfDead},
			About:   "A death wakes a sleeping peer, after the frames sent before."},
		{Name: "die-unpolled", N: 2, Repeat: true, Body: dieUnpolled,
			Reaches: []string{framesOfDead},
			About:   "A prefix of the frames in a full link arrives when its sender dies, then Down."},
		{Name: "die-refusing", N: 2, Repeat: true, Body: dieRefusing,
			About: "The death of a peer that gave no credit ends the wait for it."},
	}
}

// Records of the situations that the runs have reached.
const (
	framesOfDead  = "frames from the dead"
	framesForDead = "frames to the dying"
	getsGood      = "gets with good data"
	getsGone      = "gets with ErrPeerGone"
)

// killedCause is the cause that a victim's peers may see.
var killedCause = proc.Cause{Kind: proc.Signaled, Code: 9}

func killTransfer(e *Env) {
	if slices.Contains(e.Job.Victims, e.ID) {
		e.Others(func(id proc.ID) { e.MayEnd(id) }) // the other victim, and survivors that are done
		e.Others(func(id proc.ID) { e.peers[id].mayDepart = true })
		e.greetAll()
		e.Control.Signal(SignalStarted)
		for { // until it is killed
			sendBurst(e, 1)
		}
	}
	for _, v := range e.Job.Victims {
		e.MayEnd(v)
	}
	e.SleepAlways = e.ID == 2
	e.greetAll()
	for e.victimsLeft() {
		sendBurst(e, 1)
	}
	survivors := func(fn func(proc.ID)) {
		e.Others(func(id proc.ID) {
			if !slices.Contains(e.Job.Victims, id) {
				fn(id)
			}
		})
	}
	survivors(e.Finish)
	survivors(e.AwaitFinish)
	for _, v := range e.Job.Victims {
		e.checkCause(v, killedCause)
		e.Control.Await(v, SignalEnded)
		e.Record(framesOfDead, int64(e.Got(v)))
	}
	e.Linger()
}

func (e *Env) victimsLeft() bool {
	return slices.ContainsFunc(e.Job.Victims, func(v proc.ID) bool { return !e.Ended(v) })
}

// killConnect tests the moment of connecting, so no survivor waits for another. In half of the runs the
// victim may be killed before any process has connected, in the others after the first frame.
func killConnect(e *Env) {
	if e.ID == 0 {
		met := e.Rand.IntN(2) == 0
		e.Others(e.MayEnd)
		e.pump(forFrames, e.ID, func() bool {
			e.Others(func(id proc.ID) { met = met || e.Got(id) > 0 })
			return met
		})
		e.Control.Signal(SignalStarted)
		for { // until it is killed
			e.pollOrYield()
		}
	}
	e.MayEnd(0)
	for range int(e.ID) * e.Rand.IntN(200) {
		e.Host.Yield()
	}
	for e.Send(0, anySize(e, e.frameLimit(0))) { // until it has ended
		e.pollOrYield()
	}
	e.Record(framesForDead, int64(e.Sent(0)))
	e.seeEnd(killedCause)
}

func killGet(e *Env) {
	size := 2 << 10
	if e.Isolated {
		size = 1 << 20 // a copy that takes a while
	}
	other := 1 - e.ID
	if e.ID == 0 {
		mine := make([]byte, size)
		fillPattern(e.Job.Seed, 0, mine)
		e.greetAll()
		if c := e.Conn(other); c.Caps().Get {
			r, err := c.Expose(mine)
			e.Check(err == nil, "Expose: %v", err)
			e.SendRaw(other, rawClass, sayRegion, encodeRegion(r))
		}
		e.Control.Signal(SignalStarted)
		e.AwaitEnd(other) // until it is killed
		fillPattern(0, 0, mine)
	}
	e.MayEnd(0)
	var region *fabric.Region
	e.raw = func(_ proc.ID, _ uint64, payload []byte) {
		r := decodeRegion(payload)
		region = &r
	}
	c := e.Conn(0)
	e.greetAll()
	e.pump(forReply, 0, func() bool { return region != nil || e.Ended(0) })
	switch {
	case region != nil:
		getUntilEnd(e, c, *region)
	case c != nil && !c.Caps().Get:
		e.Record(getsGood, 1) // without Get there is nothing to reach
	}
	e.seeEnd(killedCause)
}

// getUntilEnd gets repeatedly until the peer's end is known.
func getUntilEnd(e *Env, c fabric.Conn, r fabric.Region) {
	buf := make([]byte, r.Len)
	good, gone := 0, 0
	defer func() { e.Record(getsGood, int64(good)); e.Record(getsGone, int64(gone)) }()
	for !e.Ended(0) {
		clear(buf)
		err := c.Get(buf, r, 0)
		switch {
		case err == nil:
			bad := checkPattern(e.Job.Seed, 0, buf)
			e.Check(bad < 0, "Get succeeded with data that are wrong from byte %d on", bad)
			good++
		default:
			e.Check(errors.Is(err, fabric.ErrPeerGone), "Get from a peer that dies: %v", err)
			gone++
		}
		e.pollOrYield()
	}
	err := c.Get(buf, r, 0)
	e.Check(errors.Is(err, fabric.ErrPeerGone), "Get after Down: %v", err)
}

func dieBeforeConnect(e *Env) {
	if e.ID == 0 {
		e.Die()
	}
	e.MayEnd(0)
	e.Control.Await(0, SignalEnded)
	e.SleepAlways = true
	if c := e.Conn(0); c != nil {
		c.TrySend(rawClass, 0, nil)
	}
	e.seeEnd(killedCause)
}

// dieUnmet makes process 0 connect to process 1, send and die before process 1 polls: its frames
// arrive before its end is known, or never.
func dieUnmet(e *Env) {
	if e.ID == 0 {
		for range 1 + e.Rand.IntN(burst) {
			e.TrySend(1, anySize(e, e.frameLimit(1)))
		}
		e.Die()
	}
	e.MayEnd(0)
	e.Control.Await(0, SignalEnded)
	e.Conn(0)
	e.seeEnd(killedCause)
}

func dieAsleep(e *Env) {
	if e.ID == 0 {
		e.greetAll()
		sendBurst(e, e.Rand.IntN(burst/4))
		randomDelay(e)
		e.Die()
	}
	e.MayEnd(0)
	e.SleepAlways = true
	e.greetAll()
	e.seeEnd(killedCause)
	e.Record(framesOfDead, int64(e.Got(0)))
}

func dieUnpolled(e *Env) {
	if e.ID == 0 {
		e.greetAll()
		fillUp(e, 1, anySize(e, e.frameLimit(1)))
		e.Die()
	}
	e.MayEnd(0)
	e.greetAll()
	e.Control.Await(0, SignalEnded)
	e.seeEnd(killedCause)
	e.Record(framesOfDead, int64(e.Got(0)))
}

func dieRefusing(e *Env) {
	if e.ID == 0 {
		e.greetAll()
		e.Control.Await(1, "full")
		randomDelay(e)
		e.Die()
	}
	e.MayEnd(0)
	e.SleepAlways = true
	e.greetAll()
	fillUp(e, 0, anySize(e, e.frameLimit(0)))
	e.Control.Signal("full")
	for e.Send(0, minFrame) { // until it has ended
		e.pollOrYield()
	}
	e.seeEnd(killedCause)
}
