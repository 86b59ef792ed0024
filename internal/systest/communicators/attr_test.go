package communicators

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
)

// single runs body in a simulated world of one rank.
func single(t *testing.T, body func(w *banyan.World) error) {
	t.Helper()
	require.NoError(t, banyan.Simulate(1, banyan.Simulation{}, body))
}

var errRefuse = errors.New("no")

func TestAttributes(t *testing.T) {
	var deleted []string
	drop := func(c *banyan.Comm, v string) error {
		deleted = append(deleted, v+" of "+c.Name())
		return nil
	}
	single(t, func(w *banyan.World) error {
		c := w.Comm()
		kept := banyan.NewKey(banyan.CopyValue[string], drop)
		mine := banyan.NewKey[string](nil, drop)
		changed := banyan.NewKey(func(from *banyan.Comm, v string) (string, bool, error) {
			return v + "'", from == c, nil
		}, drop)
		number := banyan.NewKey[int](nil, nil)
		if _, ok := banyan.Attr(c, kept); ok {
			return errors.New("there is an attribute that was not set")
		}
		err := errors.Join(banyan.SetAttr(c, kept, "a"), banyan.SetAttr(c, mine, "b"), banyan.SetAttr(c, changed, "c"),
			banyan.SetAttr(c, number, 1), banyan.SetAttr(c, number, 2))
		if err != nil {
			return err
		}
		if n, ok := banyan.Attr(c, number); !ok || n != 2 {
			return fmt.Errorf("a number that was set twice is %d", n)
		}
		d, err := c.Dup()
		if err != nil {
			return err
		}
		v1, ok1 := banyan.Attr(d, kept)
		_, ok2 := banyan.Attr(d, mine)
		v3, ok3 := banyan.Attr(d, changed)
		if v1 != "a" || !ok1 || ok2 || v3 != "c'" || !ok3 {
			return fmt.Errorf("the duplicate has %q %v, %v, %q %v", v1, ok1, ok2, v3, ok3)
		}
		side, err := c.Split(0, 0)
		if err != nil {
			return err
		}
		if _, ok := banyan.Attr(side, kept); ok {
			return errors.New("split copies attributes")
		}
		if err := banyan.SetAttr(c, kept, "A"); err != nil || len(deleted) != 1 {
			return fmt.Errorf("replaced: %w, %q", err, deleted)
		}
		if err := errors.Join(banyan.DeleteAttr(c, mine), banyan.DeleteAttr(c, mine), d.Free()); err != nil {
			return err
		}
		if err := banyan.SetAttr(d, kept, "late"); !errors.Is(err, banyan.ErrClosed) {
			return fmt.Errorf("set after Free: %w", err)
		}
		return nil
	})
	// At the end the remaining ones, the youngest first.
	require.Equal(t, []string{"a of world", "b of world", "c' of world.1", "a of world.1", "A of world",
		"c of world"}, deleted)
}

// If a copy function fails, the copied attributes are deleted again and there is no duplicate.
func TestAttributeThatIsNotCopied(t *testing.T) {
	var deleted []int
	single(t, func(w *banyan.World) error {
		c := w.Comm()
		plain := banyan.NewKey(banyan.CopyValue[int], func(c *banyan.Comm, v int) error {
			if c != w.Comm() {
				deleted = append(deleted, v)
			}
			return nil
		})
		third := banyan.NewKey(func(*banyan.Comm, int) (int, bool, error) { return 0, true, errRefuse }, nil)
		never := banyan.NewKey(func(*banyan.Comm, int) (int, bool, error) {
			return 0, true,
				errors.New("called too late")
		}, nil)
		second := banyan.NewKey(banyan.CopyValue[int], func(c *banyan.Comm, v int) error {
			if c != w.Comm() {
				deleted = append(deleted, v)
			}
			return nil
		})
		err := errors.Join(banyan.SetAttr(c, plain, 1), banyan.SetAttr(c, second, 2), banyan.SetAttr(c, third, 3),
			banyan.SetAttr(c, never, 4))
		if err != nil {
			return err
		}
		var h told
		c.SetErrorHandler(h.handle)
		d, err := c.Dup()
		if d != nil || !errors.Is(err, errRefuse) || len(h.errs) != 1 || !slices.Equal(deleted, []int{2, 1}) {
			return fmt.Errorf("dup: %v, %w, told %d times, deleted %v", d, err, len(h.errs), deleted)
		}
		return nil
	})
}

// An attribute whose delete function fails stays, except when the communicator ends: then all are
// deleted and the error is returned.
func TestAttributeThatIsNotDeleted(t *testing.T) {
	calls := 0
	err := banyan.Simulate(1, banyan.Simulation{}, func(w *banyan.World) error {
		c := w.Comm()
		stubborn := banyan.NewKey(banyan.CopyValue[int], func(*banyan.Comm, int) error { calls++; return errRefuse })
		if err := banyan.SetAttr(c, stubborn, 1); err != nil {
			return err
		}
		d, err := c.Dup()
		if err != nil {
			return err
		}
		if err := banyan.SetAttr(c, stubborn, 2); !errors.Is(err, errRefuse) {
			return fmt.Errorf("replaced: %v", err)
		}
		if err := banyan.DeleteAttr(c, stubborn); !errors.Is(err, errRefuse) {
			return fmt.Errorf("deleted: %v", err)
		}
		if v, ok := banyan.Attr(c, stubborn); !ok || v != 1 {
			return fmt.Errorf("it is %d %v", v, ok)
		}
		if err := d.Free(); !errors.Is(err, errRefuse) || calls != 3 {
			return fmt.Errorf("free: %v, %d calls", err, calls)
		}
		if err := d.Send(nil, 0, 0); !errors.Is(err, banyan.ErrClosed) {
			return fmt.Errorf("freed all the same: %v", err)
		}
		return nil
	})
	require.ErrorIs(t, err, errRefuse, "from Finalize")
	require.Equal(t, 4, calls)
}

// During Finalize the functions can still communicate.
func TestAttributesCommunicateAtTheEnd(t *testing.T) {
	sums := make([]int, 3)
	require.NoError(t, banyan.Simulate(3, banyan.Simulation{}, func(w *banyan.World) error {
		key := banyan.NewKey(nil, func(c *banyan.Comm, v int) error {
			all := []int{v}
			err := banyan.Allreduce(c, all, all, banyan.Sum)
			sums[c.Rank()] = all[0]
			return err
		})
		return banyan.SetAttr(w.Comm(), key, w.Comm().Rank()+1)
	}))
	require.Equal(t, []int{6, 6, 6}, sums)
}

// After Finalize nothing would delete an attribute, so there is none.
func TestNoAttributesAfterFinalize(t *testing.T) {
	single(t, func(w *banyan.World) error {
		key := banyan.NewKey[int](nil, func(*banyan.Comm, int) error { return errors.New("it was set") })
		if err := w.Finalize(); err != nil {
			return err
		}
		if err := banyan.SetAttr(w.Comm(), key, 1); !errors.Is(err, banyan.ErrClosed) {
			return fmt.Errorf("set: %v", err)
		}
		if _, ok := banyan.Attr(w.Comm(), key); ok {
			return errors.New("there is an attribute")
		}
		return nil
	})
}
