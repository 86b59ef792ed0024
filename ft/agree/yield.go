package agree

// An operation with the same outcome at all members ends with an agreement. A member that has met
// an error elsewhere may never reach it: it recovers, with an agreement of its own, or does nothing
// more. So proposals of such operations yield. If one meets another kind, the members that proposed
// it get a mismatch, which is their common outcome, and the other kind moves to the next agreement,
// ahead of its proposer's queue. A member that will never reach the operation refuses,
// once; the members that learn of it refuse as well, before they could wait for that member again.

// yielding returns the flags of a proposal.
func (p *Proposal) yielding() (flags byte) {
	if p.Yields || p.Refuses {
		flags |= flagYields
	}
	if p.Refuses {
		flags |= flagRefused
	}
	return flags
}

// yielded reports whether this process's proposal met others that yield to it, and so has not been
// decided.
func (i *instance) yielded() bool {
	const met = flagMismatch | flagYields
	return i.gathered.flags&met == met && i.mine.yielding() == 0 && !i.mine.confirm
}
