// Package settings holds the numbers that a user may change without changing a program: one table
// of knobs, and the sources of their values.
//
//	set, err := settings.Load(settings.Here())
//	near := set.Int(settings.EagerNear)
//	fmt.Println(set.Origin(settings.EagerNear)) // default, or tune.conf:7, or BANYAN_…
//
// From strong to weak: an option in the program ([Set.Override]), the environment (BANYAN_ and the
// knob's name in capitals), the user's file, the machine's file, the default of the layer that uses
// the value. BANYAN_TUNING names another file in the place of both, or is the word none.
//
// # Files
//
// A line is empty, a comment (#), "knob = value", or the head of a part:
//
//	unexpected = 4m
//
//	[amd64 AMD EPYC 25/17 2 CPUs]
//	shm.eager.near = 24k     # measured there
//
// Lines above the first part apply everywhere. A part applies only on the machine that its head
// names ([Machine]), and precedes the lines that apply everywhere. So one file in a home directory
// that many kinds of machines share has the measurements of all, and each is used only on its
// machine. Architecture, processor and number of CPUs identify a machine: thresholds depend on
// these. The kernel's version does not, since it changes with every update.
//
// A mistake in a file or in the environment is an error that names the place and the possible
// values: a threshold that is silently not used costs more than a program that does not start.
//
// # Limits
//
// It does not measure: ftbench tune does. It does not change values while a job runs. The values of
// a job's ranks need not agree: each knob governs one process.
//
// Floor 6: it contains defaults and bounds of the layers below, and the root package passes the
// values to them. Everything is for one goroutine at a time.
package settings
