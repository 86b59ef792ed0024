package p2p

import "strconv"

// commName is the name of a communicator in messages. Who makes one has a number for it, and a text when somebody reads it: a
// shrink takes no memory for what hardly anybody reads.
type commName struct {
	base   string
	shrink uint64 // 1 + the number of the shrink of which this is left; 0: of is all
}

// String gives the text.
func (t commName) String() string {
	if t.shrink == 0 {
		return t.base
	}
	return t.base + ".left" + strconv.FormatUint(t.shrink-1, 10)
}
