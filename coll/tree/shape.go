package tree

import (
	"fmt"
	"strconv"
	"strings"
)

// Shape is the form of a tree. Shapes can be compared; the zero Shape is Binomial.
type Shape struct {
	kind  kind
	radix int32 // of k-nomial trees, else 0
}

type kind uint8

const (
	binomial kind = iota
	knomial
	binary
	chain
	flat
	twoLevel
)

var (
	// Binomial: number r has the children r+2^i for every 2^i > r.
	Binomial = Shape{kind: binomial}
	// Binary: number r has the children 2r+1 and 2r+2.
	Binary = Shape{kind: binary}
	// Chain: number r has the child r+1.
	Chain = Shape{kind: chain}
	// Flat: number 0 has all others for children.
	Flat = Shape{kind: flat}
	// TwoLevel has a binomial tree over the nodes, in the order of their lowest ranks, and one within each node. The
	// leader of a node, the only rank that communicates with other nodes, is its lowest rank, or the root. It serves
	// other nodes first.
	TwoLevel = Shape{kind: twoLevel}
)

// MaxRadix is the largest radix of a k-nomial tree.
const MaxRadix = 1 << 16

// KNomial is the binomial tree for digits to a base k of 2 … MaxRadix: number r has the children r+d*k^i for every k^i > r and every d
// of 1 … k-1.
func KNomial(k int) Shape {
	if k < 2 || k > MaxRadix {
		panic(fmt.Sprintf("tree: k-nomial tree of radix %d, want 2 … %d", k, MaxRadix))
	}
	return Shape{kind: knomial, radix: int32(k)}
}

var shapes = map[string]Shape{
	"binomial": Binomial, "binary": Binary, "chain": Chain, "flat": Flat, "node": TwoLevel,
}

// String gives the words that ParseShape reads.
func (s Shape) String() string {
	if s.kind == knomial {
		return "knomial:" + strconv.Itoa(int(s.radix))
	}
	for name, shape := range shapes {
		if shape == s {
			return name
		}
	}
	return fmt.Sprintf("shape %d", s.kind)
}

// ParseShape reads "binomial", "knomial:K", "binary", "chain", "flat" or "node", which is TwoLevel.
func ParseShape(text string) (Shape, error) {
	if shape, ok := shapes[text]; ok {
		return shape, nil
	}
	if digits, ok := strings.CutPrefix(text, "knomial:"); ok {
		k, err := strconv.Atoi(digits)
		if err != nil || k < 2 || k > MaxRadix {
			return Shape{}, fmt.Errorf("tree %q: want a radix of 2 … %d, as in knomial:4", text, MaxRadix)
		}
		return KNomial(k), nil
	}
	return Shape{}, fmt.Errorf("no tree %q: want binomial, knomial:K, binary, chain, flat or node", text)
}
