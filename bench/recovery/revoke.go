package recovery

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/bench/ranks"
)

// revocation has one rank revoke a communicator in whose barrier all others wait, and measures until
// the last of them has returned; and then as many barriers as a block has calls.
func (s *side) revocation(number int) error {
	c, err := s.living.Dup()
	if err != nil {
		return err
	}
	if err := c.Barrier(); err != nil { // all have it, and are connected
		return err
	}
	if err := s.living.Barrier(); err != nil { // all have left it
		return err
	}
	n, me := c.Size(), c.Rank()
	revoker := number % n
	if me == revoker {
		ranks.Settle(s.o.Settle)
	}
	at, err := ranks.Clock()
	if err != nil {
		return err
	}
	if me == revoker {
		err = c.Revoke()
	} else {
		if err = c.Barrier(); !errors.Is(err, banyan.ErrRevoked) {
			return fmt.Errorf("rank %d's barrier ended with %w, want that it is revoked", me, err)
		}
		at, err = ranks.Clock()
	}
	if err != nil {
		return err
	}
	all := make([]byte, 8*n)
	mine := binary.LittleEndian.AppendUint64(nil, uint64(at))
	if err := s.living.AllgatherBytes(mine, all); err != nil {
		return err
	}
	last, begun := int64(0), int64(binary.LittleEndian.Uint64(all[8*revoker:]))
	for at := 0; at < len(all); at += 8 {
		last = max(last, int64(binary.LittleEndian.Uint64(all[at:]))-begun)
	}
	if number > 0 {
		s.calls.add(last)
	}
	if err := c.Free(); err != nil {
		return err
	}
	barrier, err := s.block(operation{do: s.living.Barrier}, s.base, number > 0)
	if err != nil {
		return err
	}
	return s.note(number, time.Duration(last), barrier)
}
