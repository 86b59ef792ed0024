// Package progressbar shows on a terminal the progress of a command that prints results line by
// line. The bar is that of github.com/schollz/progressbar; this package adds when it is drawn.
//
//	bar := progressbar.Start(os.Stderr, "osu bw", 23)
//	defer bar.Stop()
//	out := bar.Lines(os.Stdout, isRow) // each row that is printed is a step
//
// The command that starts the ranks of a job prints their rows, so it shows the bar; the ranks
// write to a pipe and do not know of it.
//
// Nothing is drawn without a terminal (or with a TERM that cannot erase a line), nor in the first
// two seconds. Later it is drawn once a second, because the measured processes may need the core.
//
// A bar that is longer than a line of the terminal loses words first.
//
// Output through [Bar.Lines] and [Bar.Over] never shares a line with the bar.
//
// Floor 8: a tool of the harnesses and of the command; of Banyan's it imports bench/table alone. All
// methods may be called concurrently.
package progressbar
