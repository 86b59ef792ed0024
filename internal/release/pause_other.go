//go:build !amd64

package release

// Pause does nothing here.
func Pause() {}
