package tree

import "fmt"

// Walk gives the children of a rank one after the other, and asks before each whether it lives: what a
// rank does in an operation of the design Reroute.
type Walk struct {
	form  *form
	alive *Alive
	me    int
	top   int // below whom the children are looked for: this rank, or the dead root for which it stands in
	at    int // who comes next; none: nobody does
}

// Walk sets p.Root and p.Parent to what the living rank me has in the design Reroute, and gives its
// children one by one. The arguments are those of [Build]. The walk uses memory of p, which is not built anew before the walk's end.
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
		w.at = w.form.below(at, w.top) // adopted; or for whom this rank stands in, beside its own
	}
	return none, false
}

// below is who comes after v in the subtree of top, where parents come before their children.
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

// deputy stands in for a dead root: of the living on the first level that has any the lowest, counted from the root.
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
