package coll

import (
	"cmp"

	"github.com/banyan-hpc/banyan/p2p"
)

const (
	// segment is the length of the pieces in which long messages go over a tree, in bytes.
	segment = 128 << 10
	// longTree is what goes in segments, in bytes, where more than two ranks would wait for the whole of it in turn.
	longTree = 4 * segment
)

// Bcast copies root's buf into everybody's, which are of the same length. With a root that is
// agreed to be gone it does nothing.
func Bcast[M p2p.Mode](c *p2p.Comm, s Setting, buf []byte, root int) error {
	w, root, err := begin(c, &s, "bcast", root)
	if err != nil || root == gone {
		return s.end(err)
	}
	to := buf
	if s.End != nil && w.Rank() != root {
		to = s.Memory.bytes(len(buf))
	}
	done := false
	if s.Trees.free() {
		done, err = flatBcast[M](w, to, root)
	}
	if !done {
		err = bcast[M](w, s.Trees, to, root)
	}
	err = met(w, "bcast", err)
	if err = s.end(err); err == nil {
		copy(buf, to)
	}
	return err
}

// bcast goes down the tree. A length that does not fit, and a child that
// has gone, keep nothing from the others, who would wait: they get what the root sent, or
// nothing, which fits none of them.
func bcast[M p2p.Mode](w *p2p.Comm, t *Trees, buf []byte, root int) error {
	r := t.to(root)
	marks := t.segmented() // who is short may meet the mark of who is not
	long := marks && streamed(len(buf))
	if r.parent < 0 {
		if !long {
			return spread[M](w, r, buf, r.tag(kindBcast), nil)
		}
		first := spread[M](w, r, t.mark.set(len(buf), 0), r.tag(kindBcast), nil)
		return stream[M](w, r, buf, len(buf), first)
	}
	into := buf
	if marks && (long || len(buf) < len(t.mark)) {
		into = t.mark[:]
	}
	st, err := p2p.Recv[M](w, into, r.parent, r.tag(kindBcast))
	if marks && err == nil && shows(into, st.Count) {
		copy(t.mark[:], into)
		first := spread[M](w, r, t.mark[:], r.tag(kindBcast), nil)
		return stream[M](w, r, buf, marked(t.mark[:]), first)
	}
	whole, err := fit(w, st, err, len(buf))
	if fatal(err) {
		return err
	}
	if !long {
		copy(buf, into[:whole])
	}
	return spread[M](w, r, into[:min(whole, len(into))], r.tag(kindBcast), err)
}

// streamed reports whether data of a length go after a mark, where there are any.
func streamed(length int) bool { return length >= longTree || length == len(mark{}) }

// spread sends to the children what has come from the parent with first.
func spread[M p2p.Mode](w *p2p.Comm, r *route, buf []byte, tag int, first error) error {
	for _, child := range r.children {
		first = cmp.Or(first, p2p.Send[M](w, buf, child, tag))
	}
	return first
}

// stream has so many bytes go down the tree, each segment as soon as it is there. Who has called with
// another length passes them on all the same.
func stream[M p2p.Mode](w *p2p.Comm, r *route, buf []byte, total int, first error) error {
	if r.parent >= 0 && len(buf) != total {
		return relay[M](w, r, total, cmp.Or(first, mismatch(w, total, len(buf))))
	}
	var next p2p.Handle
	if r.parent >= 0 {
		next = p2p.Irecv[M](w, piece(buf, 0), r.parent, r.tag(kindBcast))
	}
	out := fan{w: w}
	for at := 0; at < total; at += segment {
		if r.parent >= 0 {
			st, err := w.Wait(next)
			if _, err = fit(w, st, err, len(piece(buf, at))); err != nil {
				return out.end(cmp.Or(first, err))
			}
			if at+segment < total { // it arrives while this one goes on
				next = p2p.Irecv[M](w, piece(buf, at+segment), r.parent, r.tag(kindBcast))
			}
		}
		for _, child := range r.children {
			first = cmp.Or(first, send[M](&out, piece(buf, at), child, r.tag(kindBcast)))
		}
		if r.parent < 0 && fatal(first) {
			break
		}
	}
	return out.end(first)
}

// fan is what is under way to several ranks.
type fan struct {
	w     *p2p.Comm
	under [ahead]p2p.Handle
	begun int
}

// send begins to send. If there is much under way it waits for the oldest, and gives its error.
func send[M p2p.Mode](f *fan, buf []byte, dst, tag int) error {
	h := &f.under[f.begun%ahead]
	f.begun++
	_, err := f.w.Wait(*h)
	*h = p2p.Isend[M](f.w, buf, dst, tag)
	return err
}

// end waits for all.
func (f *fan) end(first error) error {
	for _, h := range f.under {
		_, err := f.w.Wait(h)
		first = cmp.Or(first, err)
	}
	return first
}

// piece is the segment of buf that begins at a place.
func piece(buf []byte, at int) []byte { return buf[at:min(at+segment, len(buf))] }

// relay passes on a stream that is of no use here.
func relay[M p2p.Mode](w *p2p.Comm, r *route, total int, first error) error {
	through := make([]byte, segment)
	for left := total; left > 0; left -= segment {
		part := through[:min(left, segment)]
		if _, err := recvAll[M](w, part, r.parent, r.tag(kindBcast)); err != nil {
			return cmp.Or(first, err)
		}
		first = spread[M](w, r, part, r.tag(kindBcast), first)
	}
	return first
}
