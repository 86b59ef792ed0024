package collective

import (
	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/coll/tree"
)

// choose has the collectives of a communicator go as a line says, which has been checked.
func choose(c *banyan.Comm, l Line) error {
	design, err := tree.ParseDesign(l.Design)
	if err != nil {
		return err
	}
	if err := c.SetDesign(design); err != nil {
		return err
	}
	return c.SetTree(l.Tree)
}
