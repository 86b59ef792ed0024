package p2p

import (
	"fmt"
	"strconv"
	"time"

	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// Waiting describes the operations that are not complete, first those in which a goroutine sleeps, and
// at most as many as given; more counts the others. Kind names the kinds of blocking collectives.
// Operations on the communicator hidden are left out.
//
// Precondition: the lock is held.
func (e *Engine) Waiting(most int, hidden *Comm, kind func(int) string) (lines []string, more int) {
	var posted []string
	put := func(what string, c *progress.Completion) {
		if waited, sleeps := e.p.Waited(c); sleeps {
			lines = append(lines, what+" for "+time.Duration(waited).Round(time.Millisecond).String())
		} else {
			posted = append(posted, what)
		}
	}
	e.p.Watched(put)
	for _, r := range e.requests {
		if r.comm == nil || r.comm == hidden || r.Done() && !r.pending {
			continue
		}
		if len(lines)+len(posted) >= most {
			if _, sleeps := e.p.Waited(&r.Completion); !sleeps {
				more++
				continue
			}
		}
		put(r.waiting(kind), &r.Completion)
	}
	lines = append(lines, posted...)
	if len(lines) > most {
		more += len(lines) - most
		lines = lines[:most]
	}
	return lines, more
}

// waiting describes an operation that is not complete.
func (r *Request) waiting(kind func(int) string) string {
	if r.comm.parent == nil {
		var e ft.OpError
		r.describe(&e)
		return e.Operation()
	}
	op, peer := "non-blocking collective", "any"
	if r.imm&TaskTag == 0 {
		op = kind(int(r.imm & kindMask))
	}
	if id := r.peer(); id != proc.None {
		peer = strconv.Itoa(r.comm.originalRank(id))
	}
	return fmt.Sprintf("%s on %s, waiting for rank %s", op, r.comm.Name(), peer)
}

// peer is the process that the operation needs, or proc.None for any.
func (r *Request) peer() proc.ID {
	switch {
	case r.kind == reqSend && r.link == nil:
		return proc.None
	case r.kind == reqSend:
		return r.link.peer
	case r.from != proc.None:
		return r.from
	}
	return r.src
}
