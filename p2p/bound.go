package p2p

import "errors"

// ways are the ways in which a goroutine waits for a request; 0 is the usual way.
type ways uint8

const (
	agreement ways = 1 << iota // see NewAgreement
	bound                      // see Bind
)

// ErrBound is the result of a wait for a request that is bound and has not completed.
var ErrBound = errors.New("p2p: the layer above waits for this request")

// Bind has a layer above wait for a request, or no longer: Wait and Take of it return ErrBound in
// place of waiting. Requests that are not bound pay nothing for it. Precondition: the lock is held.
func (e *Engine) Bind(h Handle, on bool) {
	switch w := h.wrapping(); {
	case w != nil:
		e.Bind(w.before, on)
		e.Bind(w.inner, on)
	case h.r == nil || h.r.gen != h.gen:
	case on:
		h.r.ways |= bound
	default:
		h.r.ways &^= bound
	}
}

// waitSpecially waits for a request that is not waited for in the usual way.
func (e *Engine) waitSpecially(r *Request) error {
	switch {
	case r.ways&bound != 0 && !r.Done():
		return ErrBound
	case r.ways&agreement != 0:
		e.waitAgreement(r)
	default:
		e.p.Wait(&r.Completion)
	}
	return nil
}

// waitAgreement waits for an agreement that the application has called.
func (e *Engine) waitAgreement(r *Request) {
	c := r.comm
	c.beginAgreeing()
	if !r.Done() {
		e.p.Turn()
	}
	e.p.Wait(&r.Completion)
	c.endAgreeing()
}

// beginAgreeing begins a wait for an agreement that the application has called. Until its end this
// process starts no collective of the communicator, so it answers inquiries.
func (c *Comm) beginAgreeing() {
	c.mutableFT().agreeing++
	c.e.answerInquiries()
}

func (c *Comm) endAgreeing() { c.ftState.agreeing-- }
