package flusher

import (
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// Waiting frames are sent although the caller does nothing, and not after End.
func TestFlusher(t *testing.T) {
	waiting, sent := 0, make(chan int)
	f := New(false, func() bool {
		if waiting > 0 {
			sent <- waiting
			waiting = 0
		}
		return true
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

// What the socket does not accept is sent later, and so is what joins a series that has been sent; what has been sent is
// not sent again.
func TestFlusherSendsTheRest(t *testing.T) {
	const refused = 3
	var calls atomic.Int32
	f := New(false, func() bool { return calls.Add(1) > refused })
	f.Begin()
	for calls.Load() <= refused {
		runtime.Gosched()
	}
	for i := range int32(100) { // it has gone to sleep or not
		for range i * 1000 {
			runtime.Gosched()
		}
		require.Equal(t, refused+1+i, calls.Load())
		f.Lock()
		f.Joined()
		for calls.Load() == refused+1+i {
			runtime.Gosched()
		}
	}
	f.End()
	f.Close()
	require.EqualValues(t, refused+101, calls.Load())
}

// A goroutine that waits for a processor gets the flusher's.
func TestFlusherYields(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	f := New(false, nil)
	f.Close()  // its own goroutine
	often := 0 // Go takes the next goroutine from elsewhere now and then, and preempts after 10 ms
	for range 100 {
		var ran atomic.Bool
		go ran.Store(true)
		go ran.Store(true)
		if f.rest(hold); ran.Load() {
			often++
		}
	}
	require.Greater(t, often, 50)
}
