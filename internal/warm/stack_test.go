package warm

import (
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// deep uses 2 KiB of stack.
//
//go:noinline
func deep() byte {
	var frame [2 << 10]byte
	runtime.KeepAlive(&frame)
	return frame[0]
}

// moved reports, after collections in between, whether the stack of this goroutine is at another address when deep
// has run.
func moved() bool {
	var here byte
	before := uintptr(unsafe.Pointer(&here))
	asked, over := make(chan struct{}), make(chan struct{})
	go func() {
		<-asked
		for range 4 {
			runtime.GC() // which shrinks the stacks of goroutines that wait
		}
		close(over)
	}()
	asked <- struct{}{}
	<-over
	deep()
	return uintptr(unsafe.Pointer(&here)) != before
}

func TestStackStaysInPlace(t *testing.T) {
	results := make(chan bool)
	go Stack(func() { results <- moved() })
	require.False(t, <-results)
}
