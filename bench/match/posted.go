package match

import (
	"errors"
	"time"

	"github.com/banyan-hpc/banyan"
)

// wildEvery is the share of wildcards among the posted receives that wait.
const wildEvery = 10

// posted measures with n receives posted before those of the batch.
func (s *side) posted(n int, drive driver) (float64, error) {
	other, err := s.c.Dup()
	if err != nil {
		return 0, err
	}
	defer other.Free()
	waiting := s.post(n, other)
	seconds, err := drive(s.postedLoop)
	if err != nil {
		return 0, err
	}
	return seconds, s.completePosted(n, waiting, other)
}

// post posts the waiting receives, on rank 0. Receives for any tag would match the batch's messages, so
// they are on a communicator of their own: the queue is the process's, not the communicator's.
func (s *side) post(n int, other *banyan.Comm) []banyan.Request {
	if !s.first {
		return nil
	}
	var waiting []banyan.Request
	for i := range n {
		from := s.peer
		if s.wild && i%wildEvery == 0 {
			from = banyan.AnySource
		}
		waiting = append(waiting, s.c.Irecv(s.entry(i), from, tagWaiting+i))
	}
	if s.wild {
		var any [2][8]byte
		waiting = append(waiting, other.Irecv(any[0][:], s.peer, banyan.AnyTag),
			other.Irecv(any[1][:], banyan.AnySource, banyan.AnyTag))
	}
	return waiting
}

// postedLoop is the timed loop.
func (s *side) postedLoop(n int) (time.Duration, error) {
	tag := 0
	start := s.w.Now()
	for range n {
		tag = s.nextTags()
		var err error
		if s.first {
			err = s.postBatch(tag)
		} else {
			err = s.answerBatch(tag)
		}
		if err != nil {
			return 0, err
		}
	}
	elapsed := s.w.Now() - start
	if !s.first {
		return 0, nil
	}
	return elapsed, s.checkBatch(tag)
}

func (s *side) postBatch(tag int) error {
	for i := range s.reqs {
		s.reqs[i] = s.c.Irecv(s.batch[i][:], s.peer, tag+i)
	}
	if err := s.c.Send(s.word[:], s.peer, tagGo); err != nil {
		return err
	}
	return banyan.WaitAll(s.reqs[:])
}

// answerBatch sends the last one first: it belongs to the receive posted last.
func (s *side) answerBatch(tag int) error {
	if _, err := s.c.Recv(s.word[:], s.peer, tagGo); err != nil {
		return err
	}
	for i := Batch - 1; i >= 0; i-- {
		if err := s.sendWord(tag+i, tag+i); err != nil {
			return err
		}
	}
	return nil
}

// completePosted completes all waiting receives with their messages.
func (s *side) completePosted(n int, waiting []banyan.Request, other *banyan.Comm) error {
	if !s.first {
		err := s.sendWaiting(n)
		if s.wild {
			err = errors.Join(err, other.Send(s.word[:], s.peer, 0), other.Send(s.word[:], s.peer, 1))
		}
		return err
	}
	if err := banyan.WaitAll(waiting); err != nil {
		return err
	}
	for i := range n {
		if err := check(s.entry(i), tagWaiting+i); err != nil {
			return err
		}
	}
	return nil
}
