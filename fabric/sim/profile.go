package sim

import "github.com/banyan-hpc/banyan/fabric"

// DefaultConfig is a cluster of n processes, 16 to a node, 32 nodes to a switch: a measured machine
// inside a node, one InfiniBand NDR port for each process between nodes. Seed 0, no spikes, no
// trace, gets off.
//
// "Measured" numbers come from a 2-core Zen 5 virtual machine with near cores; "assumed" ones are
// round numbers in the range that such clusters report, to be replaced when one has been measured.
func DefaultConfig(n int) Config {
	return Config{
		Procs:    n,
		Topology: Topology{ProcsPerNode: 16, NodesPerSwitch: 32},
		Links: [numLinks]Link{
			fabric.LinkSelf:   selfLink,
			fabric.LinkNode:   nodeLink,
			fabric.LinkSwitch: switchLink,
			fabric.LinkAcross: acrossLink,
		},
		CPU: CPU{
			// Measured: copy out of mapped memory, 54 to 89 GB/s below 256 KB.
			PerByte: 15,
			// Assumed: a few loads that hit the first-level cache.
			EmptyPoll: 10 * Nanosecond,
			// Assumed: one sched_yield without another runnable thread.
			Yield: 200 * Nanosecond,
		},
		// The following values are choices, not measurements: small enough that back-pressure,
		// fragments and rendezvous occur in small tests.
		Credits:  64,
		Inline:   48,
		MaxFrame: 8192,
		Eager:    16384,
		// From the end of a connection on a node (measured 23 µs by robust
		// futex) to a socket's end of file (measured 440 µs at p99).
		Detection:   Detection{Min: 20 * Microsecond, Max: 500 * Microsecond},
		LossAtDeath: 0.5,
		MaxTime:     3600 * fabric.Time(Second/Nanosecond),
		MaxSteps:    1_000_000_000, // a few minutes of this machine
	}
}

var (
	// A process to itself: a copy, nothing on a wire. Assumed.
	selfLink = Link{Latency: 5 * Nanosecond, SendOverhead: 10 * Nanosecond, RecvOverhead: 10 * Nanosecond,
		Gap: 5 * Nanosecond, GapPerByte: 15}

	// Shared memory. L measured: bare cache-line ping-pong, 56 ns one way;
	// o_send + L + o_recv = 86 ns: measured for the matching prototype (81-88).
	// g: 40 ns is MPICH's measured 24.5 M messages/s. G: 32 GB/s, measured for
	// single-copy transfers of 1 MB (UCX 34, Open MPI 33).
	nodeLink = Link{Latency: 56 * Nanosecond, SendOverhead: 10 * Nanosecond, RecvOverhead: 20 * Nanosecond,
		Gap: 40 * Nanosecond, GapPerByte: 31}

	// One switch. o_send + L + o_recv = 1.0 µs, assumed for small messages
	// between present adapters (8-byte MPI latency). g: 10 M messages/s from
	// one core, assumed. G: 400 Gb/s = 50 GB/s, the port rate of ConnectX-7
	// (docs.nvidia.com/networking/display/ConnectX7VPI).
	switchLink = Link{Latency: 800 * Nanosecond, SendOverhead: 100 * Nanosecond, RecvOverhead: 100 * Nanosecond,
		Gap: 100 * Nanosecond, GapPerByte: 20}

	// Three switches instead of one: two more hops at 200 ns (switch and
	// cable), assumed.
	acrossLink = Link{Latency: 1200 * Nanosecond, SendOverhead: 100 * Nanosecond, RecvOverhead: 100 * Nanosecond,
		Gap: 100 * Nanosecond, GapPerByte: 20}
)
