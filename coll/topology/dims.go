package topology

import (
	"fmt"
	"slices"

	"github.com/banyan-hpc/banyan"
)

// Dims chooses the dimensions of a grid of so many ranks (MPI_Dims_create). Dimensions of 0 get a value, the
// others stay. Chosen ones decrease, and the largest is as small as possible, then the next, and so on. Error:
// ErrArgument, for a negative dimension, and if the given ones do not divide the ranks; dims is then
// unchanged.
func Dims(ranks int, dims []int) error {
	left, free := ranks, 0
	for i, d := range dims {
		switch {
		case d < 0 || ranks < 1:
			return misuse("Dims", "%d ranks, dimension %d of %d", ranks, d, i)
		case d == 0:
			free++
		case left%d != 0:
			return misuse("Dims", "%d ranks do not divide by the dimensions %v", ranks, dims)
		default:
			left /= d
		}
	}
	if free == 0 {
		if left != 1 {
			return misuse("Dims", "dimensions %v are not those of %d ranks", dims, ranks)
		}
		return nil
	}
	chosen := balanced(left, free, left)
	for i, d := range dims {
		if d == 0 {
			dims[i], chosen = chosen[0], chosen[1:]
		}
	}
	return nil
}

// balanced gives the factors of n, so many, none above a limit, that come first in the order of their
// decreasing sequences; nil if there are none.
func balanced(n, count, limit int) []int {
	if count == 1 {
		if n > limit {
			return nil
		}
		return []int{n}
	}
	for _, d := range divisors(n) {
		if d > limit {
			break
		}
		if rest := balanced(n/d, count-1, d); rest != nil {
			return append([]int{d}, rest...)
		}
	}
	return nil
}

// divisors returns those of n, in ascending order.
func divisors(n int) []int {
	var low, high []int
	for d := 1; d <= n/d; d++ {
		if n%d == 0 {
			low = append(low, d)
			if d != n/d {
				high = append(high, n/d)
			}
		}
	}
	slices.Reverse(high)
	return append(low, high...)
}

// misuse is the error of wrong arguments.
func misuse(op, format string, args ...any) error {
	cause := fmt.Errorf("%w: %s", banyan.ErrArgument, fmt.Sprintf(format, args...))
	return &banyan.OpError{Op: "topology." + op, Rank: -1, Peer: -1, Err: cause}
}
