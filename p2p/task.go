package p2p

import (
	"slices"

	"github.com/banyan-hpc/banyan/internal/progress"
)

// Task is an operation of a layer above that is made of requests and has no goroutine of its own: when the requests
// that it waits for have all completed, it goes on in whatever goroutine makes progress. It costs requests that no task waits for nothing.
//
// Going on is a job of the progress engine and not part of the completion, which may come in the middle of anything: so it
// runs without the lock, begins further requests as an application would, and may take its time to fold.
type Task struct {
	e     *Engine
	job   progress.Job
	part  func() // one of the requests has completed
	parts int    // requests that have not
}

// NewTask makes one. Run is called without the lock, by one goroutine at a time, whenever the task goes on.
func (e *Engine) NewTask(run func()) *Task {
	t := &Task{e: e}
	t.part = t.completed
	t.job = progress.Job{Run: func(*progress.Job) { run() }, Done: func(*progress.Job) {}}
	return t
}

// Await reports whether all of the requests have completed; if not, the task goes on when they have. Whoever gets false does not touch
// the task any more once it has let go of the lock. Precondition: the lock is held; nobody else waits for the requests.
func (t *Task) Await(hs []Handle) bool {
	for _, h := range hs {
		if t.e.State(h) == Pending {
			t.parts++
			h.r.Then(t.part)
		}
	}
	return t.parts == 0
}

func (t *Task) completed() {
	if t.parts--; t.parts == 0 {
		t.Go()
	}
}

// Go has the task go on soon. Precondition: the lock is held.
func (t *Task) Go() { t.e.p.Submit(&t.job) }

// Join is Ready for an operation that goes on by itself: it gives the communicator to send on, and the operation's number, which
// is the same at all members if they join in the same order. Until Quit is called a Free leaves that communicator as it is.
// Error: as of Ready. The operation has joined all the same, unless there is no communicator to send on any more.
func (c *Comm) Join(op string) (w *Comm, number uint32, err error) {
	c.e.p.Lock()
	defer c.e.p.Unlock()
	c.awaitValidate()
	if c.state.Load()&stateFreed != 0 {
		return nil, 0, c.check(op)
	}
	w = c.collLocked()
	w.joined++
	w.joinedOps++
	s := w.mutableFT()
	s.running = append(s.running, uint32(TagOf(w.joined)))
	return w, w.joined, w.ready(op)
}

// Done says that the operation with a number sends nothing more. Precondition: the lock is held.
func (c *Comm) Done(number uint32) {
	if c == nil { // it has not joined
		return
	}
	s := c.mutableFT()
	if i := slices.Index(s.running, uint32(TagOf(number))); i >= 0 {
		s.running = slices.Delete(s.running, i, i+1)
		c.e.answerInquiries()
	}
}

// Quit ends what Join began, on the communicator that it gave. Precondition: the lock is held.
func (c *Comm) Quit(number uint32) {
	c.Done(number)
	if c.joinedOps--; c.joinedOps == 0 && c.state.Load()&(stateLeft|stateFreed) == stateLeft {
		c.free()
	}
}

// freeWhenIdle is free for a communicator of collectives, of which some may be under way: the last of them frees it.
func (c *Comm) freeWhenIdle() {
	if c.joinedOps > 0 {
		c.state.Or(stateLeft)
		return
	}
	c.free()
}

// Connect connects to a rank, so that what is begun later need not wait for that. It may wait, and is not to be called in a task that goes on.
func (c *Comm) Connect(rank int) error {
	if c.link(rank) != nil {
		return nil
	}
	if _, err := c.connect(rank); err != nil {
		return c.connectError("connect", "to", rank, err)
	}
	return nil
}

// OpContext gives a context that belongs to the operation with a number of Join alone, for what is agreed on about it.
func (c *Comm) OpContext(number uint32) uint32 {
	return (uint32(mix(mix(c.ctx, c.ctx>>32), 3)>>32) + number) &^ collContext
}

// Engine is the communicator's engine.
func (c *Comm) Engine() *Engine { return c.e }
