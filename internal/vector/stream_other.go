//go:build !amd64

package vector

// Stream copies len(from) bytes to the beginning of to.
func Stream(to, from []byte) { copy(to, from) }

// Take copies len(from) bytes to the beginning of to.
func Take(to, from []byte) { copy(to, from) }
