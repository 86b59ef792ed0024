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
	l := c.link(dst)
	if l == nil || uint(tag) > MaxTag {
		return c.begin(buf, dst, tag, lent)
	}
	c.e.p.Lock()
	r := c.e.announceNow(c, l, buf, c.ctx|uint64(tag), lent)
	if r == nil {
		c.e.p.Unlock()
		return c.beginTo(l, buf, tag, lent)
	}
	h := Handle{r, r.gen}
	c.e.p.Unlock()
	return h
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

// BorrowNow is Borrow of a message that is lent and that this process reaches, if it is the next frame of rank src, but
// for Fins, and comes soon; nil: it is not, or does not. Then it has taken Fins at most.
func BorrowNow(c *Comm, src, tag int) (ln *Loan) {
	l := c.link(src)
	if l == nil || uint(tag) > MaxTag || l.ep.Viewer() == nil || c.state.Load() != 0 {
		return nil
	}
	e, imm := c.e, c.ctx|uint64(tag)
	e.p.Lock()
	v := e.newView(c) // while it is not urgent
	if e.posted.n == 0 && e.unexpected.n == 0 && e.probing.first == nil && e.awaitAnnounced(l, imm) && e.lookNow(v, l, imm) {
		ln = v.loan
		ln.source, ln.tag = int32(src), int32(tag)
	} else {
		e.freeView(v)
	}
	e.p.Unlock()
	return ln
}

// awaitAnnounced waits for the next frame of a link that is no Fin, and reports whether one has come.
func (e *Engine) awaitAnnounced(l *link, imm uint64) bool {
	for e.p.AwaitFrame(l.ep, fabric.ClassRTS, imm) != progress.NotYet {
		if !e.takeFin(l) {
			return true
		}
	}
	return false
}

// takeFin takes the next frame of a link if it is a Fin.
func (e *Engine) takeFin(l *link) bool {
	name, ok := l.ep.NextIs(fabric.ClassFin)
	if ok {
		l.ep.Advance()
		e.onFin(l.peer, name, nil)
	}
	return ok
}

// lookNow makes a view of the next frame of a link, if that announces a loan; false: Poll delivers the frame.
func (e *Engine) lookNow(v *view, l *link, imm uint64) bool {
	a, ok := decodeRTS(l.ep.Next(fabric.ClassRTS, imm))
	if !ok || !a.lent || a.region.Len == 0 || l.ep.State != progress.Alive {
		return false
	}
	ln := v.loan
	var err error
	if ln.mem, v.end, err = l.ep.Viewer().View(a.region, false); err != nil {
		ln.mem = nil
		return false
	}
	l.ep.Advance()
	ln.count = int(a.total)
	l.heardEver.add(ln.count)
	e.borrow(v, l, a.sender)
	return true
}

// view is a loan in place. It belongs to the engine.
type view struct {
	loan       *Loan
	link       *link
	remote     uint64       // the sender's request
	end        func() error // of the provider's view
	next, prev *view        // in Engine.borrowed; next: also in Engine.freeViews
}

// newView is the view of a new loan.
func (e *Engine) newView(c *Comm) *view {
	v := e.freeViews
	if v == nil {
		v = new(view)
	} else {
		e.freeViews = v.next
	}
	if v.loan == nil {
		v.loan = new(Loan)
	}
	v.loan.comm, v.loan.view = c, v
	return v
}

func (e *Engine) freeView(v *view) {
	v.link, v.end, v.next, v.prev = nil, nil, e.freeViews, nil
	e.freeViews = v
}

// borrow enters a view.
func (e *Engine) borrow(v *view, l *link, remote uint64) {
	v.link, v.remote = l, remote
	l.borrowedEver.InPlace++
	if v.next = e.borrowed; v.next != nil {
		v.next.prev = v
	}
	e.borrowed = v
}

// Borrowed counts the messages that a peer has lent and Borrow has taken.
type Borrowed struct{ InPlace, Copied uint64 }

// Loan is a borrowed message. The root package documents its methods. The application may keep it for ever, so it is small
// and never used again.
type Loan struct {
	comm        *Comm  // nil: there is no loan
	mem         []byte // nil: it has been returned
	source, tag int32  // of the Status
	count       int
	view        *view  // nil for a copy, and once returned
	ended       func() // see TrimLoan
}

var (
	errReturned = fmt.Errorf("%w: the loan has been returned", ft.ErrArgument)
	errNoLoan   = fmt.Errorf("Loan.Return: %w: no loan: Borrow gives them", ft.ErrArgument)
)

// Copy receives the message into memory of its own. Errors as of Recv.
func (g *Message) Copy() (*Loan, error) {
	n := g.st.Count
	mem := make([]byte, n, (n+aligned-1)&^(aligned-1))
	st, err := g.Recv(mem)
	if err != nil {
		return nil, err
	}
	return &Loan{comm: g.comm, mem: mem, source: int32(st.Source), tag: int32(st.Tag), count: st.Count}, nil
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
	if m == nil || !m.lent || m.total == 0 || g.comm.state.Load()&stateRevoked != 0 || g.lost() != nil {
		return nil
	}
	l, view := m.link, m.link.ep.Viewer()
	if view == nil || m.region.Len == 0 {
		l.borrowedEver.Copied++
		return nil
	}
	mem, end, err := view.View(m.region, alone)
	if err != nil { // the copy reports the peer's error
		l.borrowedEver.Copied++
		return nil
	}
	g.m = nil
	e.unexpected.unclaim(m)
	l.waiting--
	v := e.newView(g.comm)
	v.end = end
	ln := v.loan
	ln.mem, ln.source, ln.tag, ln.count = mem, int32(g.st.Source), int32(g.st.Tag), g.st.Count
	e.borrow(v, l, m.remote)
	e.unexpected.release(m)
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
	return Status{Source: int(ln.source), Tag: int(ln.tag), Count: ln.count}
}

// TrimLoan takes a header off a loan, and has a function called by Return.
func TrimLoan(ln *Loan, header int, ended func()) {
	ln.mem, ln.ended = ln.mem[header:], ended
	ln.count -= header
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

func (ln *Loan) giveBack() (err error) {
	if ln.ended != nil {
		ln.ended()
		ln.ended = nil
	}
	e := ln.comm.e
	e.p.Lock()
	if err = errReturned; ln.mem != nil {
		err = e.giveBack(ln)
	}
	e.p.Unlock()
	return err
}

// giveBack ends a loan. The Fin follows the end of the view, so that no access comes after the sender's next
// store.
func (e *Engine) giveBack(ln *Loan) (err error) {
	v := ln.view
	if ln.mem, ln.view = nil, nil; v == nil {
		return nil
	}
	if v.prev == nil {
		e.borrowed = v.next
	} else {
		v.prev.next = v.next
	}
	if v.next != nil {
		v.next.prev = v.prev
	}
	err = v.end()
	if l := v.link; l.ep.State == progress.Alive && !l.shut {
		e.control(l, fabric.ClassFin, v.remote, nil)
	}
	v.loan = nil
	e.freeView(v)
	return err
}

// ReturnLoans gives back all that is lent to this process, which is about to leave the job.
func (e *Engine) ReturnLoans() (err error) {
	e.p.Lock()
	defer e.p.Unlock()
	for e.borrowed != nil {
		if one := e.giveBack(e.borrowed.loan); err == nil {
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
