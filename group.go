package banyan

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/p2p"
)

// Undefined is the rank of a process that is not in a group, and the color of a rank that takes
// part in [Comm.Split] without becoming a member of a new communicator.
const Undefined = -3

// Group is an ordered set of processes; the position of a process is its rank. A Group is an
// immutable value; the zero Group is empty. All methods are local: they send nothing, and any
// goroutine may call them.
type Group struct {
	g    p2p.Group
	self proc.ID
}

// Size is the number of members.
func (g Group) Size() int { return g.g.Size() }

// Rank is this process's rank in the group, or [Undefined].
func (g Group) Rank() int { return g.rank(g.self) }

// Ranks returns the members in the group's order, as ranks of the world's communicator
// ([World.Comm]). [Group.Translate] returns their ranks in any other group; [Comm.FailedRanks]
// returns the failed ranks of a communicator.
func (g Group) Ranks() []int {
	out := make([]int, 0, g.Size())
	for _, p := range g.g.Procs() {
		out = append(out, int(p))
	}
	return out
}

func (g Group) rank(p proc.ID) int {
	if r := g.g.Rank(p); r >= 0 {
		return r
	}
	return Undefined
}

// Translate returns, for processes with the given ranks in this group, their ranks in another
// group: Undefined for a process that is not a member, [ProcNull] for ProcNull. Error: ErrArgument,
// for a rank that this group does not have.
func (g Group) Translate(ranks []int, to Group) ([]int, error) {
	out := make([]int, len(ranks))
	for i, r := range ranks {
		if r == ProcNull {
			out[i] = ProcNull
			continue
		}
		if r < 0 || r >= g.Size() {
			return nil, g.noRank("Group.Translate", r)
		}
		out[i] = to.rank(g.g.Proc(r))
	}
	return out, nil
}

// Include returns the group of the members with the given ranks, in that order. Error: ErrArgument,
// for a rank that this group does not have or that is named twice.
func (g Group) Include(ranks ...int) (Group, error) {
	named, err := g.named("Group.Include", ranks)
	if err != nil {
		return Group{}, err
	}
	return g.of(named), nil
}

// Exclude returns the group without the members with the given ranks, in the order of this one.
// Errors as for Include.
func (g Group) Exclude(ranks ...int) (Group, error) {
	named, err := g.named("Group.Exclude", ranks)
	if err != nil {
		return Group{}, err
	}
	return g.Difference(g.of(named)), nil
}

// named returns the processes with the given ranks, which must exist and differ.
func (g Group) named(op string, ranks []int) ([]proc.ID, error) {
	seen := make(map[int]bool, len(ranks))
	out := make([]proc.ID, 0, len(ranks))
	for _, r := range ranks {
		if r < 0 || r >= g.Size() {
			return nil, g.noRank(op, r)
		}
		if seen[r] {
			return nil, misuse(op, fmt.Errorf("%w: rank %d is named twice", ErrArgument, r))
		}
		seen[r] = true
		out = append(out, g.g.Proc(r))
	}
	return out, nil
}

// Union returns the members of this group, followed by the members of o that are not in this one.
func (g Group) Union(o Group) Group {
	if g.Size() == 0 {
		return o // the zero Group has no rank of this process
	}
	return g.of(append(g.g.Procs(), o.Difference(g).g.Procs()...))
}

// Intersection returns the members of this group that are in the other, in the order of this one.
func (g Group) Intersection(o Group) Group {
	return g.of(slices.DeleteFunc(g.g.Procs(), func(p proc.ID) bool { return o.g.Rank(p) < 0 }))
}

// Difference returns the members of this group that are not in the other, in the order of this one.
func (g Group) Difference(o Group) Group {
	return g.of(slices.DeleteFunc(g.g.Procs(), func(p proc.ID) bool { return o.g.Rank(p) >= 0 }))
}

// Comparison is the result of comparing groups or communicators.
type Comparison int

