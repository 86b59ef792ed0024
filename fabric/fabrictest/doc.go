// Package fabrictest is the conformance suite of the provider contract: the promises of package
// fabric, as cases that every provider passes unchanged.
//
// # Use
//
// A provider's tests pass a [Driver] to [Run]:
//
//	func TestMain(m *testing.M) { fabrictest.Main(m, open) } // real processes
//	func TestConformance(t *testing.T) {
//		fabrictest.Run(t, fabrictest.NewReal(), fabrictest.Budget{Kills: 100})
//	}
//
// The driver owns the processes: [Real] starts copies of the test binary and kills them with
// SIGKILL; the simulator's tests have a driver of their own in which a process is a coroutine and
// time is virtual. A [Case] is a body that every process of a [Job] runs, over an [Env]: its
// provider, its host, its peers, a control line to the driver that bypasses the provider, and a
// pump that waits exactly as the contract demands.
//
// A second variant of a provider, such as one with smaller rings, runs the cases that depend on the
// difference: [Run] takes their names.
//
// # Checks of every case
//
// Contents byte for byte against a seeded generator; order over all classes; the end of a peer,
// reported at most once, only of peers that may end, and with nothing after it. With real processes
// also that each process which ended in order has left no descriptor, no shared or file mapping and
// no goroutine behind, and nothing in /dev/shm.
//
// # Hangs and failures
//
// A job without progress fails with a diagnosis: where each process waits, and its stacks. No case
// asserts an upper bound on time. A failure prints its seed; BANYAN_SEED runs each case with just
// that one. BANYAN_KILLS and BANYAN_WAKEUPS override the [Budget], BANYAN_STALL is the time without
// progress, in seconds, after which a job counts as hanging.
//
// # Limits
//
// It does not measure. It is independent of the names of providers: their fabric.Caps
// describe missing abilities.
//
// Floor 1, for _test files only. It imports packages proc and fabric.
package fabrictest
