package osu

import (
	"os"
	"unsafe"
)

// pages returns n bytes that begin on a page, as OSU's buffers do: the Go heap aligns only
// allocations of 32 KiB and more. The address of an object on the heap does not change.
func pages(n int) []byte {
	page := os.Getpagesize()
	b := make([]byte, n+page)
	skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) & (page - 1)
	return b[skip : skip+n : skip+n]
}

// vector is the same memory as n elements. Preconditions: b begins on a page and is as long.
func vector[T element](b []byte, n int) []T {
	var one T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b[:n*int(unsafe.Sizeof(one))]))), n)
}

// wordAt is where the memory begins. Precondition: b is aligned for a word, and has one.
func wordAt(b []byte) *uint64 { return (*uint64)(unsafe.Pointer(unsafe.SliceData(b[:word]))) }
