package peers

// spinPause looks at *p until it is v, with a PAUSE between two looks, and gives up after so many.
//
//go:noescape
func spinPause(p *uint64, v uint64, spins int) bool
