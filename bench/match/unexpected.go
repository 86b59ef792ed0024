package match

import (
	"time"

	"github.com/banyan-hpc/banyan"
)

// unexpected measures with n messages that came before those of the batch.
func (s *side) unexpected(n int, drive driver) (float64, error) {
	if !s.first {
		if err := s.sendWaiting(n); err != nil {
			return 0, err
		}
	}
	if err := s.mark(); err != nil { // after it all of them have been taken in
		return 0, err
	}
	seconds, err := drive(s.unexpectedLoop)
	if err != nil || !s.first {
		return 0, err
	}
	for i := range n {
		if _, err := s.c.Recv(s.entry(i), s.peer, tagWaiting+i); err != nil {
			return 0, err
		}
		if err := check(s.entry(i), tagWaiting+i); err != nil {
			return 0, err
		}
	}
	return seconds, nil
}

// mark notifies rank 0 that the messages before it have arrived: messages of one rank arrive in order.
func (s *side) mark() error {
	if s.first {
		_, err := s.recvWord(tagMark)
		return err
	}
	return s.sendWord(0, tagMark)
}

// unexpectedLoop times the receives of each batch alone.
func (s *side) unexpectedLoop(n int) (time.Duration, error) {
	total := time.Duration(0)
	for range n {
		tag := s.nextTags()
		if !s.first {
			if err := s.sendBatch(tag); err != nil {
				return 0, err
			}
			continue
		}
		if err := s.sendWord(0, tagGo); err != nil {
			return 0, err
		}
		if err := s.mark(); err != nil {
			return 0, err
		}
		start := s.w.Now()
		if err := s.takeBatch(tag); err != nil {
			return 0, err
		}
		total += s.w.Now() - start
		if err := s.checkBatch(tag); err != nil {
			return 0, err
		}
	}
	return total, nil
}

// sendBatch sends a batch when it is asked for.
func (s *side) sendBatch(tag int) error {
	if _, err := s.recvWord(tagGo); err != nil {
		return err
	}
	for i := range Batch {
		if err := s.sendWord(tag+i, tag+i); err != nil {
			return err
		}
	}
	return s.mark()
}

// takeBatch receives the last one first.
func (s *side) takeBatch(tag int) error {
	from := s.peer
	if s.wild {
		from = banyan.AnySource
	}
	for i := Batch - 1; i >= 0; i-- {
		if _, err := s.c.Recv(s.batch[i][:], from, tag+i); err != nil {
			return err
		}
	}
	return nil
}
