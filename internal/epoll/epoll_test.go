package epoll

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func event(t *testing.T) int {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Close(fd)) })
	return fd
}

func signal(t *testing.T, fd int) {
	_, err := unix.Write(fd, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	require.NoError(t, err)
}

// Events are reported with their keys, before and during a wait; Close ends that.
func TestWait(t *testing.T) {
	s, err := New("some events")
	require.NoError(t, err)
	a, b := event(t), event(t)
	require.NoError(t, s.Add(a, 7, unix.EPOLLIN|unix.EPOLLET))
	require.NoError(t, s.Add(b, 8, unix.EPOLLIN|unix.EPOLLONESHOT))
	signal(t, a)
	keys, done := make(chan int32), make(chan error)
	go func() { done <- s.Wait(nil, func(key int32) { keys <- key }) }()
	require.EqualValues(t, 7, <-keys)
	for range 100 {
		signal(t, b)
		require.EqualValues(t, 8, <-keys)
		_, err := unix.Read(b, make([]byte, 8))
		require.NoError(t, err)
		require.NoError(t, s.Change(b, 8, unix.EPOLLIN|unix.EPOLLONESHOT))
	}
	s.Remove(a)
	s.Close()
	require.NoError(t, <-done)
}

// A set that the kernel does not know is no end in order.
func TestWaitFails(t *testing.T) {
	s, err := New("none")
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, s.Add(event(t), 1, unix.EPOLLIN))
	pipe := make([]int, 2)
	require.NoError(t, unix.Pipe2(pipe, unix.O_CLOEXEC))
	defer unix.Close(pipe[1])
	require.NoError(t, unix.Dup3(pipe[0], s.fd, unix.O_CLOEXEC)) // a mistake of other code
	require.NoError(t, unix.Close(pipe[0]))
	require.ErrorIs(t, s.Wait(nil, func(int32) {}), unix.EINVAL)
	require.ErrorIs(t, s.Add(event(t), 1, unix.EPOLLIN), unix.EINVAL)
}
