// Package agree is the agreement of a group's living members on a value and on who has
// failed: the engine under agree, shrink, validate and uniform creation (ULFM
// 17.3.1, S1-33 to S1-42, S2-5).
//
// It is a pure state machine: proposals, frames, deaths in; frames, deaths to
// report, decisions out. It has no clock, no I/O and no goroutine, and one [Machine]
// serves all agreements of a process.
//
// # The protocol
//
// The members of a [Line] that are not agreed to be gone form a tree, by their order: a binomial one, or,
// where they take turns on few processors, a shallow one ([Shape]).
// Contributions go up it, folded on the way, and the decision comes down: 2(n-1)
// messages and as many steps as two collectives. Who has the decision returns at once. The tree is
// not changed while an agreement runs: a member whose parent has died goes to the nearest living ancestor, or, if
// there is none, to the lowest living member, which is the root. The next agreement has a
// tree without those who have been agreed to be gone, of the same shape as if they had never been there.
//
// What makes it safe (the names are those of the rules that the published algorithm
// needs and was found to lack):
//
//   - E1, whoever contributed is answered. A contribution names the deaths that its sender knows, and it is looked at
//     only when its receiver knows them as well. Both then see the same parents, so the sender is
//     a child here, and the decision goes to all children.
//   - E2, the decided answer. A decision is kept; when a death gives its owner another parent or
//     further children, it is sent to them.
//   - E3, the dead are silent. From the moment in which a death is known nothing from that
//     process is delivered. The machine sees to that for what it has kept back; the
//     rest is the transport's part.
//
// Why they agree: a root decides when all that it does not know to be gone have contributed. If another root comes to decide
// later it has taken in the contributions of all again, but those of the dead; each of these members gave its own, or that of those below it, knowing
// that the first root is dead, and with no decision then. From a process that it knows to be dead it takes none, and whoever
// lives and has the first decision has sent it to the new root, by E2, in place of a contribution.
//
// Why they end: when nobody dies any more and everything has been heard, all see one tree. Along each of its edges both ends have
// decided, or neither; if nobody has, the contributions reach the root.
//
// What is taken for granted: of two processes of which one is counted as dead by the other while it lives (until it learns that, and ends) the
// one does not act on the other's death, be it true or not; nor do more of them in a circle. Otherwise such a process does no harm: all that it
// does counts as done before anybody knew. But one that acts on the death of somebody who has decided without it may
// give others a second decision: see TestMutualSuspicion. Keeping that from happening is the detector's part: who
// counts a process as dead says so to it first, and on one machine it kills first and tells then.
//
// Who departs has had its say: what it sent before is heard first, and counts. Others may decide something else than the departed did only
// if all whom it told die without having passed it on. Whom that concerns makes the agreement uniform.
//
// Agreement holds among those who live: somebody who decided and died at once may have been
// the only one with that decision. A uniform proposal goes round once more before
// anybody returns, with 4(n-1) messages: then also the dead have decided nothing
// else (S0-47).
//
// # The board
//
// Where all members share memory ([Boards], [Machine.Use]) and are at most [MaxFlat], agreements in which nothing is wrong take no
// messages. Contributions to one that goes by messages say whether all below can use the memory of the root; if all
// can, the root makes a board and the decision names it. From then on a member posts its proposal in its cell, and who sees the
// cells of all (but of those agreed to be gone) has the decision: a cell is written once in each agreement, so everybody who looks, then
// or later, sees the same.
//
// For the same reason the agreement is uniform in one round: nobody, who dies at once included, can have decided anything else.
//
// An agreement goes by messages after all, for all members alike, if a cell says so instead of having a proposal that is like
// the others: it is sealed. A member seals its own where it knows of an end that is not agreed on, has something to be acknowledged, or has a value that is
// too long. And:
//
//   - E4, the dead are sealed. Who takes a member for dead seals its cell before it goes on by messages. Either the
//     member has posted before, and its proposal counts for all; or it never will in this agreement, and nobody decides
//     from the board. Without the seal somebody may see the last post and decide, while others leave the
//     member out.
//   - E5, who sleeps is woken. A member says in its cell that it is about to sleep, and looks once more. Who has seen
//     the agreement go on, by a decision or by a seal, sends a wake frame to those of its neighbours in the tree that sleep there;
//     so does who has woken, to its own. Without it somebody whose cell was the last but one sleeps for ever.
//
// A board outlives its owner, since the others have it mapped, and it is the line's for as long as that is open: after an agreement by messages the
// next one is on the board again.
//
// # What is agreed on
//
// A value of up to [MaxValue] bytes, folded by an [Op]. If a member dies after it has contributed,
// those below it contribute again to its successor, so operations must give the same
// when an operand is met twice: AND, OR, minimum, maximum and the like, not sums.
//
// And the members that are gone: at least all that a contributor knew of when it
// contributed. Who gets a decision knows them all: the machine keeps it back until
// they are in the process's view. Each contribution also says which of the gone its
// sender has not acknowledged.
//
// Some operations yield to others: see Proposal.Yields and Proposal.Refuses.
//
// # Memory
//
// A line keeps its last decision and one agreement that runs. That everybody has entered an agreement tells
// that everybody has the decision before it. Decisions for a line that is not open are dropped; contributions to it are kept, up
// to a bound for each peer, since it may be about to be opened.
//
// Floor 1. It imports package proc only.
package agree
