// Package progress is the one thing in a process that moves: it owns the
// endpoints, polls the providers, runs the timers, hands arrived frames to
// their class, and is where goroutines wait.
//
// # The lock, and who progresses
//
// One lock guards the engine and everything that p2p, coll and the failure
// protocols keep per process. It is held for a round of polls at most; system
// calls with it are seldom: connecting, arming the bell, waking a sleeper. A
// goroutine that waits ([Engine.Wait]) either becomes the one that progresses,
// and then polls for all, or parks; when the progressing goroutine has what it
// waited for, it wakes a parked one to take over. While it polls it lets others
// have the lock as soon as one asks.
//
// # Waiting
//
// Poll, then yield a bounded number of times, then sleep. The sleep is in one
// place, [fabric.Host].Sleep, after announcing it (Arm) and looking once more
// at every provider, so that no arrival is missed.
//
// # Several providers
//
// A pair of processes is joined by the first provider that can, shared memory before
// the others; both sides come to the same one (routes.go has the rule). Beside shared
// memory the others are polled less the longer they are silent.
//
// # Asynchronous progress
//
// A message that is copied by its receiver, an answer to a peer's question: they
// need progress here, and the application may compute for long. After
// [Engine.Attend] a goroutine of the engine sleeps at the bell whenever no other
// does, and answers. It stands back for those who wait: they poll as if it were
// not there, and park where they would sleep.
//
// # Death
//
// A provider's evidence becomes knowledge here: the peer is entered in the
// [ft.View], cut off at its connection so that nothing from it is delivered any
// more (rule E3), and then the listeners are told, once. A death that is known from
// elsewhere ([Engine.Report]) goes to the peer's provider first and comes back as
// its evidence, after what has arrived.
//
// Floor 3. It knows the shared-memory provider by its concrete type, so that a
// small message costs no interface call; every other provider is reached
// through the contract.
package progress
