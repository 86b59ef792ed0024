// Package detect is the failure detector: one state machine per process for heartbeats, suspicion,
// the dissemination of failures and the rule for partitions. It has no goroutine, clock or I/O: a
// driver feeds it and performs its actions.
//
//	m := detect.New(cfg, host.Now())
//	for each input:
//		m.Tick(now) // at m.Due(), or m.Receive, m.Died, m.Departed, m.Missing, m.Fenced
//		for a, ok := m.Next(); ok; a, ok = m.Next() {
//			switch a.Kind {
//			case detect.Send:   // to a.To, class detect; dropped if there is no credit
//			case detect.Report: // engine.Report(a.Peer, a.Cause), which calls m.Died
//			case detect.Die:    // end the process with a.Err
//			}
//		}
//
// The driver handles received frames before it calls Tick. There are no other requirements: Sends
// may be lost, inputs may be late.
//
// # Heartbeats
//
// The processes 0 … n-1 form a ring. An ended process has departed or failed, as far as this
// process knows. Every Period a process sends a Heartbeat to two others: the first living one from
// distance 1 on, and (if n > 3) the first living one from distance n/2 on, marked as far. It
// watches the first living process before it, and every process that sends it a far Heartbeat. So a
// block of silent neighbours, such as a host, is watched from outside as long as it is less than
// half of the ring. A new predecessor or a new process to watch has a full Timeout, which starts
// with New; later, new receivers get a Heartbeat at once. Every frame from a process is a sign of
// life.
//
// # Suspicion
//
// A process that has been silent for Timeout - 2 Periods (at least 1.5 Periods) is suspected, and
// the window up to Timeout starts. All living processes, the suspect included, get a Query that
// names the suspects (32 in a frame). Each one replies with the round's number. If it has itself
// heard a suspect within half a Period it confirms it as Alive; if it knows that the suspect has
// ended it sends that (a direct Update); otherwise it sends the suspect a Ping, which the suspect
// answers with a PingAck, and an Alive once any frame of the suspect arrives. This is the indirect
// probe of SWIM (Das, Gupta & Motivala, 2002). An Alive or a frame of the suspect ends the
// suspicion. After each half of the window the processes that have not replied get the Query again,
// and are watched as if last heard when they were first asked. The verdict is due when the silence
// has reached Timeout and the window has passed since the Query: all suspects whose time has come
// have failed, with cause Heartbeat.
//
// A single silent process or host is reported within Timeout + 2 Periods; any set of processes
// within 2 Timeouts + 4 Periods. The latter applies to processes whose two observers are silent
// with them: no living process knows the duration of their silence, and a verdict together with the
// suspects would kill a process that was only held up for less than the window.
//
// # Lateness of this process
//
// Silences are measured with a clock of the machine's own. An input more than Period/8 after Due
// shows that this process did not run; the clock stands still for that time. After more than
// Period/2 all suspects are queried again, since replies may be unread.
//
// # Partitions
//
// By the rule Majority only a process that goes on itself passes a verdict: it and the processes
// that replied since the last Query concerned are more than half of the counted ones, or exactly
// half and include the lowest counted id. All processes of the job are counted except those that
// have departed or provably failed. Processes that failed by silence remain counted: otherwise two
// sides of successive partitions, of which one has not learned of an earlier verdict, could both be
// majorities. Since only replies count, a process that hears others without being heard has no
// majority. Of two processes the one with the lower id survives the other's silence, and not the
// other way round.
//
// Both sides can go on only if a process that supported one side's verdict has since provably
// failed or departed, and the other side passed its verdict knowing of that end but not of the
// first verdict: the network is cut a second time, elsewhere, or a process is stopped, around that
// end. The tests search for other schedules with this result. No rule on a process's own knowledge
// closes this hole as long as provably failed processes do not count: the other side cannot
// distinguish whether the silent processes have passed a verdict with the support of the failed
// ones, in which case it must not go on, or have fallen silent for good, in which case it must.
// Counting the failed ones until a majority of the last count has agreed on their failure would
// close it; but then the survivors of a crash of more than half could not survive a silence. That
// is left to agreement.
//
// A process without a majority at a due verdict waits a Timeout more for replies: where all are
// busy and connections have yet to be made, a window is short. If it gets a majority it queries
// again first; if not, it requests Die.
//
// By the rule Off there is no count, and both sides go on.
//
// An Unreachable process (Died) is silent and alive, and the others confirm it; if no others
// remain, no verdict is passed on it.
//
// A process without a core is silent too. The kernel knows whether a process of the same machine
// runs or has been stopped. The driver passes that on with [Machine.Running] before the verdict; it
// counts as a reply. A queried process does the same ([Machine.Queried]), and confirms processes of
// its machine.
//
// # A condemned process must end
//
// A process that passes a verdict, and each neighbour of the condemned one, notifies that one at
// once with a direct Update, before the Report cuts it off: it may receive without being heard.
// Frames of failed processes are ignored, but a Heartbeat or a Query from one is answered with a
// direct Update that names it; providers refuse it, which the driver reports with Fenced. A process
// that learns in any way that it counts as failed requests Die, unless its informant has failed or
// is unreachable here.
//
// # Dissemination
//
// Every process keeps a log of the ends that it knows, in the order in which it learned of them,
// each with its cause; the first report of an end stands. For each power of two d up to n/2 its
// neighbours are the first living processes from distance d on in both directions: a binomial graph
// that contains the ring. The log is a stream to each neighbour: an Update has up to 128 entries
// and their position; the receiver records the new ones, reports them, and acknowledges the
// positions. The sender advances only over acknowledged positions without a gap, so the receiver
// keeps no state. Entries learned from a neighbour are not sent to it if they come next. An Update
// with only entries that are under way in the other direction acknowledges them.
//
// A new failure is sent at once, and all failures that Next finds together share a frame. Such a
// Send is Patient: a driver may delay it if it needs a connection to a process that learns of
// failures from the kernel. An Update that has not been acknowledged within half a Period is
// repeated with the next heartbeats; departures are sent then too, since they are not urgent. A
// neighbour that replaces an ended one gets the log from its beginning: a failure is disseminated
// even if the process that forwarded it fails. Without other faults 512 processes know of a failure
// after 6 hops.
//
// # Frames
//
// A frame is its kind (one byte) and fields; numbers are unsigned varints in their shortest form.
//
//	1 Heartbeat flags (1: far)
//	2 Update    flags (1: again, 2: direct) position count (id kind [code])…
//	3 Ack       from to           positions in the receiver's log, from < to
//	4 Query     round count id…   ascending
//	5 Reply     round
//	6 Ping
//	7 PingAck
//	8 Alive     id
//
// The code of a cause is a zigzag varint, present for Exited and Signaled. Unreachable is not an
// end and is never sent. A decoder refuses everything else: trailing bytes, ids outside the job or
// twice, counts of 0, a frame that names its sender, positions that were never sent. No frame is
// longer than [MaxPayload].
//
// # Cost
//
// Memory is O(known ends + log n), and O(n) during a suspicion. A period costs two frames and O(log
// n) steps; a failure two frames for each pair of neighbours; a suspicion O(n) frames at the
// observer.
//
// Floor 1, above fabric, of which it uses the unit of time, and below everything that does I/O.
package detect
