package agree

// Operations that all members are to leave with the same outcome end with an agreement. A member that has met an
// error elsewhere may never come to it: it recovers, with an agreement of its own, or does
// nothing more. So proposals of such operations yield. Where one meets another kind, those that proposed
// it learn that they were unlike, which is their common outcome, and the other goes to the
// next agreement, before what its proposer has queued behind it. And a member that is sure to come no more refuses,
// once: whoever is told of that refuses as well, before it could wait for that member again.

// yielding gives the flags of a proposal.
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
