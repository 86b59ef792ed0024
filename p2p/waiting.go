package p2p

import (
	"fmt"
	"strconv"
	"time"

	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// Waiting describes the operations that are not complete, those that a goroutine sleeps for first, and
// at most as many as given; more counts the others. Kind names the kinds of blocking collectives. What
// happens on the communicator hidden is left out.
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
		put(r.describe(kind), &r.Completion)
	}
	lines = append(lines, posted...)
	if len(lines) > most {
		more += len(lines) - most
		lines = lines[:most]
	}
	return lines, more
}

// describe describes an operation with its peer, tag and communicator.
func (r *Request) describe(kind func(int) string) string {
	c := r.comm
	peer, tag := "any", "any"
	if id := r.peer(); id != proc.None {
		peer = strconv.Itoa(c.originalRank(id))
	}
	if uint32(r.imm) != anyTag {
		tag = strconv.Itoa(int(uint32(r.imm)))
	}
	switch {
	case r.kind == reqPromise && r.ways&agreement != 0:
		return "agreement on " + c.Name()
	case r.kind == reqPromise:
		return "non-blocking operation on " + c.Name()
	case c.parent != nil:
		op := "non-blocking collective"
		if r.imm&TaskTag == 0 {
			op = kind(int(r.imm & kindMask))
		}
		return fmt.Sprintf("%s on %s, waiting for rank %s", op, c.Name(), peer)
	case r.kind == reqSend:
		return fmt.Sprintf("send(dst %s, tag %s, %d bytes) on %s", peer, tag, len(r.buf), c.Name())
	}
	return fmt.Sprintf("%v(src %s, tag %s) on %s", r.kind, peer, tag, c.Name())
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
