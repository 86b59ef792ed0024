package tree

import "fmt"

// Walk returns the children of a rank one after the other, and checks before each whether it lives, as
// an operation of the design Reroute does.
type Walk struct {
	form  *form
	alive *Alive
	me    int
	top   int // the children searched for are below it: this rank, or the dead root that it replaces
	at    int // the next candidate, or none
}

// Walk sets p.Root and p.Parent to those of the living rank me in the design Reroute, and returns its children one
// by one. The arguments are those of [Build]. The walk uses memory of p, which must not be built anew before the
// walk's end.
func (p *Plan) Walk(s Shape, a *Alive, node func(rank int) int, root, me int) Walk {
	if !a.Has(me) {
		panic(fmt.Sprintf("tree: plan for rank %d, which does not live", me))
	}
	p.sparse(s, a, node, root)
	f := &p.form
	p.Root, p.Parent, p.Children = root, f.parent(me), p.Children[:0]
	for p.Parent != none && !a.Has(p.Parent) {
		p.Parent = f.parent(p.Parent)
	}
	w := Walk{form: f, alive: a, me: me, top: me}
	if !a.Has(root) {
		p.Root = f.deputy(a)
		switch {
		case p.Root == me:
			w.top = root
		case p.Parent == none:
			p.Parent = p.Root
		}
	}
	w.at = f.first(w.top)
	return w
}

// Next gives the next child; false: there are no more.
func (w *Walk) Next() (child int, ok bool) {
	for w.at != none {
		at := w.at
		if w.alive.Has(at) && at != w.me {
			w.at = w.form.after(at, w.top)
			return at, true
		}
		w.at = w.form.below(at, w.top) // adopted, or a child of the replaced root
	}
	return none, false
}

// below is the successor of v in the subtree of top, where parents come before their children.
func (f *form) below(v, top int) int {
	if child := f.first(v); child != none {
		return child
	}
	return f.after(v, top)
}

// after is the same without the subtree of v.
func (f *form) after(v, top int) int {
	for v != top {
		if next := f.next(v); next != none {
			return next
		}
		v = f.parent(v)
	}
	return none
}

// deputy replaces a dead root: it is the lowest living rank, counted from the root, of the first level that has one.
func (f *form) deputy(a *Alive) int {
	best, level := none, f.n
	depth := 0
	for v := f.root; v != none; {
		if a.Has(v) && (depth < level || f.upright(v) < f.upright(best)) {
			best, level = v, depth
		}
		child := none
		if depth < level {
			child = f.first(v)
		}
		if child != none {
			depth++
			v = child
			continue
		}
		// The living have no use for their later siblings, which have higher numbers where nodes do not count.
		for skip := a.Has(v) && f.kind != twoLevel; ; skip = false {
			if v == f.root {
				return best
			}
			if next := f.next(v); next != none && !skip {
				v = next
				break
			}
			v = f.parent(v)
			depth--
		}
	}
	return best
}
