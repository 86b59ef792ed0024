// Package agree is the agreement of a group's living members on a value and on the members that
// have ended, failed or departed. It is the protocol under agree, shrink, validate and uniform
// creation (ULFM 17.3.1).
//
// It is a pure state machine. Its inputs are proposals, frames and ends of processes; its outputs
// are frames, ends to report, and decisions. It has no clock, no I/O and no goroutine, and one
// [Machine] serves all agreements of a process.
//
// # The protocol
//
// The members of a group that have not been agreed to have ended form a tree in their order: a
// binomial one, or a shallow one for processes that share few processors ([Shape]). On several nodes
// each node has one, and the first members of the nodes have one among each other, so one frame for
// each node crosses in either direction. Contributions
// go up, reduced on the way, and the decision comes down: 2(n-1) messages and as many steps as two
// collectives. A member returns as soon as it has the decision. The tree is fixed while an
// agreement runs: a member whose parent has failed contributes to the nearest living ancestor or,
// if there is none, to the lowest living member, which is the root. The next agreement has a tree
// of the same shape without the members that have been agreed to have ended.
//
// Three rules make it safe (the published algorithm needs them and was found to lack them):
//
//   - E1, a contribution is answered. A contribution names the ends that its sender knows, and its
//     receiver handles it only when it knows them as well. Both then see the same parents, so the
//     sender is a child of the receiver, and the decision goes to all children.
//   - E2, a decision is repeated. A member keeps the decision. When an end gives it another parent
//     or further children, it sends them the decision.
//   - E3, failed processes are silent. Once a failure is known nothing from that process is
//     delivered. The machine drops the frames that it has held back; the rest is the transport's
//     part.
//
// Agreement: a root decides when all members that it does not know to have ended have contributed.
// If another root decides later, it has received the contributions of all living members again.
// Each of them contributed, for itself or for those below it, knowing that the first root had
// failed, and without a decision. The later root accepts nothing from a process that it knows to
// have failed, and a living member that has the first decision has sent it to the new root, by E2,
// instead of a contribution.
//
// Termination: when no process fails any more and all frames have arrived, all members see one
// tree. At each of its edges both members have decided or neither has; if none has, the
// contributions reach the root.
//
// The protocol assumes the following. If one process counts a living one as failed, then the
// latter, until it notices and ends, does not act on the former's failure, be it real or not; nor
// do several of them in a circle. Apart from that a falsely suspected process does no harm: its
// actions count as actions before the suspicion. But a process that acts on the failure of a
// process that has decided without it may give others a second decision: see TestMutualSuspicion.
// The detector prevents that: a process that counts another one as failed notifies it first, and on
// one machine it kills first and notifies then.
//
// A process that departs has taken part: the frames that it sent before are handled first, and
// count. Others may decide differently from a departed member only if all members that received its
// decision failed without having forwarded it. An operation that must exclude this makes the
// agreement uniform.
//
// Agreement holds among living members: a member that decided and failed at once may have been the
// only one with that decision. A uniform proposal takes a second round before any member returns,
// with 4(n-1) messages in all; then failed members have not decided anything else either.
//
// # The ballot
//
// If all members share memory ([Boards], [Machine.Use]) and are at most [MaxFlat], agreements
// without failures send no messages. Contributions sent by messages report whether all members below
// can use the memory of the root. If all can, the root makes a ballot, and the decision names it.
// From then on a member writes its proposal into its cell, and a member that sees the cells of all
// others has the decision. A cell is written once in each agreement, so all readers see the same at
// any time.
//
// For the same reason such an agreement is uniform in one round: no member, not even one that fails
// at once, can have decided anything else.
//
// An agreement goes back to messages, at all members alike, if a cell is closed instead of having a
// proposal like the others'. A member closes its own cell if it knows of an end that has not been
// agreed on, has an unacknowledged failure, or proposes a value that is too long. Two rules make
// that safe:
//
//   - E4, the cells of ended members are closed. A member that counts another one as ended closes
//     its cell before it uses messages. Either the other one has written its cell before, and its
//     proposal counts for all; or it never will in this agreement, and no member decides from the
//     ballot. Without this rule one member may see the last proposal and decide, while others leave
//     that member out.
//   - E5, sleeping members are woken. A member announces in its cell that it is about to sleep, and
//     looks once more. A member that has seen the agreement continue, by a decision or a closed
//     cell, sends a wake frame to its sleeping neighbours in the tree; a woken member does the
//     same. Without this rule a member whose cell was the last but one sleeps forever.
//
// In a ballot of several sections a member lays the sum of its section once it has seen all of that section
// post. It stands for cells that do not change any more, so it decides nothing that the cells would not.
// If proposals in a section differ there is no sum.
//
// A ballot outlives its owner, since the others have mapped it, and is used as long as the group is
// open: after an agreement by messages the next one uses the ballot again.
//
// # The result
//
// Members agree on a value of up to [MaxValue] bytes, reduced by an [Op]. If a member fails after
// its contribution, the members below it contribute again to its successor, so the operation must
// be idempotent: AND, OR, minimum, maximum and the like, not sums.
//
// They also agree on the members that have ended: at least all that a contributor knew of when it
// contributed. The machine holds a decision back until all of them are in this process's view. A
// contribution also names the ended members that its sender has not acknowledged.
//
// Some operations yield to others: see Proposal.Yields and Proposal.Refuses.
//
// # Memory
//
// A group's state is its last decision and one running agreement. When all members have entered an
// agreement, all have the decision before it. Decisions for a group that is not open are dropped.
// Contributions to it are held, up to a bound for each peer, since it may be about to be opened.
//
// Floor 1. It imports no package above it but proc, varint and board.
package agree
