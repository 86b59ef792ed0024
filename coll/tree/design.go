package tree

import "fmt"

// Design determines the treatment of failed ranks.
type Design uint8

// The designs of Hursey and Graham §3.1, the one that they are compared with, and that of Küttler and others.
const (
	// Unaware takes no notice of failures: the tree over all ranks. It fits a set in which all live.
	Unaware Design = iota
	// Reroute keeps the tree over all ranks. During the operation each rank checks whether its parent and
	// children live: the children of a dead child are adopted, in its place; the child of a dead parent contacts
	// the nearest living ancestor; a dead root is replaced by the lowest living rank of the next level that has
	// one.
	Reroute
	// LookupAvoiding has the edges of Reroute, found before the operation.
	LookupAvoiding
	// Rebalance numbers the living ranks densely and has the Unaware tree over those numbers.
	Rebalance
	// Corrected completes a broadcast or a barrier in spite of failures that are not known yet: package
	// coll/corrected. All its other trees are those of Rebalance.
	Corrected
)

var designs = [...]string{
	Unaware: "unaware", Reroute: "reroute", LookupAvoiding: "lookup", Rebalance: "rebalance", Corrected: "corrected",
}

// String gives the word that ParseDesign reads.
func (d Design) String() string {
	if int(d) < len(designs) {
		return designs[d]
	}
	return fmt.Sprintf("design %d", uint8(d))
}

// ParseDesign reads "unaware", "reroute", "lookup", "rebalance" or "corrected".
func ParseDesign(s string) (Design, error) {
	for d, name := range designs {
		if s == name {
			return Design(d), nil
		}
	}
	return 0, fmt.Errorf("no design %q: want unaware, reroute, lookup, rebalance or corrected", s)
}
