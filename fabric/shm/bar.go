package shm

import (
	"errors"
	"fmt"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// Both sides of a pair use shared memory, or neither does. A process that can never map a peer's
// segment bars the peer from its own, at the gate in the peer's page; the peer sets the same gate
// before it uses the page. One of the two is first, and both learn which: if the peer was, the pair
// is connected and has no other path; if this process was, the pair is not connected and never will
// be.

// errBarred: the owner of the segment has barred this process from its page.
var errBarred = fmt.Errorf("%w: shm: the peer cannot map the memory of this process", fabric.ErrNoPath)

// permanent reports whether an error of connecting will be the same at every attempt: the
// permissions of the two processes or their builds cause it, and not a shortage of memory or
// descriptors.
func permanent(err error) bool {
	return !errors.Is(err, fabric.ErrPeerGone) && !errors.Is(err, ErrNoSpace) && remedy(err) == ""
}

// makePermanent makes a permanent error of connecting hold for both sides, for a peer that has not
// connected.
func (p *Provider) makePermanent(peer proc.ID, err error) error {
	if !permanent(err) {
		return err
	}
	if merr := p.bar(peer); merr != nil {
		return errors.Join(err, merr)
	}
	if !errors.Is(err, fabric.ErrNoPath) {
		err = fmt.Errorf("%w: %w", fabric.ErrNoPath, err)
	}
	p.barred[peer] = err
	return err
}

// bar keeps a peer out of its page here for good. It fails if the peer has connected already, or if
// there is no memory for the gate.
func (p *Provider) bar(peer proc.ID) error {
	if err := reserve(p.own.front.fd, p.own.front.page(peer), slotBytes); err != nil {
		return err
	}
	if !setGate(&cursorsOf(p.own.page(peer)).gate, gateBarred) {
		return fmt.Errorf("shm: %v has connected to this process, which cannot connect back", peer)
	}
	return nil
}
