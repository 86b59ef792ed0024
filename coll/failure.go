package coll

import (
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/p2p"
)

// failure returns the error of an operation with its cause, which may be the error of one of its
// messages. Root counts if the operation has one.
func failure(c *p2p.Comm, k Kind, blocks bool, root int, met error) error {
	e := c.OpError(k.Name(blocks))
	if k.Rooted() {
		e.Args[0] = ft.Arg{Name: "root", Value: root}
	}
	return ft.ErrorOf(e, met)
}

// failure is the error of the operation at its end.
func (s *Schedule) failure(met error) error { return failure(s.c, s.kind, s.blocks, s.root, met) }
