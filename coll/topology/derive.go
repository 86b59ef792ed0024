package topology

import (
	"errors"
	"fmt"
	"slices"

	"github.com/banyan-hpc/banyan"
)

// derived makes the communicator of a topology with so many places, of edges that are asked for if the ranks
// are to be reordered; nil where there is no place. Blocks may propose a division of the places among nodes
// with so many ranks each; it may be nil.
func derived(
	c *banyan.Comm, places int, reorder bool, edges func() graph, blocks func(counts []int) [][]int,
) (*banyan.Comm, error) {
	at, moved := c.Rank(), false
	if reorder {
		var err error
		if at, moved, err = place(c, edges, blocks); err != nil {
			return nil, err
		}
	}
	if !moved && places == c.Size() {
		return c.Dup()
	}
	color := 0
	if at >= places {
		color = banyan.Undefined
	}
	return whole(c, places)(c.Split(color, at))
}

// place gives this rank's place by the nodes of all ranks, and whether any rank has another place than its number.
func place(
	c *banyan.Comm, edges func() graph, blocks func(counts []int) [][]int,
) (at int, moved bool, err error) {
	node, err := nodes(c)
	if err != nil {
		return 0, false, err
	}
	order := arranged(node, edges(), blocks)
	return order[c.Rank()], !slices.IsSorted(order), nil
}

// whole gives an error for a communicator that has fewer ranks than places: some of those from which it was made
// were agreed to have failed, or gave wrong arguments.
func whole(from *banyan.Comm, places int) func(c *banyan.Comm, err error) (*banyan.Comm, error) {
	return func(c *banyan.Comm, err error) (*banyan.Comm, error) {
		if c == nil || err != nil || c.Size() == places {
			return c, err
		}
		cause := banyan.ErrProcFailed
		if from.Failed().Size() == 0 {
			cause = banyan.ErrArgument
		}
		err = fmt.Errorf("topology of %d places has %d ranks: %w", places, c.Size(), cause)
		return nil, errors.Join(err, c.Free())
	}
}

// nodes gives each rank's node, by a number that its ranks share; -1 of a rank that is agreed to have failed.
func nodes(c *banyan.Comm) ([]int, error) {
	mine, err := c.SplitByNode(0)
	if err != nil {
		return nil, err
	}
	all := make([]int, c.Size())
	for i := range all {
		all[i] = -1
	}
	err = banyan.Allgather(c, mine.Group().Ranks()[:1], all)
	return all, errors.Join(err, mine.Free())
}
