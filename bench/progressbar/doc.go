// Package progressbar shows on a terminal how far a command is that prints
// results line by line.
//
//	bar := progressbar.Start(os.Stderr, "osu bw", 23)
//	defer bar.Stop()
//	out := bar.Lines(os.Stdout, isRow) // each row that is printed is a step
//
// The command that starts the ranks of a job sees their rows pass, so it can show
// the bar; the ranks, whose output is a pipe, need not know of it.
//
// Nothing is drawn where nobody watches (the writer is no terminal, or TERM says
// that it cannot erase), nor in the first two seconds: who prints results then
// has said enough. After that it is drawn once a second, because what is measured
// may need the core on which the drawing is done.
//
// What is printed through [Bar.Lines] and [Bar.Over] never shares a line with the
// bar: it is erased before and drawn again after. What is printed past them may.
//
// # What it does not do
//
// It estimates no time that is left: sizes that double take times that double.
//
// Floor 8: a tool of the harnesses and of the command; it imports nothing of
// Banyan's. All methods may be called concurrently, also on what [Start] returns
// where nobody watches.
package progressbar
