package coll

import (
	"cmp"

	"github.com/banyan-hpc/banyan/p2p"
)

// ascent is a reduction on its way up a tree: everybody's from goes into the root's to, and into the to of those on the way, which may
// be the same memory as from.
//
// Long buffers go in segments, where that gains something: each goes on as soon as it has come from all children, while the next one
// is under way. A mark goes before them. It promises so many messages, whatever happens: who has met a length that does not fit sends
// empty ones, which fit nobody.
type ascent struct {
	w                 *p2p.Comm
	t                 *Trees
	r                 *route
	from, to, scratch []byte // of one length
	op                Op
	tag               int
	marks             bool // instead of a buffer a mark may come
	stride            int  // from one part of scratch to the next; segments take them in turn
}

// ahead is how many segments are asked for before they are needed, so that they come one right after the other; scratch has room for them.
// Down a tree so many messages are under way to all children together.
const ahead = longTree / segment

// fold goes up the tree.
func fold[M p2p.Mode](w *p2p.Comm, t *Trees, r *route, from, to, scratch []byte, f Fold, tag int) error {
	a := ascent{w: w, t: t, r: r, from: from, to: to, scratch: scratch, op: f.Op, tag: tag}
	a.marks = t.segmented()
	if !a.marks || !f.streams(len(from)) {
		return climb[M](&a)
	}
	if a.stride = segment; len(from) < segment {
		a.stride = len(from)
		a.scratch = make([]byte, ahead*a.stride)
	}
	var first error
	if r.parent >= 0 {
		first = p2p.Send[M](w, t.mark.set(len(from), 0), r.parent, a.tag)
	}
	for i := len(r.children) - 1; i >= 0 && !fatal(first); i-- {
		err := announced[M](&a, r.children[i], first)
		for j := i + 1; err != nil && first == nil && j < len(r.children) && !fatal(err); j++ {
			err = cmp.Or(drain[M](&a, r.children[j], len(from)), err)
		}
		first = cmp.Or(first, err)
	}
	switch {
	case first == nil:
		return ascend[M](&a)
	case r.parent >= 0:
		for at := 0; at < len(from) && !fatal(first); at += segment {
			if err := p2p.Send[M](w, nil, r.parent, a.tag); fatal(err) {
				return err
			}
		}
	}
	return first
}

// streams reports whether a buffer of a length goes in segments, after a mark, where there are any: if they can be folded apart, or it is one.
func (f *Fold) streams(length int) bool {
	return length == len(mark{}) || streamed(length) && f.Unit > 0 && segment%f.Unit == 0
}

// climb folds buffers as a whole. Who has got a length that does not fit passes on nothing, which fits nobody, and keeps no others waiting.
func climb[M p2p.Mode](a *ascent) error {
	acc, children := a.from, a.r.children
	var first error
	for i := len(children) - 1; i >= 0; i-- { // the smallest subtree is ready first
		err := whole[M](a, children[i])
		switch {
		case fatal(err):
			return err
		case err == nil && first == nil:
			if i == len(children)-1 {
				copy(a.to, a.from)
				acc = a.to
			}
			a.op(acc, a.scratch)
		default:
			first, acc = cmp.Or(first, err), nil
		}
	}
	if a.r.parent >= 0 {
		return cmp.Or(p2p.Send[M](a.w, acc, a.r.parent, a.tag), first)
	}
	if first == nil {
		copy(a.to, acc)
	}
	return first
}

// whole receives a child's buffer into scratch. If it is long instead its segments come to nothing.
func whole[M p2p.Mode](a *ascent, child int) error {
	if !a.marks {
		_, err := recvAll[M](a.w, a.scratch, child, a.tag)
		return err
	}
	into := a.scratch
	if len(into) < len(mark{}) {
		into = a.t.theirs[:]
	}
	st, err := p2p.Recv[M](a.w, into, child, a.tag)
	if err == nil && shows(into, st.Count) {
		total := marked(into)
		return a.odd(total, drain[M](a, child, total))
	}
	got, err := fit(a.w, st, err, len(a.scratch))
	copy(a.scratch, into[:min(got, len(into))])
	return err
}

// announced receives a child's mark. What comes after one of another length comes to nothing, as what comes after any if there has been
// an error before.
func announced[M p2p.Mode](a *ascent, child int, before error) error {
	theirs := &a.t.theirs
	st, err := p2p.Recv[M](a.w, theirs[:], child, a.tag)
	if err != nil || !shows(theirs[:], st.Count) {
		_, err = fit(a.w, st, err, len(a.from))
		return err
	}
	total := marked(theirs[:])
	if total == len(a.from) && before == nil {
		return nil
	}
	if err = drain[M](a, child, total); total == len(a.from) {
		return cmp.Or(err, before)
	}
	return a.odd(total, err)
}

// odd is the error of a child that streams what this rank does not, unless the stream has ended with one.
func (a *ascent) odd(total int, err error) error {
	return cmp.Or(err, unlike(a.w, total, len(a.from)))
}

// unlike is the error of a child that streams so many bytes, where this rank has another length, or elements that cannot be folded apart.
func unlike(w *p2p.Comm, total, here int) error {
	if total == here {
		return disagreed(w, here)
	}
	return mismatch(w, total, here)
}

// drain lets a child's segments come to nothing.
func drain[M p2p.Mode](a *ascent, child, total int) error {
	for at := 0; at < total; at += segment {
		if _, err := recvAll[M](a.w, nil, child, a.tag); fatal(err) {
			return err
		}
	}
	return nil
}

// ascend folds segments, which all children send, in the order of rounds: of each child the first, then of each the second. While one is folded
// the next ones come, into other parts of scratch.
func ascend[M p2p.Mode](a *ascent) (first error) {
	children := a.r.children
	steps := len(children) * following(len(a.from))
	into := func(step int) []byte {
		return a.scratch[step%ahead*a.stride:][:len(piece(a.from, step/len(children)*segment))]
	}
	var coming [ahead]p2p.Handle
	begun, step := 0, 0
	begin := func() {
		for ; begun < min(steps, step+ahead); begun++ {
			coming[begun%ahead] = p2p.Irecv[M](a.w, into(begun), children[len(children)-1-begun%len(children)], a.tag)
		}
	}
	var up p2p.Handle
	for at := 0; at < len(a.from) && !fatal(first); at += segment {
		out := piece(a.from, at)
		for range children {
			begin()
			st, err := a.w.Wait(coming[step%ahead])
			coming[step%ahead] = p2p.Handle{}
			in := into(step)
			_, err = fit(a.w, st, err, len(in))
			if first = cmp.Or(first, err); fatal(err) {
				first = err
				break
			}
			if step++; first == nil {
				copy(piece(a.to, at), out)
				out = piece(a.to, at)
				a.op(out, in)
			}
		}
		first = cmp.Or(rise[M](a, &up, out, first), first)
	}
	for _, h := range coming { // what has been begun before a fatal error ends with one too
		_, late := a.w.Wait(h)
		first = cmp.Or(first, late)
	}
	_, err := a.w.Wait(up)
	return cmp.Or(first, err)
}

// rise sends a segment to the parent, or an empty one after an error, when the one before it has been taken.
func rise[M p2p.Mode](a *ascent, up *p2p.Handle, out []byte, first error) error {
	if a.r.parent < 0 || fatal(first) {
		return nil
	}
	if first != nil {
		out = nil
	}
	_, err := a.w.Wait(*up)
	*up = p2p.Isend[M](a.w, out, a.r.parent, a.tag)
	return err
}
