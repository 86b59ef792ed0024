package ranktest

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/banyan-hpc/banyan"
)

// Ring passes messages round all ranks, at sizes for each of the protocols.
func Ring(w *banyan.World) error {
	c := w.Comm()
	next, prev := (c.Rank()+1)%c.Size(), (c.Rank()+c.Size()-1)%c.Size()
	for _, size := range []int{0, 1, 8, 48, 49, 1000, 10_000, 100_000, 1 << 20} {
		out, in := Pattern(c.Rank(), size), make([]byte, size)
		st, err := c.Sendrecv(out, next, 7, in, prev, 7)
		if err != nil {
			return err
		}
		if st.Count != size || st.Source != prev || !bytes.Equal(in, Pattern(prev, size)) {
			return fmt.Errorf("wrong message of %d bytes from %d: %+v", size, prev, st)
		}
	}
	return nil
}

// Crowd has each rank send to each, at sizes of every protocol, and receive by wildcard.
func Crowd(w *banyan.World) error {
	c := w.Comm()
	for tag, size := range []int{8, 3000, 200_000} {
		reqs := make([]banyan.Request, 0, c.Size())
		for dst := range c.Size() {
			reqs = append(reqs, c.Isend(Pattern(c.Rank(), size), dst, tag))
		}
		seen := make([]bool, c.Size())
		buf := make([]byte, size)
		for range c.Size() {
			st, err := c.Recv(buf, banyan.AnySource, tag)
			if err != nil {
				return err
			}
			if seen[st.Source] || st.Count != size || !bytes.Equal(buf, Pattern(st.Source, size)) {
				return fmt.Errorf("wrong message %+v of tag %d", st, tag)
			}
			seen[st.Source] = true
		}
		if err := banyan.WaitAll(reqs); err != nil {
			return err
		}
	}
	return nil
}

// ExpectPattern receives a message of the sender's pattern.
func ExpectPattern(c *banyan.Comm, src, tag, size int) error {
	buf := make([]byte, size)
	st, err := c.Recv(buf, src, tag)
	if err == nil && (st.Count != size || !bytes.Equal(buf, Pattern(st.Source, size))) {
		err = fmt.Errorf("wrong message %+v, want %d bytes", st, size)
	}
	return err
}

// Modes exchanges messages by the modes of sends, probes and matched probes. Two ranks.
func Modes(w *banyan.World) error {
	c := w.Comm()
	peer := 1 - c.Rank()
	for i, size := range append(Sizes, 1<<20) {
		out := Pattern(c.Rank(), size)
		reqs := []banyan.Request{c.Issend(out, peer, i), c.Isend(out, peer, i), c.Irsend(out, peer, i)}
		st, err := c.Probe(peer, i)
		if err = errors.Join(err, WantStatus(st, peer, i, size)); err != nil {
			return err
		}
		m, err := c.Mprobe(banyan.AnySource, i)
		if err = errors.Join(err, ExpectPattern(c, peer, i, size)); err != nil {
			return err
		}
		found := false
		for !found && err == nil {
			st, found, err = c.Iprobe(peer, banyan.AnyTag)
		}
		if err = errors.Join(err, WantStatus(st, peer, i, size), ExpectPattern(c, peer, i, size)); err != nil {
			return err
		}
		buf := make([]byte, size)
		st, err = m.Recv(buf)
		if err = errors.Join(err, WantStatus(st, peer, i, size), banyan.WaitAll(reqs)); err != nil {
			return err
		}
		if !bytes.Equal(buf, Pattern(peer, size)) {
			return errors.New("the probed message is wrong")
		}
		// No message of the next round comes before this one is over.
		if _, err := c.Sendrecv(nil, peer, 99, nil, peer, 99); err != nil {
			return err
		}
	}
	return nil
}
