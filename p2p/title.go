package p2p

import "strconv"

// title is the name of a communicator in messages. Who makes one has a number for it, and a text when somebody reads it: a
// shrink takes no memory for what hardly anybody reads.
type title struct {
	of   string
	left uint64 // 1 + the number of the shrink of which this is left; 0: of is all
}

// String gives the text.
func (t title) String() string {
	if t.left == 0 {
		return t.of
	}
	return t.of + ".left" + strconv.FormatUint(t.left-1, 10)
}
