//go:build !amd64

package peers

import "sync/atomic"

// spinPause looks at *p until it is v and gives up after so many looks. Go has no hint for spinning
// on this processor.
func spinPause(p *uint64, v uint64, spins int) bool {
	for range spins {
		if atomic.LoadUint64(p) == v {
			return true
		}
	}
	return false
}
