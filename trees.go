package banyan

import (
	"fmt"

	"github.com/banyan-hpc/banyan/coll"
	"github.com/banyan-hpc/banyan/coll/tree"
	"github.com/banyan-hpc/banyan/internal/settings"
)

// Design is what becomes of the trees of collectives when ranks are gone (Hursey and Graham, §3.1); see [Comm.SetDesign].
type Design = tree.Design

const (
	// Unaware takes no notice: the tree over all ranks, whose messages do not look for failures. It is there to be
	// compared with. Where a validate has left ranks out its collectives are ErrArgument.
	Unaware = tree.Unaware
	// Reroute keeps the tree and goes round the gone, looked up in each call: their children are adopted.
	Reroute = tree.Reroute
	// LookupAvoiding has the same edges, computed by Validate.
	LookupAvoiding = tree.LookupAvoiding
	// Rebalance is the default: a tree of those who are left, as if the gone had never been there.
	Rebalance = tree.Rebalance
)

// ParseDesign reads "unaware", "reroute", "lookup" or "rebalance".
func ParseDesign(text string) (Design, error) {
	d, err := tree.ParseDesign(text)
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrArgument, err)
	}
	return d, err
}

// autoTree is the tree that is none: collectives choose.
const autoTree = "auto"

// SetDesign chooses what becomes of the trees of this communicator's collectives when ranks are gone. All ranks choose
// the same before the same operation; communicators that are made from this one inherit it. Without failures, or before the first validate
// after them, the designs have the same trees. Not to be called while a collective is under way. Error: ErrArgument.
func (c *Comm) SetDesign(d Design) error {
	if err := c.present("set design"); err != nil {
		return err
	}
	if d > Rebalance {
		return c.raise(fmt.Errorf("set design of %s: %w: %v, want unaware, reroute, lookup or rebalance", c.Name(), ErrArgument, d))
	}
	choice := c.coll.Choice
	choice.Design = d
	c.coll.Set(choice)
	return nil
}

// Design is the design in force.
func (c *Comm) Design() Design { return c.valid().coll.Design }

// SetTree chooses the trees of this communicator's collectives: "binomial", "knomial:4" or of another radix, "binary", "chain",
// "flat", or "node", which goes between nodes once. "auto", the default, leaves the way to each operation, by length and number
// of ranks: it need not be a tree, as it is for Reroute and LookupAvoiding after failures. As
// SetDesign otherwise. Error: ErrArgument.
func (c *Comm) SetTree(text string) error {
	if err := c.present("set tree"); err != nil {
		return err
	}
	choice, err := withTree(c.coll.Choice, text)
	if err != nil {
		return c.raise(fmt.Errorf("set tree of %s: %w", c.Name(), err))
	}
	c.coll.Set(choice)
	return nil
}

// Tree is what SetTree has chosen.
func (c *Comm) Tree() string {
	c = c.valid()
	if c.coll.Auto {
		return autoTree
	}
	return c.coll.Shape.String()
}

// withTree gives a choice another tree.
func withTree(choice coll.Choice, text string) (coll.Choice, error) {
	if choice.Auto, choice.Shape = text == autoTree, tree.Binomial; choice.Auto {
		return choice, nil
	}
	var err error
	if choice.Shape, err = tree.ParseShape(text); err != nil {
		return choice, fmt.Errorf("%w: %w, or auto", ErrArgument, err)
	}
	return choice, nil
}

// WithDesign chooses the design of the world's communicator, and so of all that are made from it, where [Comm.SetDesign] does
// not say otherwise. Without it the user's settings say (BANYAN_COLL_DESIGN), rebalance by default. All ranks choose the same.
func WithDesign(d Design) Option { return func(o *options) { o.design = &d } }

// WithTree chooses the trees in the same way, by a word as of [Comm.SetTree]. Without it the user's settings say
// (BANYAN_COLL_TREE), auto by default.
func WithTree(text string) Option { return func(o *options) { o.tree = &text } }

// plant takes the trees from s, and from the options that have been given.
func (o *options) plant(s *settings.Set) error {
	design := Design(s.Int(settings.CollDesign))
	if o.design != nil {
		design = *o.design
	}
	if design > Rebalance {
		return fmt.Errorf("%w: WithDesign: %v, want unaware, reroute, lookup or rebalance", ErrArgument, design)
	}
	text := settings.Of(settings.CollTree).Format(s.Int(settings.CollTree))
	if o.tree != nil {
		text = *o.tree
	}
	choice, err := withTree(coll.Choice{Design: design}, text)
	if err != nil {
		return fmt.Errorf("WithTree: %w", err)
	}
	o.trees = choice
	return nil
}
