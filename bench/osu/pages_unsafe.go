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

// numbers is the same memory as whole numbers. Precondition: b begins on a page.
func numbers(b []byte) []int32 {
	return unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/number)
}
