package netpipe

import (
	"os"
	"strconv"
	"strings"
)

// pool is memory that is used piece by piece, from one end to the other and again. It is so large
// that a piece has left the caches when its turn comes again.
type pool struct {
	b  []byte
	at int
}

// line is the alignment of a piece: no two share one.
const line = 64

// newPool has room for two messages of that size in each direction at least.
func newPool(largest int) *pool {
	return &pool{b: touched(max(leastPool, 2*cacheSize(cacheFiles), 4*(largest+line)))}
}

// Limits of a pool's size in bytes: it is at least leastPool, and no cache is believed to be larger
// than mostCache.
const (
	leastPool = 64 << 20
	mostCache = 256 << 20
)

// next gives the next piece.
func (p *pool) next(size int) []byte {
	if p.at+size > len(p.b) {
		p.at = 0
	}
	piece := p.b[p.at : p.at+size : p.at+size]
	p.at += (size + line) &^ (line - 1) // the next piece's lines are others, if size is 0 too
	return piece
}

// cacheFiles have the sizes of the caches of the first processor.
const cacheFiles = "/sys/devices/system/cpu/cpu0/cache/index"

// cacheSize is the size in bytes of the largest cache that the system names in files such as
// PREFIX3/size, "32768K"; 0 if it names none.
func cacheSize(prefix string) int {
	largest := 0
	for i := range 5 {
		text, err := os.ReadFile(prefix + strconv.Itoa(i) + "/size")
		if err != nil {
			continue
		}
		kib, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(string(text)), "K"))
		if err == nil && kib > 0 {
			largest = max(largest, min(kib, mostCache>>10)<<10)
		}
	}
	return largest
}
