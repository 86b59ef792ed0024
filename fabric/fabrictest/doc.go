// Package fabrictest is the conformance suite of the provider contract: what
// package fabric promises, as cases that every provider passes unchanged.
//
// # How it is used
//
// A provider's tests hand a [Driver] to [Run]:
//
//	func TestMain(m *testing.M) { fabrictest.Main(m, open) } // real processes
//	func TestConformance(t *testing.T) {
//		fabrictest.Run(t, fabrictest.NewReal(), fabrictest.Budget{Kills: 100})
//	}
//
// The driver owns the processes: [Real] starts copies of the test binary and
// kills them with SIGKILL, the simulator's tests bring a driver of their own
// in which a process is a coroutine and time is virtual. A [Case] is a body
// that every process of a [Job] runs, over an [Env]: its provider, its host,
// its peers, a line to the driver that does not pass through the provider, and
// a pump that waits exactly as the contract demands.
//
// # What it checks always
//
// In every case, whatever else it is about: contents byte for byte against a
// seeded generator, order over all classes, the end of a peer reported at most
// once and only of peers that may end, nothing after it; and, with real
// processes, that each process which ended in order has left no descriptor, no
// shared or file mapping and no goroutine behind, and nothing in /dev/shm.
//
// # Hanging, and failing again
//
// A job that makes no progress is a failure with a diagnosis: where each process
// waits, and its stacks. No case asserts an upper bound on time. A failure
// prints its seed; BANYAN_SEED runs each case with just that one. BANYAN_KILLS
// and BANYAN_WAKEUPS override the [Budget], BANYAN_STALL is the time without
// progress, in seconds, after which a job counts as hanging.
//
// # What it does not do
//
// It does not measure. It does not know providers by name: what one cannot do
// is read from its fabric.Caps.
//
// Floor 1, for _test files only. It imports packages proc and fabric.
package fabrictest
