package release

// Pause tells the core that it spins: between two looks at a line that another
// core is about to write, so that the look does not take the line away from the
// writer.
func Pause()
