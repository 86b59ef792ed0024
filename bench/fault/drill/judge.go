package drill

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/pattern"
)

// excuse returns nil for an error that the peer's death explains.
func (r *rank) excuse(err error, peer int) error {
	r.failed++
	var failed *banyan.ProcFailedError
	if !errors.As(err, &failed) || !slices.Equal(failed.Ranks, []int{peer}) {
		return fmt.Errorf("an operation with rank %d ended with: %w", peer, err)
	}
	return r.blameFailed(failed)
}

// blameFailed is blame for an error, and counts its cause.
func (r *rank) blameFailed(failed *banyan.ProcFailedError) error {
	r.trace.blamed(r.me, failed.Cause.Kind)
	return r.blame(failed, failed.Ranks)
}

// blame records the ranks that an error names. A rank that is not doomed is alive.
func (r *rank) blame(err error, ranks []int) error {
	for _, rank := range ranks {
		if !r.p.dies(rank) {
			return fmt.Errorf("rank %d is blamed and lives: %w", rank, err)
		}
		r.blamed[rank] = true
	}
	return nil
}

// excuseAny returns nil for an error that the death of any rank explains.
func (r *rank) excuseAny(err error) error {
	r.failed++
	var failed *banyan.ProcFailedError
	if errors.As(err, &failed) && len(failed.Ranks) > 0 {
		return r.blameFailed(failed)
	}
	if errors.Is(err, banyan.ErrProcFailedPending) && len(r.p.doomed) > 0 {
		return nil
	}
	return err
}

// excuseSome returns nil for the error of several operations that the death of one of their peers
// explains.
func (r *rank) excuseSome(err error, ops []under) error {
	r.failed++
	var failed *banyan.ProcFailedError
	if !errors.As(err, &failed) || len(failed.Ranks) != 1 ||
		!slices.ContainsFunc(ops, func(u under) bool { return u.t.peer(r.me) == failed.Ranks[0] }) {
		return fmt.Errorf("a wait for several operations ended with: %w", err)
	}
	return r.blameFailed(failed)
}

// peer is the other end of a message.
func (t *transfer) peer(me int) int {
	if t.src == me {
		return t.dst
	}
	return t.src
}

// check compares the received message with the sent one.
func (t *transfer) check(st banyan.Status, buf []byte) error {
	if st.Source != t.src || st.Tag != t.tag || st.Count != t.size {
		return fmt.Errorf("got %+v, want %+v", st, *t)
	}
	return t.intact(buf)
}

func (t *transfer) intact(buf []byte) error {
	if n := pattern.Wrong(buf[:t.size], t.seed); n > 0 {
		return fmt.Errorf("%d bytes of %+v are wrong", n, *t)
	}
	return nil
}

// received judges the end of a receive from a named source.
func (r *rank) received(t *transfer, st banyan.Status, buf []byte, err error) error {
	switch {
	case err != nil:
		return r.excuse(err, t.src)
	case st.Source == banyan.ProcNull && r.null(r.on(t), t.src):
		return nil
	}
	return t.check(st, buf)
}

// null reports whether a rank may behave as ProcNull: under run-through stabilization, after its
// failure has been acknowledged.
func (r *rank) null(c *banyan.Comm, peer int) bool {
	return r.p.profile == banyan.RTS && r.acked[c][peer]
}

// sent judges the end of a send.
func (r *rank) sent(t *transfer, err error) error {
	if err != nil {
		return r.excuse(err, t.dst)
	}
	return nil
}

// acknowledge acknowledges the failures on a communicator, and judges their ranks.
func (r *rank) acknowledge(c *banyan.Comm) error {
	r.step("acknowledge failures")
	r.begin(failureAck)
	known := c.GetFailed()
	if err := r.done(failureAck, c.FailureAck()); err != nil {
		return err
	}
	ranksOf := func(g banyan.Group) []int {
		ranks := make([]int, 0, c.Size())
		for rank := range c.Size() {
			ranks = append(ranks, rank)
		}
		named := g.Size()
		there, err := g.Translate(ranks[:named], c.Group())
		if err != nil {
			return []int{-1}
		}
		return there
	}
	was, now, failing := ranksOf(known), ranksOf(c.FailureGetAcked()), ranksOf(c.GetFailed())
	prefix := func(a, b []int) bool { return len(a) <= len(b) && slices.Equal(a, b[:len(a)]) }
	if !prefix(was, now) || !prefix(now, failing) {
		return fmt.Errorf("failures are %v, then acknowledged %v, then %v: want each a prefix of the next",
			was, now, failing)
	}
	if r.acked[c] == nil {
		r.acked[c] = map[int]bool{}
	}
	for _, rank := range now {
		r.acked[c][rank] = true
	}
	return r.blame(errors.New("acknowledged"), now)
}

// fresh is a buffer whose bytes are in no message.
func fresh(size int) []byte { return bytes.Repeat([]byte{untouched}, size) }

const untouched = 0x5a

// still returns an error if a fresh buffer has been written to.
func still(buf []byte) error {
	for i, b := range buf {
		if b != untouched {
			return fmt.Errorf("byte %d of the buffer of a receive that was taken back is %#x", i, b)
		}
	}
	return nil
}

func (r *rank) dup(c *banyan.Comm) (*banyan.Comm, error) {
	r.begin(dup)
	d, err := c.Dup()
	return d, r.done(dup, err)
}

func fill(data []int64, v int64) {
	for i := range data {
		data[i] = v
	}
}
