//go:build !amd64

package vector

var loops map[key]Loop
