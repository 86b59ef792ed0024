package coll

import "github.com/banyan-hpc/banyan/p2p"

// Gather puts everybody's mine, all of one length, into root's all, by rank. Only the root's all counts; its mine may
// lie there where it belongs. The places of those who are agreed to be gone stay as they are (S0-30), and with a root that is
// one of them it does nothing.
func Gather[M p2p.Mode](c *p2p.Comm, s Setting, mine, all []byte, root int) error {
	w, root, err := begin(c, &s, "gather", root)
	if err != nil || root == gone {
		return s.end(err)
	}
	r := s.Trees.to(root)
	s.Trees.arrange(r)
	b := blocks{w: w, r: r, size: len(mine), all: all}
	b.prepare(&s, mine)
	err = met(w, "gather", upward[M](&b, mine, r.tag(kindGather)))
	if err = s.end(err); err == nil && r.parent < 0 {
		b.unpack(mine)
	}
	return err
}

// Scatter puts each rank's block of root's all into its mine; the blocks are of one length. Only the root's all counts; its
// mine may lie there where it belongs. Nothing is sent to those who are agreed to be gone (S0-30), and with a root
// that is one of them it does nothing.
func Scatter[M p2p.Mode](c *p2p.Comm, s Setting, all, mine []byte, root int) error {
	w, root, err := begin(c, &s, "scatter", root)
	if err != nil || root == gone {
		return s.end(err)
	}
	r := s.Trees.to(root)
	s.Trees.arrange(r)
	b := blocks{w: w, r: r, size: len(mine), all: all}
	if b.prepare(&s, mine); s.End != nil && len(r.children) == 0 {
		b.stage = s.Memory.bytes(len(mine))
	}
	got, err := downward[M](&b)
	err = met(w, "scatter", err)
	if err = s.end(err); err == nil {
		copy(mine, got)
	}
	return err
}
