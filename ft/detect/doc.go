// Package detect decides who has died: a state machine for heartbeats,
// suspicion, the propagation of deaths and the rule for partitions, one for each
// process. It has no goroutine, clock or I/O: a driver feeds it and does what it
// asks.
//
//	m := detect.New(cfg, host.Now())
//	for each input:
//		m.Tick(now) // at m.Due(), or m.Heard, m.Died, m.Departed, m.Missing, m.Expelled
//		for a, ok := m.Next(); ok; a, ok = m.Next() {
//			switch a.Kind {
//			case detect.Send:   // to a.To, class detect; dropped if there is no credit
//			case detect.Report: // engine.Report(a.Peer, a.Cause), which calls m.Died
//			case detect.Die:    // end the process with a.Err
//			}
//		}
//
// The driver reads what has arrived before it calls Tick. Nothing else is asked
// of it: Sends may be lost, inputs may come late.
//
// # Heartbeats
//
// The processes 0 … n-1 form a ring. Gone is who has departed or died, as far as
// is known here. Every Period a process sends a Beat to two: the first at or
// behind distance 1 that is not gone, and (if n > 3) the first at or behind
// distance n/2, marked as far. It watches the first before it that is not gone,
// and everybody who sends it a far Beat. So a block of silent neighbours, such as
// a host, is watched from outside as long as it is less than half the ring.
// A new observer or a new predecessor is granted a Timeout, which at the start
// begins with New; later on new receivers get a Beat at once. Whatever comes from a process is a sign of its life.
//
// # Suspicion
//
// Who was not heard for Timeout - 2 Periods (at least 1.5 Periods) is suspected,
// and the window up to Timeout begins. All that are not gone, the suspect too, get
// an Ask that names the suspects (32 in one frame). Everybody answers with Answer
// and the round's number. Who itself heard a suspect within half a Period vouches for it;
// who knows it gone sends that (a loose Tell); others Probe it, which it answers
// with Here, and Vouch once anything comes from it. The suspicion ends with a
// Vouch or a frame of the suspect. After each half of the window those that have not
// answered are asked again, and are watched as if heard last when they were
// asked, until they are heard. The verdict falls when the silence has reached Timeout and
// the window has passed since the Ask: all whose time has come are dead, of cause
// Heartbeat. A single silent process or host is reported within Timeout + 2
// Periods; any set of processes within 2 Timeouts + 4 Periods. The difference are those
// of a set whose two observers are silent with them: how long they have been, nobody
// alive knows when they do not answer, and to judge them with the suspects would
// kill who was held up for no longer than the window.
//
// # The own lateness
//
// All silences are measured with a clock of the machine's own. An input that comes
// more than Period/8 after Due finds a process that was held up: that clock stands
// still for as long as it was late. After more than Period/2 all suspects are asked
// anew, since answers may lie unread.
//
// # Partitions
//
// By the rule Majority a verdict is passed only by a process that goes on itself:
// it and those who answered since the last of the Asks concerned are more than
// half of those counted, or just half and hold the lowest id counted. Counted are
// all of the job, except who has departed or is proven dead. Dead by silence
// remain counted: otherwise two sides of successive partitions, of which one has
// not heard of an earlier verdict, could both be majorities. As only answers count, a process that hears others without being heard
// has no majority. Of two processes the one with the lower id survives the other's
// silence, and not the other way round.
//
// Two sides can both go on only if one of those who joined in the one's verdict has
// since died with proof or departed, and the other side passed its own knowing of that
// end and not of the verdict: the network is cut a second time, elsewhere, or a process is stopped, around that end.
// The tests look for schedules that end so otherwise. No rule on what a process knows by itself closes this hole, as long as the proven dead do
// not count: to the other side it is the same whether who was silent has passed a verdict with the
// help of the dead, when it must not go on, or has fallen silent for good, when it must. Counting
// them until a majority of the last count has agreed that they are dead would, at the price that
// who is left when more than half crash at once does not outlive a silence; that is for
// agreement to do.
//
// Who has no majority when a verdict is due waits a Timeout more for answers: where all
// are busy and connections are yet to be made, a window is short. Who has one after
// all asks anew first; who has none by then asks for Die.
//
// By the rule Off there is no count, and both sides go on.
//
// Who is Unreachable (Died) is not heard and lives. The others say so; where there is nobody
// else left, no verdict is passed on it.
//
// A process that gets no core is silent, too. Of one on the same machine the kernel
// knows whether it runs or has been stopped, and the driver says so with [Machine.Seen] before
// the verdict: it counts as an answer. Who is asked by others says so too ([Machine.Asked]), and
// vouches for those of its machine.
//
// # Who counts as dead must end
//
// Who passes a verdict, or is a neighbour of whom it concerns, tells it so at once
// with a loose Tell, before the Report has it cut off: it may hear without being
// heard. Nothing from the dead is taken in. A Beat or an Ask of theirs is answered with a
// loose Tell that names the sender; providers refuse them, which the driver says
// with Expelled. Who learns in any way that it counts as dead asks for Die, unless
// who says so is dead or unreachable here.
//
// # Propagation
//
// Every process keeps a log of the ends that it knows, in the order in which it
// learned of them, each with its cause; the first word of an end stands. Its
// neighbours are, for each power of two d up to n/2, the first not gone at or
// behind distance d, and the same before it: a binomial graph, in which the ring
// is whole. The log is a stream to each neighbour: a Tell has up to 128 entries and
// their position, the receiver enters what is new, reports it, and acknowledges
// the positions. The sender moves on only over what is acknowledged without a gap, so
// the receiver keeps no state. Entries learned from a neighbour are not told to
// it, if they come next; and if a Tell has only what is under way the other way, that is
// the acknowledgement.
//
// A new death is told at once, and all that Next finds together travels together. Such a
// Send is Patient: a driver may let it wait where it would have to connect to who learns of deaths from the kernel.
// What was not acknowledged within half a Period is told again with the next
// heartbeats, and so are departures told, which are in no hurry. A neighbour that
// takes the place of one that is gone gets the log from its beginning: a death
// survives whoever passed it on. Without other faults all of 512 know a death after
// 6 hops.
//
// # Frames
//
// Kind (one byte), then fields; numbers are unsigned varints, as short as possible.
//
//	1 Beat    flags (1: far)
//	2 Tell    flags (1: again, 2: loose) position count (id kind [code])…
//	3 Ack     from to           positions in the receiver's log, from < to
//	4 Ask     round count id…   ascending
//	5 Answer  round
//	6 Probe
//	7 Here
//	8 Vouch   id
//
// The code of a cause is a zigzag varint, present for Exited and Signaled.
// Unreachable is no end, and never told. A decoder refuses everything else: bytes left over, ids outside the
// job or twice, counts of 0, what names its sender, positions that were never told. No frame is longer than [MaxPayload].
//
// # Cost
//
// Memory is O(ends known + log n), and O(n) while somebody is suspected. A period
// costs two frames and O(log n) steps; a death two frames for each pair of
// neighbours; a suspicion O(n) frames at the observer.
//
// Floor 1, above fabric, of which it uses the unit of time, and below everything
// that does I/O.
package detect
