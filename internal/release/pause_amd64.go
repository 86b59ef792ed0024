package release

// Pause is a hint to the core that it spins. It is called between two loads of a line that another
// core is about to write, so that the loads do not take the line away from the writer.
func Pause()
