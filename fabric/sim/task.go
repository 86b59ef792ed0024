package sim

import (
	"fmt"
	"iter"
	"runtime"
	"runtime/debug"
	"strings"
)

// waiting is the reason why an activity does not run.
type waiting uint8

const (
	forTurn waiting = iota // it is queued, and will run
	forUnpark
	forBell
	forGet
	forTime
)

var waitingNames = [...]string{
	forTurn: "about to run", forUnpark: "parked", forBell: "asleep", forGet: "in Get", forTime: "in Pause",
}

// unwound is the panic value of an activity of a dead process, which unwinds its stack. Only
// task.finish recovers it.
type unwound struct{}

// task is one activity of a process: its body, or a function of Host.Go. It is a coroutine made by
// iter.Pull, which switches directly, without the Go scheduler (about 60 ns both ways).
type task struct {
	p        *Proc
	resume   func() (struct{}, bool)
	stop     func() // unwinds it where it waits
	suspend  func(struct{}) bool
	main     bool // the body: the process ends with it
	returned bool
	wait     waiting
	since    Picos
	place    string // where it waited when the run was given up; set by describeStuck for reported activities
}

// start makes an activity of p and queues it for p's present.
func (p *Proc) start(fn func(), main bool) {
	t := &task{p: p, main: main}
	t.resume, t.stop = iter.Pull(func(yield func(struct{}) bool) {
		t.suspend = yield
		defer t.finish()
		fn()
		t.returned = true
	})
	p.tasks = append(p.tasks, t)
	p.core.queue(t)
}

// finish runs on the activity's own stack when it returns or unwinds.
func (t *task) finish() {
	r := recover()
	p := t.p
	p.forget(t)
	switch {
	case p.over:
		// Unwound. A panic of its deferred functions is an artefact of that: their process was
		// dead.
	case r != nil:
		p.sim.fail(&PanicError{Process: p.id, Value: r, Stack: debug.Stack()})
	case !t.returned:
		// runtime.Goexit, as by testing.T.FailNow. iter.Pull passes it to the caller of Run, whose
		// deferred clean-up ends the simulation.
	case t.main:
		p.exit()
	}
}

// wake ends t's waiting at the present instant.
func (t *task) wake() {
	t.wait = forTurn
	t.p.core.queue(t)
}

// block suspends the running activity until an event wakes it.
func (t *task) block(why waiting) {
	s := t.p.sim
	t.wait, t.since = why, t.p.clock
	s.running = nil // events belong to no activity
	if next := s.advance(); next != t {
		s.pending = next
		if !t.suspend(struct{}{}) {
			t.unwind()
		}
	}
	// Otherwise it is its own turn again, without a switch.
	s.running = t
}

// unwind ends the activity after the end of its process.
func (t *task) unwind() {
	if t.p.sim.reportPlaces && t.place != "" {
		t.place = outsideCaller()
	}
	panic(unwound{})
}

// outsideCaller names the first function up the stack that is no method of this package: the caller
// of the host or the provider.
func outsideCaller() string {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		_, name, _ := strings.Cut(f.Function, "fabric/sim.")
		if !strings.HasPrefix(name, "(*") {
			return fmt.Sprintf("%s (%s:%d)", f.Function, f.File, f.Line)
		}
		if !more {
			return "an unknown place"
		}
	}
}
