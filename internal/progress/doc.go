// Package progress is the progress engine of a process: it owns the endpoints, polls the providers,
// runs the timers, dispatches arrived frames by class, and is where goroutines wait.
//
// # The lock
//
// One lock guards the engine and the per-process state of p2p, coll and the failure protocols. It
// is held for a round of polls at most; few system calls are made with it: connecting, arming the
// bell, waking a sleeper. A goroutine that waits ([Engine.Wait]) either polls for all goroutines or
// parks. When the polling goroutine has its result, it wakes a parked one to take over. While it
// polls, it releases the lock as soon as another goroutine contends for it.
//
// # Waiting
//
// A wait polls, then yields a bounded number of times, then sleeps. The only place to sleep is
// [fabric.Host].Sleep. The engine announces it (Arm) and polls every provider once more, so that no
// arrival is missed.
//
// # Several providers
//
// A pair of processes uses the first provider that can join it, shared memory first; both sides
// choose the same one (see routes.go). The engine polls the providers beside shared memory less
// often the longer they are silent.
//
// # Asynchronous progress
//
// A message that its receiver copies, or an answer to a peer's request, needs progress here while
// the application computes. After [Engine.StartAsync] a goroutine of the engine sleeps at the bell
// whenever no other does, and answers. Waiting goroutines have precedence: they poll as if it did
// not exist, and park where they would sleep.
//
// # Death
//
// A provider reports evidence of a peer's death. The engine enters the peer in the [ft.View],
// invalidates its connection so that nothing from it is delivered any more (rule E3), and then
// calls the listeners, once. A death reported from elsewhere ([Engine.Report]) goes to the peer's
// provider first and comes back as its evidence, after everything that has arrived.
//
// Floor 3. The engine uses the shared-memory provider by its concrete type, so that a small message
// costs no interface call; it reaches every other provider through the contract.
package progress