// The outcomes. Congruent is for communicators: the groups are identical, the
// contexts are not.
const (
	Identical Comparison = iota
	Congruent
	Similar // the same members in another order
	Unequal
)

// String returns the outcome's name.
func (c Comparison) String() string {
	if c < Identical || c > Unequal {
		return fmt.Sprintf("Comparison(%d)", int(c))
	}
	return [...]string{"identical", "congruent", "similar", "unequal"}[c]
}

// Compare reports whether two groups have the same members (Similar), and in the same order
// (Identical).
func (g Group) Compare(o Group) Comparison {
	switch {
	case g.g.Equal(o.g):
		return Identical
	case g.Size() == o.Size() && g.Difference(o).Size() == 0:
		return Similar
	}
	return Unequal
}

// of makes a group of distinct processes.
func (g Group) of(procs []proc.ID) Group { return Group{p2p.NewGroup(procs), g.self} }

func (g Group) noRank(op string, r int) error {
	return misuse(op, fmt.Errorf("%w: rank %d, want 0 … %d", ErrArgument, r, g.Size()-1))
}

// Key names an attribute: a value of type T that a library attaches to a communicator. Only the key
// gives access to it. It belongs to one process and sends nothing. See [NewKey].
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

// CopyValue is a copy function: the duplicate gets the same value.
func CopyValue[T any](_ *Comm, value T) (T, bool, error) { return value, true, nil }

// SetAttr attaches a value to a communicator, in place of the present one. Errors: ErrArgument for
// a nil key, ErrClosed, and those of the key's delete function.
func SetAttr[T any](c *Comm, key *Key[T], value T) error {
	if err := DeleteAttr(c, key); err != nil {
		return err
	}
	c = c.valid()
	replaced, err := c.attrs.put(c, held[T]{key, value})
	if replaced != nil { // another goroutine has set one meanwhile
		err = errors.Join(err, replaced.delete(c))
	}
	return c.notifyOf("SetAttr", err)
}

// Attr returns the value that was set under the key, if there is one.
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

// attributes are those of one communicator, in the order in which they were set. There are few.
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

// take removes the attribute and returns it.
func (as *attributes) take(key any) (a attribute) {
	as.mu.Lock()
	defer as.mu.Unlock()
	if i := as.find(key); i >= 0 {
		a = as.list[i]
		as.list = slices.Delete(as.list, i, i+1)
	}
	return a
}

// put adds an attribute and returns the one that it replaces.
func (as *attributes) put(c *Comm, a attribute) (replaced attribute, err error) {
	as.mu.Lock()
	defer as.mu.Unlock()
	if as.closed || !c.world.holders.add(c) {
		return nil, fmt.Errorf("%w: the communicator has been freed, or the library finalized", ErrClosed)
	}
	if i := as.find(a.key()); i >= 0 {
		replaced, as.list[i] = as.list[i], a
		return replaced, nil
	}
	as.list = append(as.list, a)
	return nil, nil
}

// copyTo stores the results of the copy functions in a duplicate.
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

// close deletes all attributes, the newest first; later ones are refused.
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

// holders are the communicators of a world that may have attributes, in the order in which they
// first got one.
type holders struct {
	mu     sync.Mutex
	list   []*Comm
	closed bool // then the list is empty
}

// add enters a communicator; false: close has been called.
func (h *holders) add(c *Comm) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed && !slices.Contains(h.list, c) {
		h.list = append(h.list, c)
	}
	return !h.closed
}

func (h *holders) remove(c *Comm) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.list = slices.DeleteFunc(h.list, func(o *Comm) bool { return o == c })
}

// close deletes the attributes of all communicators; later ones are refused.
func (h *holders) close() error {
	var errs []error
	for {
		h.mu.Lock()
		n := len(h.list)
		if n == 0 {
			h.closed = true
			h.mu.Unlock()
			return errors.Join(errs...)
		}
		c := h.list[n-1]
		h.mu.Unlock()
		errs = append(errs, c.attrs.close(c))
	}
}
