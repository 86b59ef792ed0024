package match

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/banyan-hpc/banyan"
)

// The tags. Those of the waiting entries count up from tagWaiting, those of the batches repeat from
// tagBatch on.
const (
	tagPlan    = 1 // rank 0: so many iterations follow
	tagGo      = 2 // posted: the batch is posted; unexpected: next batch, please
	tagMark    = 3 // rank 1: all of it has been sent
	tagWaiting = 1 << 21
	tagBatch   = 1 << 22
	// batchTags is the number of tags after which those of the batches repeat.
	batchTags = 1 << 16 / Batch * Batch
)

// side is one of the two ranks.
type side struct {
	w        *banyan.World
	c        *banyan.Comm
	first    bool // rank 0
	peer     int
	wild     bool
	bytes    []byte // of the entries that wait, 8 each
	word     [8]byte
	batch    [Batch][8]byte
	reqs     [Batch]banyan.Request
	sequence int // counts the messages of the batches
}

func newSide(w *banyan.World, longest int) (*side, error) {
	c := w.Comm()
	if n := c.Size(); n != 2 {
		return nil, fmt.Errorf("match: the job has %d ranks, exactly 2 are needed: start it with -n 2", n)
	}
	return &side{w: w, c: c, first: c.Rank() == 0, peer: 1 - c.Rank(), bytes: make([]byte, 8*longest)}, nil
}

// driver calls a loop of n iterations, which returns their time, repeatedly, and returns the result of
// the measurement.
type driver func(loop func(n int) (time.Duration, error)) (float64, error)

// measure builds a queue of n entries, measures for at least atLeast, and takes
// the queue down. It returns the seconds per match on rank 0.
func (s *side) measure(series string, n int, atLeast time.Duration) (float64, error) {
	return s.drive(series, n, func(loop func(int) (time.Duration, error)) (float64, error) {
		return s.repeat(atLeast, loop)
	})
}

// drive is measure with iterations as drive wants them.
func (s *side) drive(series string, n int, drive driver) (float64, error) {
	s.wild = series == PostedWild || series == UnexpectedWild
	if series == Posted || series == PostedWild {
		return s.posted(n-Batch, drive)
	}
	return s.unexpected(n-Batch, drive)
}

// repeat does chunks of iterations until they have taken the time, twice as many
// in each; the first, which is not counted, warms up. loop returns how long its n
// iterations took.
func (s *side) repeat(atLeast time.Duration, loop func(n int) (time.Duration, error)) (float64, error) {
	const (
		warmup = 16
		most   = 1 << 20 // the limit if time stands still, in the simulator
	)
	if !s.first {
		for {
			n, err := s.recvWord(tagPlan)
			if err != nil || n == 0 {
				return 0, err
			}
			if _, err := loop(n); err != nil {
				return 0, err
			}
		}
	}
	total, done := time.Duration(0), 0
	for n := warmup; n == warmup || done == 0 || total < atLeast && n <= most; n *= 2 {
		if err := s.sendWord(n, tagPlan); err != nil {
			return 0, err
		}
		elapsed, err := loop(n)
		if err != nil {
			return 0, err
		}
		if n > warmup {
			total, done = total+elapsed, done+n
		}
	}
	return total.Seconds() / float64(done) / Batch, s.sendWord(0, tagPlan)
}

// nextTags returns the first of the tags of the next batch.
func (s *side) nextTags() int {
	s.sequence += Batch
	return tagBatch + s.sequence%batchTags
}

// checkBatch reports the first message of a batch that does not match its tag.
func (s *side) checkBatch(tag int) error {
	for i := range s.batch {
		if err := check(s.batch[i][:], tag+i); err != nil {
			return err
		}
	}
	return nil
}

// check compares the contents of a message with its tag.
func check(b []byte, tag int) error {
	if got := binary.LittleEndian.Uint64(b); got != uint64(tag) {
		return fmt.Errorf("the receive for tag %d got the message of tag %d", tag, got)
	}
	return nil
}

func (s *side) sendWord(n, tag int) error {
	binary.LittleEndian.PutUint64(s.word[:], uint64(n))
	return s.c.Send(s.word[:], s.peer, tag)
}

func (s *side) recvWord(tag int) (int, error) {
	_, err := s.c.Recv(s.word[:], s.peer, tag)
	return int(binary.LittleEndian.Uint64(s.word[:])), err
}

// sendWaiting sends the messages of the waiting entries, each with its tag.
func (s *side) sendWaiting(n int) error {
	for i := range n {
		if err := s.sendWord(tagWaiting+i, tagWaiting+i); err != nil {
			return err
		}
	}
	return nil
}

// entry is the buffer of an entry that waits.
func (s *side) entry(i int) []byte { return s.bytes[8*i : 8*i+8] }
