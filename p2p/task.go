package p2p

import (
	"slices"

	"github.com/banyan-hpc/banyan/internal/progress"
)

// Task is an operation of a layer above that consists of requests and has no goroutine of its own:
// when all requests that it awaits have completed, it continues in any goroutine that makes
// progress. Requests outside of tasks pay nothing for it.
//
// It continues as a job of the progress engine, not in the completion itself, which may occur at
// any point. So it runs without the lock, may start further requests, and may take its time for
// reductions.
type Task struct {
	e     *Engine
	job   progress.Job
	part  func() // called when a request has completed
	parts int    // requests under way
}

// NewTask makes a task. Run is called without the lock, by one goroutine at a time, whenever the
// task continues.
func (e *Engine) NewTask(run func()) *Task {
	t := &Task{e: e}
	t.part = t.completed
	t.job = progress.Job{Run: func(*progress.Job) { run() }, Done: func(*progress.Job) {}}
	return t
}

// Await reports whether all of the requests have completed; if not, the task continues when they
// have. After false the caller must not touch the task once it has released the lock.
//
// Precondition: the lock is held; nothing else waits for the requests.
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

// Go schedules the task to continue soon. Precondition: the lock is held.
func (t *Task) Go() { t.e.p.Submit(&t.job) }

// Join is Ready for a non-blocking collective. It returns the communicator to send on and the
// operation's number, which is the same at all members if they join in the same order. Free keeps
// that communicator until Quit. Errors are those of Ready. With an error the operation has joined
// as well, unless w is nil.
func (c *Comm) Join() (w *Comm, number uint32, err error) {
	c.e.p.Lock()
	defer c.e.p.Unlock()
	c.awaitValidate()
	if c.state.Load()&stateFreed != 0 {
		return nil, 0, c.check()
	}
	w = c.collLocked()
	w.joined++
	w.joinedOps++
	s := w.mutableFT()
	s.running = append(s.running, uint32(TagOf(w.joined)))
	return w, w.joined, w.ready()
}

// Done declares that the operation with a number sends nothing more. Precondition: the lock is
// held.
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

// Quit ends a Join, on the communicator that it returned. Precondition: the lock is held.
func (c *Comm) Quit(number uint32) {
	c.Done(number)
	c.release()
}

// release ends an operation for which Free keeps the communicator. Precondition: the lock is held.
func (c *Comm) release() {
	if c.joinedOps--; c.joinedOps == 0 && c.state.Load()&(stateLeft|stateFreed) == stateLeft {
		c.free()
	}
}

// freeWhenIdle frees a communicator of collectives, if necessary at the end of the last one under
// way.
func (c *Comm) freeWhenIdle() {
	if c.joinedOps > 0 {
		c.state.Or(stateLeft)
		return
	}
	c.free()
}

// Connect connects to a rank in advance. It may block, and must not be called by a running task.
func (c *Comm) Connect(rank int) error {
	if c.link(rank) != nil {
		return nil
	}
	if _, err := c.connect(rank); err != nil {
		return c.connectError(rank, err)
	}
	return nil
}

// OpContext is a context for agreements about the operation with a number, as returned by Join, and
// for nothing else.
func (c *Comm) OpContext(number uint32) uint32 {
	return (uint32(mix(mix(c.ctx, c.ctx>>32), 3)>>32) + number) &^ collContext
}

// Engine is the communicator's engine.
func (c *Comm) Engine() *Engine { return c.e }
