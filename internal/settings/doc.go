// Package settings holds the numbers that a user may change without changing a
// program: one table of knobs, and the places from which their values come.
//
//	set, err := settings.Load(settings.Here())
//	near := set.Int(settings.EagerNear)
//	fmt.Println(set.Origin(settings.EagerNear)) // default, or tune.conf:7, or BANYAN_…
//
// From strong to weak: an option in the program ([Set.Override]), the environment
// (BANYAN_ and the knob's name in capitals), the user's file, the machine's
// file, the default of the layer that uses the value. BANYAN_TUNING names another
// file in the place of both, or is the word none.
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
// What stands above the first part holds everywhere, a part only on the
// machine that its head names ([Machine]), where it counts before what holds
// everywhere. So one file in a home directory that many kinds of machines share has the
// measurements of all, and none is used where it was not made. Machines are told
// apart by architecture, processor and the number of its CPUs, on which thresholds
// depend; not by the kernel's version, which changes with every update.
//
// What is wrong in a file or in the environment is an error that names the place
// and what is possible: a threshold that is silently not used costs more than
// a program that does not start.
//
// # What it does not do
//
// It does not measure: ftbench tune does. It knows no way to change a value while
// a job runs. The values of a job's ranks need not agree: each knob governs what one
// process does by itself.
//
// Floor 6: it states defaults and bounds of the layers below, and the root package
// hands them the values. Everything is for one goroutine at a time.
package settings
