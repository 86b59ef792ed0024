package repair

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/ft/agree"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/p2p"
)

// commSet are the communicators of one validate that have the same members, and so share an
// agreement.
type commSet struct {
	comms []*p2p.Comm // without repetition, by context
}

// Validate agrees, for each of several communicators, on the failed members, and enables its
// collectives again among the others (Hursey & Graham §3.2). Communicators with the same members
// share one agreement; the others' agreements run at the same time, so the order of the arguments
// may differ between members. done gets, for each communicator, the members that have been agreed
// to have failed, in the order of its AllMembers: the same at all members. With an error,
// communicators with a successful validate have their lists.
//
// Precondition: the lock is held.
func (r *Repair) Validate(comms []*p2p.Comm, done func(failed [][]proc.ID, err error)) {
	r.validateAfter(comms, comms, done)
}

// validateAfter validates when the turns under way on the communicators before have ended.
func (r *Repair) validateAfter(before, comms []*p2p.Comm, done func(failed [][]proc.ID, err error)) {
	if i := slices.IndexFunc(before, follows); i >= 0 {
		before[i].AfterTurns(func() { r.validateAfter(before[i+1:], comms, done) })
		return
	}
	all := groupByMembers(comms)
	if err := begin(all); err != nil || len(all) == 0 {
		done(nil, err)
		return
	}
	out := make([][]proc.ID, len(comms))
	left, first := len(all), error(nil)
	for _, k := range all {
		r.validate(k, func(d *agree.Decision, err error) {
			first = cmp.Or(first, err)
			for _, c := range k.comms {
				failed, err := finish(c, d)
				first = cmp.Or(first, err)
				for i := range comms {
					if comms[i] == c {
						out[i] = failed
					}
				}
			}
			if left--; left == 0 {
				done(out, first)
			}
		})
	}
}

// begin starts a validate on all communicators or on none.
func begin(all []commSet) error {
	var started []*p2p.Comm
	for _, k := range all {
		for _, c := range k.comms {
			if err := c.BeginValidate(); err != nil {
				for _, c := range started {
					_ = c.EndValidate(nil) // undoes BeginValidate
				}
				return err
			}
			started = append(started, c)
		}
	}
	return nil
}

// validate agrees for one commSet, in the sequence of its first communicator. done gets nil if
// there is no decision.
func (r *Repair) validate(k commSet, done func(*agree.Decision, error)) {
	names := uint32(len(k.comms))
	for _, c := range k.comms {
		names = names*0x9e3779b1 ^ c.Context()
	}
	// All members have named the same communicators if the AND of the names is the complement of
	// the AND of their complements.
	value := binary.LittleEndian.AppendUint32(nil, names)
	value = binary.LittleEndian.AppendUint32(value, ^names)
	c := k.comms[0]
	r.propose(c, agree.Proposal{What: whatValidate, Value: value, Op: and},
		func(d *agree.Decision, err error) {
			if err == nil && binary.LittleEndian.Uint32(d.Value) != ^binary.LittleEndian.Uint32(d.Value[4:]) {
				err = fmt.Errorf("%w: not all ranks validate the same communicators with it", ft.ErrArgument)
			}
			if err != nil {
				d = nil
			}
			done(d, err)
		})
}

// finish applies a decision to one communicator and returns the failed members; nil: there is no
// decision.
func finish(c *p2p.Comm, d *agree.Decision) (failed []proc.ID, err error) {
	if d == nil {
		return nil, c.EndValidate(nil)
	}
	v := &p2p.Validation{Epoch: uint64(d.Key.Context)<<32 | uint64(d.Number)}
	for _, g := range d.Ended {
		v.Ended = append(v.Ended, g.Proc)
		if !g.Departed {
			failed = append(failed, g.Proc)
		}
	}
	if len(failed) > 1 {
		everyone := c.AllMembers()
		slices.SortFunc(failed, func(a, b proc.ID) int { return cmp.Compare(everyone.Rank(a), everyone.Rank(b)) })
	}
	return failed, c.EndValidate(v)
}

// groupByMembers puts communicators with the same members together.
func groupByMembers(comms []*p2p.Comm) (out []commSet) {
	for _, c := range comms {
		at := slices.IndexFunc(out, func(k commSet) bool {
			return sameMembers(k.comms[0].AllMembers(), c.AllMembers())
		})
		if at < 0 {
			out = append(out, commSet{})
			at = len(out) - 1
		}
		if k := &out[at]; !slices.Contains(k.comms, c) {
			k.comms = append(k.comms, c)
		}
	}
	for _, k := range out {
		slices.SortFunc(k.comms, func(a, b *p2p.Comm) int { return cmp.Compare(a.Context(), b.Context()) })
	}
	return out
}

// sameMembers reports whether two groups have the same members in any order.
func sameMembers(a, b p2p.Group) bool {
	if a.Size() != b.Size() {
		return false
	}
	for rank := range a.Size() {
		if !b.Has(a.Proc(rank)) {
			return false
		}
	}
	return true
}
