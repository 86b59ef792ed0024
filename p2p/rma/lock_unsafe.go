package rma

import (
	"unsafe"

	"github.com/banyan-hpc/banyan/fabric/bakery"
)

// Why unsafe: the words of a lock lie in a block that other processes share. Blocks are aligned to 8 bytes, and the
// place of the words in a card has been checked.

const wordBytes = int(unsafe.Sizeof(bakery.Word{}))

// wordsIn are the words in memory that is aligned to them.
func wordsIn(mem []byte) []bakery.Word {
	return unsafe.Slice((*bakery.Word)(unsafe.Pointer(unsafe.SliceData(mem))), len(mem)/wordBytes)
}
