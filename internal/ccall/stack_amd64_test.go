package ccall

import (
	"io"
	"runtime"
	"runtime/pprof"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// block is the argument of the code below, in memory of its own.
type block struct {
	sp    uintptr // the code's stack pointer
	loops uint64
}

// function maps code that keeps its stack pointer, loops, and changes the registers that a function of C may change.
func function(t *testing.T) (fn unsafe.Pointer, arg *block) {
	code := []byte{
		0x48, 0x89, 0x27, // mov [rdi], rsp
		0x48, 0x8b, 0x4f, 0x08, // mov rcx, [rdi+8]
		0x48, 0x85, 0xc9, // test rcx, rcx
		0x74, 0x05, // jz behind the loop
		0x48, 0xff, 0xc9, // dec rcx
		0x75, 0xfb, // jnz to it
		0x66, 0x45, 0x0f, 0x76, 0xff, // pcmpeqd xmm15, xmm15
		0x48, 0x31, 0xc0, 0x48, 0x31, 0xd2, 0x48, 0x31, 0xf6, 0x48, 0x31, 0xff, // rax, rdx, rsi, rdi are 0
		0x4d, 0x31, 0xc0, 0x4d, 0x31, 0xc9, 0x4d, 0x31, 0xd2, 0x4d, 0x31, 0xdb, // r8 to r11 too
		0xc3, // ret
	}
	mem, err := unix.Mmap(-1, 0, 2*4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	require.NoError(t, err)
	copy(mem, code)
	require.NoError(t, unix.Mprotect(mem[:4096], unix.PROT_READ|unix.PROT_EXEC))
	t.Cleanup(func() { require.NoError(t, unix.Munmap(mem)) })
	return unsafe.Pointer(&mem[0]), (*block)(unsafe.Pointer(&mem[4096]))
}

// A function has the stack, aligned as C has it, and Go goes on with its own.
func TestCall(t *testing.T) {
	require.True(t, Possible)
	fn, arg := function(t)
	s, err := NewStack()
	require.NoError(t, err)
	defer s.Close()
	for range 3 {
		var zero [64]byte
		s.Call(fn, unsafe.Pointer(arg))
		require.Equal(t, uintptr(s.top)-8, arg.sp, "the return address is at the top")
		require.Zero(t, arg.sp&15^8)
		require.Equal(t, [64]byte{}, zero)
		require.Equal(t, [32]byte{}, cleared(), "Go's register of zeros")
	}
	require.Zero(t, testing.AllocsPerRun(100, func() { s.Call(fn, unsafe.Pointer(arg)) }))
}

//go:noinline
func cleared() (b [32]byte) { return b }

// Calls go on beside collections, growing stacks, and the signals of preemption and of a profile.
func TestCallsBesideTheRuntime(t *testing.T) {
	require.NoError(t, pprof.StartCPUProfile(io.Discard))
	defer pprof.StopCPUProfile()
	var wait sync.WaitGroup
	for range 4 {
		fn, arg := function(t)
		s, err := NewStack()
		require.NoError(t, err)
		defer s.Close()
		wait.Go(func() {
			for i := range 200 {
				arg.loops = uint64(i%20) * 100_000
				require.Equal(t, 100, deep(100, func() { s.Call(fn, unsafe.Pointer(arg)) }))
				runtime.GC()
			}
		})
	}
	wait.Wait()
}

// deep makes n calls within each other, then one of fn.
func deep(n int, fn func()) int {
	var room [256]byte
	if n == 0 {
		fn()
		return int(room[0])
	}
	return deep(n-1, fn) + 1
}
