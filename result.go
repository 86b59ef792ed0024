package banyan

import (
	"context"
	"fmt"

	"github.com/banyan-hpc/banyan/p2p"
)

// Result is an operation under way that ends with a value, such as [Comm.Ishrink]. It is a small
// value; copies name the same operation, and share the rules of [Request]. The zero Result has ended
// with the zero value.
type Result[T any] struct {
	r     Request
	value *T
}

// Wait returns when the operation is complete, with its value and error. Further calls return the
// value at once, without the error. If a context ends the wait ([Comm.WithContext]) the operation goes
// on, and the value is the zero value.
func (p Result[T]) Wait() (T, error) {
	_, err := p.r.Wait()
	if err != nil && p.r.active() { // a context has ended the wait
		var none T
		return none, err
	}
	return p.Value(), err
}

// Test makes progress and reports whether the operation is complete; if so it has ended, as by Wait.
// Else the value is the zero value.
func (p Result[T]) Test() (value T, done bool, err error) {
	if _, done, err = p.r.Test(); done {
		value = p.Value()
	}
	return value, done, err
}

// WithContext gives the same operation with waits that end with the context; see
// [Request.WithContext].
func (p Result[T]) WithContext(ctx context.Context) Result[T] {
	return Result[T]{p.r.WithContext(ctx), p.value}
}

// Request is the operation's request, to wait for it together with others, as by [WaitAny].
func (p Result[T]) Request() Request { return p.r }

// Value is the value of an operation that has ended, by whichever wait; do not call it before.
func (p Result[T]) Value() (value T) {
	if p.value != nil {
		value = *p.value
	}
	return value
}

// WaitEach is WaitAll that puts the outcome of each request at its index into out, which is at least
// as long as reqs: the outcome of a zero Request is a success. Error: the first of the requests', as
// of WaitAll, or ErrArgument if out is too short, and then nothing has been waited for.
func WaitEach(reqs []Request, out []Outcome) error {
	if len(out) < len(reqs) {
		return fmt.Errorf("wait for each of %d requests: %w: room for %d outcomes", len(reqs), ErrArgument, len(out))
	}
	if cs, err := contextsOf(reqs); cs != nil || err != nil {
		if err == nil {
			err = waitBound(cs, reqs, out)
		}
		return err
	}
	var failed failures
	for i, r := range reqs {
		out[i], reqs[i] = Outcome{Index: i}, Request{}
		if r.h.Empty() {
			continue
		}
		r.c.e.Lock()
		st, err := r.c.e.Take(r.h)
		if err != nil && r.state(r.c.e) != p2p.Ended {
			r.c.e.Poll() // what it waits for may have arrived
			if st, err = r.take(); r.state(r.c.e) != p2p.Ended {
				reqs[i] = r
			}
		}
		r.c.e.Unlock()
		if out[i].Status, out[i].Err = st, err; err != nil {
			failed = append(failed, failure{r.c, err})
		}
	}
	return failed.notify()
}
