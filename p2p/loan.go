package p2p

import (
	"fmt"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// A loan is an announced message whose receiver reads the sender's memory in place, and sends the Fin when it has
// finished. To the sender it is a synchronous send, so all rules of failures are those of sends. An ordinary
// receive copies a lent message and answers at once. The flag in the announcement keeps the buffer of an ordinary
// send from waiting for a borrower.

// Lend starts to send buf by reference. The request is complete when the receiver has returned it, or has
// copied it.
func Lend[M Mode](c *Comm, buf []byte, dst, tag int) Handle {
	if checked[M]() && c.state.Load() != 0 {
		if err := c.checkState(false); err != nil {
			return c.e.Failed(c, c.opError(reqSend, dst, tag, len(buf), err))
		}
	}
	if l := c.link(dst); l != nil && uint(tag) <= MaxTag {
		return c.beginTo(l, buf, tag, lent)
	}
	return c.begin(buf, dst, tag, lent)
}

// LendNow is Lend and Wait, if the announcement can leave at once; else it does nothing.
func LendNow(c *Comm, buf []byte, dst, tag int) (done bool, err error) {
	l := c.link(dst)
	if l == nil || uint(tag) > MaxTag {
		return false, nil
	}
	c.e.p.Lock()
	r := c.e.announceNow(c, l, buf, c.ctx|uint64(tag), lent)
	if r == nil {
		c.e.p.Unlock()
		return false, nil
	}
	return true, c.e.waitAnnounced(r)
}

// BorrowNow is Borrow of a message that is lent and that this process reaches, if it is the next frame of rank src and
// comes soon; nil: it is not, or does not, and nothing has changed.
func BorrowNow(c *Comm, src, tag int) *Loan {
	l := c.link(src)
	if l == nil || uint(tag) > MaxTag || l.ep.Viewer() == nil || c.state.Load() != 0 {
		return nil
	}
	e, imm := c.e, c.ctx|uint64(tag)
	ln := &Loan{comm: c, st: Status{Source: src, Tag: tag}, link: l} // while it is not urgent
	e.p.Lock()
	if e.posted.n != 0 || e.unexpected.n != 0 || e.probing.first != nil ||
		e.p.AwaitFrame(l.ep, fabric.ClassRTS, imm) == progress.NotYet || !e.lookNow(ln, imm) {
		ln = nil
	}
	e.p.Unlock()
	return ln
}

// lookNow makes a loan of the next frame of its link, if that announces one; false: Poll delivers the frame.
func (e *Engine) lookNow(ln *Loan, imm uint64) (ok bool) {
	l := ln.link
	a, ok := decodeRTS(l.ep.Next(fabric.ClassRTS, imm))
	if !ok || !a.lent || a.region.Len == 0 || l.ep.State != progress.Alive {
		return false
	}
	var err error
	if ln.mem, ln.end, err = l.ep.Viewer().View(a.region, false); err != nil {
		return false
	}
	l.ep.Advance()
	ln.remote, ln.st.Count = a.sender, int(a.total)
	l.heardEver.add(int(a.total))
	e.borrow(ln)
	return true
}

// borrow enters a view.
func (e *Engine) borrow(ln *Loan) {
	ln.link.borrowedEver.InPlace++
	if ln.next = e.borrowed; ln.next != nil {
		ln.next.prev = ln
	}
	e.borrowed = ln
}

// Borrowed counts the messages that a peer has lent and Borrow has taken.
type Borrowed struct{ InPlace, Copied uint64 }

// Loan is a borrowed message. The root package documents its methods.
type Loan struct {
	comm       *Comm // nil: there is no loan
	mem        []byte
	st         Status
	link       *link        // of a view; nil for a copy, and once returned
	remote     uint64       // the sender's request
	end        func() error // of the view
	returned   bool
	ended      func() // see Behind
	next, prev *Loan  // in Engine.borrowed, of views
}

var (
	errReturned = fmt.Errorf("%w: the loan has been returned", ft.ErrArgument)
	errNoLoan   = fmt.Errorf("Loan.Return: %w: no loan: Borrow gives them", ft.ErrArgument)
)

// Copy receives the message into memory of its own. Errors as of Recv.
func (g *Message) Copy() (*Loan, error) {
	n := g.st.Count
	ln := &Loan{comm: g.comm, mem: make([]byte, n, (n+aligned-1)&^(aligned-1))}
	var err error
	if ln.st, err = g.Recv(ln.mem); err != nil {
		return nil, err
	}
	return ln, nil
}

// aligned is the alignment of every number.
const aligned = 8

// View receives the message without a copy, if it is lent and lies in memory that this process reaches; nil: it
// does not. A view that is alone faults when it is used after its return.
func (g *Message) View(alone bool) *Loan {
	if g.st.Source == ProcNull {
		return nil
	}
	e := g.comm.e
	e.p.Lock()
	defer e.p.Unlock()
	m := g.m
	if m == nil || !m.lent || m.total == 0 || g.comm.state.Load()&stateRevoked != 0 || m.link.ep.State != progress.Alive {
		return nil
	}
	l := m.link
	ln := &Loan{comm: g.comm, st: g.st, link: l, remote: m.remote}
	if v := l.ep.Viewer(); v != nil && m.region.Len != 0 {
		var err error
		if ln.mem, ln.end, err = v.View(m.region, alone); err != nil {
			ln.end = nil // it is copied: the copy reports the peer's error
		}
	}
	if ln.end == nil {
		l.borrowedEver.Copied++
		return nil
	}
	g.m = nil
	e.unexpected.unclaim(m)
	l.waiting--
	e.unexpected.release(m)
	e.borrow(ln)
	return ln
}

// Bytes is the message, to be read only: over shared memory a store into a view ends the process. It is nil
// after Return, and slices of it must not be used then. Under the debug setting such a use of a view ends the
// process.
func (ln *Loan) Bytes() []byte {
	if ln == nil {
		return nil
	}
	return ln.mem
}

// Status describes the message.
func (ln *Loan) Status() Status {
	if ln == nil {
		return Status{}
	}
	return ln.st
}

// TrimLoan takes a header off a loan, and has a function called by Return.
func TrimLoan(ln *Loan, header int, ended func()) {
	ln.mem, ln.ended = ln.mem[header:], ended
	ln.st.Count -= header
}

// Return ends the loan: the lender may change the memory. Error: ErrArgument if it has been returned.
func (ln *Loan) Return() error {
	if ln == nil || ln.comm == nil {
		return errNoLoan
	}
	err := ln.giveBack()
	if err == nil {
		return nil
	}
	op := ln.comm.OpError("Loan.Return")
	op.Err = err
	return ln.comm.notifyHandler(op)
}

func (ln *Loan) giveBack() error {
	if ln.ended != nil {
		ln.ended()
		ln.ended = nil
	}
	e := ln.comm.e
	e.p.Lock()
	defer e.p.Unlock()
	if ln.returned {
		return errReturned
	}
	return e.giveBack(ln)
}

// giveBack ends a loan. The Fin follows the end of the view, so that no access comes after the sender's next
// store.
func (e *Engine) giveBack(ln *Loan) (err error) {
	ln.returned, ln.mem = true, nil
	l := ln.link
	if l == nil {
		return nil
	}
	if ln.link = nil; ln.prev == nil {
		e.borrowed = ln.next
	} else {
		ln.prev.next = ln.next
	}
	if ln.next != nil {
		ln.next.prev = ln.prev
	}
	ln.next, ln.prev = nil, nil
	err = ln.end()
	if l.ep.State == progress.Alive && !l.shut {
		e.control(l, fabric.ClassFin, ln.remote, nil)
	}
	return err
}

// ReturnLoans gives back all that is lent to this process, which is about to leave the job.
func (e *Engine) ReturnLoans() (err error) {
	e.p.Lock()
	defer e.p.Unlock()
	for e.borrowed != nil {
		if one := e.giveBack(e.borrowed); err == nil {
			err = one
		}
	}
	return err
}

// Borrowed counts the loans of a peer. Precondition: the lock is held.
func (e *Engine) Borrowed(peer proc.ID) Borrowed {
	if l := e.findLink(peer); l != nil {
		return l.borrowedEver
	}
	return Borrowed{}
}
