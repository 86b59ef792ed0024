package flusher

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Waiting frames are sent although the caller does nothing, and not after End.
func TestFlusher(t *testing.T) {
	waiting, sent := 0, make(chan int)
	f := New(false, func() {
		if waiting > 0 {
			sent <- waiting
			waiting = 0
		}
	})
	for i := 1; i <= 100; i++ {
		f.Lock()
		waiting = i
		f.Unlock()
		f.Begin()
		require.True(t, f.Waits())
		require.Equal(t, i, <-sent)
		f.End()
		require.False(t, f.Waits())
	}
	f.Close()
	f.Begin()
	f.Lock() // it is free
	waiting = 1
	f.Unlock()
	f.End()
	f.Close()
	require.Equal(t, 1, waiting)
}
