//go:build !race

package release

// Store64 stores v at p; every earlier write of this goroutine is visible to any goroutine that
// loads v atomically. It does not order later loads.
func Store64(p *uint64, v uint64) { *p = v }
