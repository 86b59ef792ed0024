package banyan

import (
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Key names an attribute: a value of type T that a library keeps with a communicator for itself:
// only the key gives access. It belongs to one process and sends nothing. See [NewKey].
type Key[T any] struct {
	copy   func(from *Comm, value T) (T, bool, error)
	delete func(c *Comm, value T) error
}

// NewKey makes a key. Either function may be nil.
//
// Comm.Dup calls copy for each attribute of the communicator, in the order in which they were set.
// The result becomes the duplicate's attribute if copy returns true. An error makes Dup fail, after
// the attributes that the duplicate already has were deleted. Without copy duplicates do not have
// the attribute; [CopyValue] gives them the same value. Communicators made in other ways have no
// attributes.
//
// Delete is called when the value is removed: by [DeleteAttr], by [SetAttr] for the old value, by
// Comm.Free, and by World.Finalize while the rank can still communicate. Free and Finalize delete
// the attributes in the reverse order of their setting, all of them, and return the errors. In
// other cases an error leaves the attribute unchanged.
//
// The functions are called without locks and may use the communicator.
func NewKey[T any](copy func(from *Comm, value T) (T, bool, error), delete func(c *Comm, value T) error) *Key[T] {
	return &Key[T]{copy, delete}
}

// CopyValue is the copy function of attributes that a duplicate shares.
func CopyValue[T any](_ *Comm, value T) (T, bool, error) { return value, true, nil }

// SetAttr puts a value with a communicator, in place of the present one. Errors: ErrArgument for a
// nil key, ErrClosed, and those of the key's delete function.
func SetAttr[T any](c *Comm, key *Key[T], value T) error {
	if err := DeleteAttr(c, key); err != nil {
		return err
	}
	c = c.valid()
	replaced, err := c.attrs.put(c, held[T]{key, value})
	if replaced != nil { // another goroutine was between
		err = errors.Join(err, replaced.delete(c))
	}
	return c.notifyOf("SetAttr", err)
}

// Attr gives the value that was set under the key, if there is one.
func Attr[T any](c *Comm, key *Key[T]) (value T, ok bool) {
	c = c.valid()
	if a := c.attrs.get(key); a != nil {
		return a.(held[T]).value, true
	}
	return value, false
}

// DeleteAttr removes the value, if there is one. Errors: ErrArgument for a nil key, and those of
// the key's delete function.
func DeleteAttr[T any](c *Comm, key *Key[T]) error {
	if err := c.present("DeleteAttr"); err != nil {
		return err
	}
	c = c.valid()
	if key == nil {
		return c.notifyOf("DeleteAttr", fmt.Errorf("%w: nil for the key", ErrArgument))
	}
	a := c.attrs.take(key)
	if a == nil {
		return nil
	}
	if err := a.delete(c); err != nil {
		_, lost := c.attrs.put(c, a)
		return c.notifyOf("DeleteAttr", errors.Join(err, lost))
	}
	return nil
}

// attribute is a held value of any type.
type attribute interface {
	key() any
	copy(from *Comm) (attribute, bool, error)
	delete(c *Comm) error
}

// held is a value under its key.
type held[T any] struct {
	k     *Key[T]
	value T
}

func (h held[T]) key() any { return h.k }

func (h held[T]) copy(from *Comm) (attribute, bool, error) {
	if h.k.copy == nil {
		return nil, false, nil
	}
	value, wanted, err := h.k.copy(from, h.value)
	if err != nil {
		return nil, false, fmt.Errorf("copy of an attribute %T: %w", h.value, err)
	}
	return held[T]{h.k, value}, wanted, nil
}

func (h held[T]) delete(c *Comm) error {
	if h.k.delete == nil {
		return nil
	}
	if err := h.k.delete(c, h.value); err != nil {
		return fmt.Errorf("delete an attribute %T: %w", h.value, err)
	}
	return nil
}

// attributes are those of one communicator, in the order of setting: few.
type attributes struct {
	mu     sync.Mutex
	list   []attribute
	closed bool
}

func (as *attributes) find(key any) int {
	return slices.IndexFunc(as.list, func(a attribute) bool { return a.key() == key })
}

func (as *attributes) get(key any) attribute {
	as.mu.Lock()
	defer as.mu.Unlock()
	if i := as.find(key); i >= 0 {
		return as.list[i]
	}
	return nil
}

// take removes the attribute and gives it.
func (as *attributes) take(key any) (a attribute) {
	as.mu.Lock()
	defer as.mu.Unlock()
	if i := as.find(key); i >= 0 {
		a = as.list[i]
		as.list = slices.Delete(as.list, i, i+1)
	}
	return a
}

// put adds an attribute, and gives the one that it replaces.
func (as *attributes) put(c *Comm, a attribute) (replaced attribute, err error) {
	as.mu.Lock()
	defer as.mu.Unlock()
	if as.closed {
		return nil, fmt.Errorf("%w: the communicator has been freed", ErrClosed)
	}
	if i := as.find(a.key()); i >= 0 {
		replaced, as.list[i] = as.list[i], a
		return replaced, nil
	}
	as.list = append(as.list, a)
	c.world.holders.add(c)
	return nil, nil
}

// copyTo gives a duplicate the results of the copy functions.
func (as *attributes) copyTo(from, to *Comm) error {
	as.mu.Lock()
	list := slices.Clone(as.list)
	as.mu.Unlock()
	for _, a := range list {
		b, wanted, err := a.copy(from)
		if err != nil {
			return err
		}
		if wanted {
			if _, err := to.attrs.put(to, b); err != nil {
				return err
			}
		}
	}
	return nil
}

// close deletes all, the newest first, and accepts no more.
func (as *attributes) close(c *Comm) error {
	as.mu.Lock()
	list := as.list
	as.list, as.closed = nil, true
	as.mu.Unlock()
	c.world.holders.remove(c)
	var errs []error
	for _, a := range slices.Backward(list) {
		errs = append(errs, a.delete(c))
	}
	return errors.Join(errs...)
}

// holders are the communicators of a world that may have attributes, in the order in which they got
// them.
type holders struct {
	mu   sync.Mutex
	list []*Comm
}

func (h *holders) add(c *Comm) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.Contains(h.list, c) {
		h.list = append(h.list, c)
	}
}

func (h *holders) remove(c *Comm) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.list = slices.DeleteFunc(h.list, func(o *Comm) bool { return o == c })
}

// close deletes the attributes of all.
func (h *holders) close() error {
	var errs []error
	for {
		h.mu.Lock()
		n := len(h.list)
		if n == 0 {
			h.mu.Unlock()
			return errors.Join(errs...)
		}
		c := h.list[n-1]
		h.mu.Unlock()
		errs = append(errs, c.attrs.close(c))
	}
}
