package p2p

import (
	"fmt"
	"sync/atomic"

	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// ErrorRange selects the failures that end all operations on a communicator, as the info key
// mpi_error_range of the ULFM working group does. Open MPI's implementation documents that such a
// failure raises the class of revoked communicators. So here: all operations, waiting and later
// ones, return ft.ErrRevoked once this process knows of the failure. The error wraps the failure as
// well, a *ft.ProcFailedError, if this process has learned of it before another member's revocation.
// Failed lists the failure.
type ErrorRange uint8

const (
	// ErrorsLocal is the default: an operation fails if it needs the failed rank.
	ErrorsLocal ErrorRange = iota
	// ErrorsGroup lets the failure of any member revoke the communicator, unless the member has
	// been agreed to have ended. No message is sent: each member learns of the failure itself.
	ErrorsGroup
	// ErrorsUniverse lets the failure of any process of the job revoke the communicator, if it
	// became known after the communicator was made. That time may differ between members, so the
	// first one notifies the others.
	ErrorsUniverse
)

// String gives the range's name.
func (r ErrorRange) String() string {
	switch r {
	case ErrorsLocal:
		return "local"
	case ErrorsGroup:
		return "group"
	case ErrorsUniverse:
		return "universe"
	}
	return fmt.Sprintf("ErrorRange(%d)", uint8(r))
}

// Uniformity selects the operations that have the same outcome at all living members. Layers above
// use it; it is kept here because communicators inherit it.
type Uniformity uint8

const (
	// UniformNothing is the default: each member gets its own outcome.
	UniformNothing Uniformity = iota
	// UniformCreation makes the creation of communicators succeed at all members or fail at all.
	UniformCreation
	// UniformCollectives extends that to collective operations.
	UniformCollectives
)

// String gives the level's name.
func (u Uniformity) String() string {
	switch u {
	case UniformNothing:
		return "nothing"
	case UniformCreation:
		return "creation"
	case UniformCollectives:
		return "collectives"
	}
	return fmt.Sprintf("Uniformity(%d)", uint8(u))
}

// inherited are the settings that a communicator inherits from the one that it is derived from. The
// lock guards them.
type inherited struct {
	profile Profile
	errors  ErrorRange
	uniform Uniformity
}

// rangeState is the state of a communicator's error range. It is written with the lock held.
type rangeState struct {
	// knownFailures is the number of failures that this process knew when it made the communicator.
	knownFailures int32
	// cause is the process whose failure has revoked the communicator; else proc.None.
	cause proc.ID
	// notified: the other members have been notified of the revocation.
	notified bool
	// level is inherited.uniform for readers without the lock.
	level atomic.Uint32
}

// loadInherited returns the settings; the lock is not held.
func (c *Comm) loadInherited() inherited {
	c.e.p.Lock()
	defer c.e.p.Unlock()
	return c.inherited
}

// inherit copies the settings of another communicator, or the engine's for nil. Precondition: the
// lock is held.
func (c *Comm) inherit(from *Comm) {
	c.inherited = inherited{profile: c.e.profile}
	if from != nil {
		c.inherited = from.inherited
	}
	c.level.Store(uint32(c.uniform))
}

// inheritFrom is inherit without the lock, for a communicator that was made without a parent.
func (c *Comm) inheritFrom(from *Comm) {
	c.e.p.Lock()
	defer c.e.p.Unlock()
	c.inherit(from)
	c.e.revokeIfInRange(c)
}

// SetErrorRange selects the failures that revoke the communicator; all members select the same. If
// such a failure is known already, the communicator is revoked at once; failures that a validate
// has agreed on do not count for ErrorsGroup. A revocation is never undone. Errors: ft.ErrArgument,
// ft.ErrClosed.
func (c *Comm) SetErrorRange(r ErrorRange) error {
	e := c.e
	e.p.Lock()
	defer e.p.Unlock()
	switch {
	case r > ErrorsUniverse:
		return fmt.Errorf("%w: %v", ft.ErrArgument, r)
	case c.state.Load()&(stateFreed|stateFinal) != 0:
		return c.check()
	}
	for _, o := range c.linkedComms(nil) {
		o.errors = r
	}
	e.revokeIfInRange(c)
	return nil
}

// ErrorRange is the current range.
func (c *Comm) ErrorRange() ErrorRange { return c.loadInherited().errors }

// SetUniformity selects the uniform operations; all members select the same, between the same
// operations. Error: ft.ErrArgument.
func (c *Comm) SetUniformity(u Uniformity) error {
	if u > UniformCollectives {
		return fmt.Errorf("%w: %v", ft.ErrArgument, u)
	}
	c.e.p.Lock()
	defer c.e.p.Unlock()
	for _, o := range c.linkedComms(nil) {
		o.uniform = u
		o.level.Store(uint32(u))
	}
	return nil
}

// Uniformity is the current level.
func (c *Comm) Uniformity() Uniformity { return Uniformity(c.level.Load()) }

// revokeByRange revokes the communicators whose range contains a known failure.
func (e *Engine) revokeByRange() {
	var hit []*Comm
	for c := range e.comms.all() {
		if c.parent == nil && c.errors != ErrorsLocal {
			hit = append(hit, c)
		}
	}
	for _, c := range hit { // a revocation may make and free communicators
		e.revokeIfInRange(c)
	}
}

// revokeIfInRange revokes a communicator if its range contains a known failure.
func (e *Engine) revokeIfInRange(c *Comm) {
	if c.errors == ErrorsLocal || c.state.Load()&stateRevoked != 0 {
		return // the first cause remains
	}
	for i, p := range e.p.View().Order() {
		switch {
		case c.errors == ErrorsGroup && c.expects(p):
			c.setRevokeCause(p)
			e.revokeLocal(c)
			return
		case c.errors == ErrorsUniverse && i >= int(c.knownFailures):
			c.setRevokeCause(p)
			e.revoke(c)
			return
		}
	}
}

// expects reports whether a process is a member that has not been agreed to have ended.
func (c *Comm) expects(p proc.ID) bool {
	if w := c.coll.Load(); w != nil {
		return w.has(p)
	}
	return c.has(p)
}

func (c *Comm) setRevokeCause(p proc.ID) {
	for _, o := range c.linkedComms(nil) {
		o.cause = p
	}
}

// revokedError is the cause of an error of an operation on a revoked communicator: ft.ErrRevoked, or
// an error that wraps it if a failure is the reason.
func (c *Comm) revokedError() error {
	if c.cause == proc.None {
		return ft.ErrRevoked
	}
	e := &revokedError{process: c.cause, within: c.errors, failed: ft.ProcFailedError{Cause: c.e.p.View().Cause(c.cause)}}
	if c.has(c.cause) || c.parent != nil && c.parent.has(c.cause) {
		c.addFailed(&e.failed, c.cause)
	}
	return e
}

// revokedError is a revocation by a failure.
type revokedError struct {
	process proc.ID
	failed  ft.ProcFailedError // it has no ranks if the process is not a member
	within  ErrorRange
}

func (e *revokedError) Error() string {
	who := e.failed.Who()
	if len(e.failed.Ranks)+len(e.failed.Local) == 0 {
		who = e.process.String() + " has failed"
	}
	return fmt.Sprintf("%v: %s, and its error range is %v (%v)", ft.ErrRevoked, who, e.within, e.failed.Cause)
}

// Unwrap returns the class and the failure.
func (e *revokedError) Unwrap() []error { return []error{ft.ErrRevoked, &e.failed} }

// OnlyRevoked reports whether an error of an operation is that of a revocation. It returns false for
// one that a failure caused: the failure may be unknown at other members.
func OnlyRevoked(err error) bool {
	e, ok := err.(*ft.OpError)
	return err == ft.ErrRevoked || ok && e.Err == ft.ErrRevoked
}

// RevokeLocal revokes the communicator in this process only. The caller must be certain that each
// other member revokes it as well.
//
// Precondition: the lock is held.
func (c *Comm) RevokeLocal() { c.e.revokeLocal(c) }
