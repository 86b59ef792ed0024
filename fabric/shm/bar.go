package shm

import (
	"errors"
	"fmt"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// Shared memory is used by both sides of a pair or by none. A process that finds
// that it can never map a peer's segment bars the peer from its own, at the gate
// in the peer's slot; the peer turns the same gate before it uses the slot. One
// of the two is first, and both learn which: where the peer was, it is connected
// and the pair has no other way; where this process was, neither is nor will be.

// errBarred is why a peer's slot may not be used.
var errBarred = fmt.Errorf("%w: shm: the peer cannot map the memory of this process", fabric.ErrNoPath)

// permanent reports whether an error of connecting will be the same at every other
// attempt: the rights of the two processes keep them apart, or their builds, and
// no want of memory or descriptors.
func permanent(err error) bool {
	return !errors.Is(err, fabric.ErrPeerGone) && !errors.Is(err, ErrNoSpace) && remedy(err) == ""
}

// makePermanent makes an error of connecting to a peer that has not connected hold for
// both sides, if it is one that stays.
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

// bar keeps a peer out of its slot here for good. The error says that it has come
// already, or that there is no memory for the gate.
func (p *Provider) bar(peer proc.ID) error {
	if err := reserve(p.own.fd, p.own.slotOffset(peer), slotHead); err != nil {
		return err
	}
	if !setGate(gateOf(p.own.slot(peer)), gateBarred) {
		return fmt.Errorf("shm: %v has connected to this process, which cannot connect back", peer)
	}
	return nil
}
