package p2p

import (
	"fmt"
	"sync/atomic"

	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// ErrorRange says which failures end all operations on a communicator: as the info key mpi_error_range
// of the ULFM working group, of which its implementation in Open MPI documents that the failure has an operation raise the class of
// revoked communicators. So here: whatever waits, or is begun, is ft.ErrRevoked from the moment on in which this
// process knows of the failure. The error's text names the failure, Failed lists it.
type ErrorRange uint8

const (
	// ErrorsLocal is the default: an operation fails if it needs the dead (S1-3).
	ErrorsLocal ErrorRange = iota
	// ErrorsGroup has the failure of any member that is not agreed to be gone revoke the communicator. No message is sent: each
	// member learns of the failure.
	ErrorsGroup
	// ErrorsUniverse has the failure of any process of the job revoke it, if it became known after the communicator was
	// made. When that was may differ between members, so the first tells the others.
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

// Uniformity says which operations end alike at all living members. It is kept here for the layers above,
// so that it is inherited.
type Uniformity uint8

const (
	// UniformNothing is the default: each member gets its own outcome (S1-16, S1-18).
	UniformNothing Uniformity = iota
	// UniformCreation has operations that make communicators succeed at all members or fail at all (S4-21).
	UniformCreation
	// UniformCollectives has collective operations do so as well.
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

// inherited is what communicators inherit from the one that they are made from. It is written and read with the lock held.
type inherited struct {
	profile Profile
	errors  ErrorRange
	uniform Uniformity
}

// rangeState is what becomes of a communicator's range. It is written with the lock held.
type rangeState struct {
	// knownFailures is how many failures this process knew when it made the communicator.
	knownFailures int32
	// cause is the process whose failure has revoked it; else proc.None.
	cause proc.ID
	// notified: the other members have been told that it is revoked.
	notified bool
	// level is manner.uniform for who has no lock.
	level atomic.Uint32
}

// loadInherited is the manner for who has no lock.
func (c *Comm) loadInherited() inherited {
	c.e.p.Lock()
	defer c.e.p.Unlock()
	return c.inherited
}

// inherit takes over the manner of another communicator; nil: the one that all begin with. Precondition: the lock is held.
func (c *Comm) inherit(from *Comm) {
	c.inherited = inherited{profile: c.e.profile}
	if from != nil {
		c.inherited = from.inherited
	}
	c.level.Store(uint32(c.uniform))
}

// inheritFrom is inherit for who has no lock: of a communicator that has been made in no manner.
func (c *Comm) inheritFrom(from *Comm) {
	c.e.p.Lock()
	defer c.e.p.Unlock()
	c.inherit(from)
	c.e.revokeIfInRange(c)
}

// SetErrorRange chooses the failures that revoke the communicator; members choose the same. If one of them is known
// already it is revoked at once; one that a validate has agreed on is none of the group's any more. A communicator that has been revoked stays so. Errors: ft.ErrArgument,
// ft.ErrClosed.
func (c *Comm) SetErrorRange(r ErrorRange) error {
	e := c.e
	e.p.Lock()
	defer e.p.Unlock()
	switch {
	case r > ErrorsUniverse:
		return fmt.Errorf("set error range of %s: %w: %v", c.name, ft.ErrArgument, r)
	case c.state.Load()&(stateFreed|stateFinal) != 0:
		return c.check("set error range")
	}
	for _, o := range c.linkedComms(nil) {
		o.errors = r
	}
	e.revokeIfInRange(c)
	return nil
}

// ErrorRange is the range in force.
func (c *Comm) ErrorRange() ErrorRange { return c.loadInherited().errors }

// SetUniformity chooses what ends alike; members choose the same, between the same operations.
// Error: ft.ErrArgument.
func (c *Comm) SetUniformity(u Uniformity) error {
	if u > UniformCollectives {
		return fmt.Errorf("set uniformity of %s: %w: %v", c.name, ft.ErrArgument, u)
	}
	c.e.p.Lock()
	defer c.e.p.Unlock()
	for _, o := range c.linkedComms(nil) {
		o.uniform = u
		o.level.Store(uint32(u))
	}
	return nil
}

// Uniformity is the level in force.
func (c *Comm) Uniformity() Uniformity { return Uniformity(c.level.Load()) }

// revokeByRange revokes the communicators in whose range a failure lies that has become known.
func (e *Engine) revokeByRange() {
	var hit []*Comm
	for c := range e.comms.all() {
		if c.parent == nil && c.errors != ErrorsLocal {
			hit = append(hit, c)
		}
	}
	for _, c := range hit { // revoking may make and free communicators
		e.revokeIfInRange(c)
	}
}

// revokeIfInRange revokes a communicator if a failure in its range is known.
func (e *Engine) revokeIfInRange(c *Comm) {
	if c.errors == ErrorsLocal || c.state.Load()&stateRevoked != 0 {
		return // what has revoked it remains its cause
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

// expects reports whether a process is a member that is not agreed to be gone.
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

// revokedError is the error of an operation on a communicator that has been revoked.
func (c *Comm) revokedError(op string) error {
	if c.cause == proc.None {
		return &revokedError{op: op, comm: c.name}
	}
	who := c.cause.String()
	if rank := c.peers.Rank(c.cause); rank >= 0 {
		who = fmt.Sprintf("rank %d", rank)
	}
	return fmt.Errorf("%s on %s: %w: %s has failed, and its error range is %v (%v)",
		op, c.name, ft.ErrRevoked, who, c.errors, c.e.p.View().Cause(c.cause))
}

// revokedError is what all that waits gets when a communicator is revoked, before the next process can have its turn
// on this core. So it becomes a text when somebody reads it.
type revokedError struct {
	op     string
	comm   commName
	during string // the operation that it was a part of
}

func (e *revokedError) Error() string {
	text := fmt.Sprintf("%s on %s: %v", e.op, e.comm, ft.ErrRevoked)
	if e.during != "" {
		text = e.during + ": " + text
	}
	return text
}

func (e *revokedError) Unwrap() error { return ft.ErrRevoked }

// During names the operation that has met an error of its own here, in the error itself. False: it is not one that a
// revocation has ended.
func During(op string, err error) bool {
	e, ok := err.(*revokedError)
	if ok {
		e.during = op
	}
	return ok
}

// RevokeLocal revokes the communicator in this process: the caller knows that each other member learns of it by itself.
// Precondition: the lock is held.
func (c *Comm) RevokeLocal() { c.e.revokeLocal(c) }
