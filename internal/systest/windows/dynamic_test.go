package windows

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/banyan-hpc/banyan"
)

// dynamic: each rank works on memory that the others attach and detach, and on its own.
func dynamic(c *banyan.Comm) error {
	w, err := c.NewDynamicWindow(banyan.WithNotices(1))
	if err != nil {
		return err
	}
	if w.Bytes() != nil || w.SizeAt(0) != 0 || w.Group().Size() != c.Size() {
		return fmt.Errorf("a dynamic window of %d ranks has %d bytes", w.Group().Size(), w.SizeAt(0))
	}
	w.SetName("heap")
	if _, err := w.Attach(nil); !errors.Is(err, banyan.ErrArgument) || w.Name() != "heap" {
		return fmt.Errorf("nothing attached to %s: %w", w.Name(), err)
	}
	seen := map[int]bool{}
	for round := range 3 {
		if err := onAttached(c, w, round, seen); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
	}
	kept := 0
	if c.Rank() == 0 {
		if kept, err = w.Attach(make([]byte, 8)); err != nil {
			return err
		}
	}
	if err := w.Detach(kept + 8); !errors.Is(err, banyan.ErrArgument) {
		return fmt.Errorf("detached what was not attached: %w", err)
	}
	static, err := c.AllocWindow(8)
	if err != nil {
		return err
	}
	if _, err := static.Attach(make([]byte, 8)); !errors.Is(err, banyan.ErrArgument) {
		return fmt.Errorf("attached to a window that is not dynamic: %w", err)
	}
	return errors.Join(static.Free(), w.Free())
}

// onAttached attaches memory, and has all ranks work on that of the next one.
func onAttached(c *banyan.Comm, w *banyan.Window, round int, seen map[int]bool) error {
	before, mine, beside := make([]byte, 8), make([]byte, longPut), make([]byte, 16)
	first, err := w.Attach(before)
	if err != nil {
		return err
	}
	at, err := w.Attach(mine)
	if err != nil || at%4096 != 0 || seen[at] {
		return fmt.Errorf("attached at %d: %w", at, err)
	}
	seen[at] = true
	after, err := w.Attach(beside)
	if err != nil {
		return err
	}
	places := make([]int64, c.Size())
	err = errors.Join(banyan.Allgather(c, []int64{int64(at)}, places), w.Fence())
	if err != nil {
		return err
	}
	n := c.Size()
	next, last := (c.Rank()+1)%n, (c.Rank()+n-1)%n
	there, got := int(places[next]), make([]byte, longPut)
	err = errors.Join(w.PutNotify(pattern(longPut, c.Rank()+round), next, there, 0), w.WaitNotice(0, 1), w.Flush(next))
	if err != nil || !bytes.Equal(mine, pattern(longPut, last+round)) {
		return fmt.Errorf("wrong data: %w", err)
	}
	err = errors.Join(w.Get(got, next, there), w.Flush(next))
	if err != nil || !bytes.Equal(got, pattern(longPut, c.Rank()+round)) {
		return fmt.Errorf("wrong data read: %w", err)
	}
	if err := outside(w, next, there, next == c.Rank()); err != nil {
		return err
	}
	if err := refusedFence(c, w, next); err != nil {
		return err
	}
	if err := errors.Join(w.Fence(), w.Detach(first), w.Detach(at), w.Detach(after), w.Fence()); err != nil {
		return err
	}
	if _, err := banyan.FetchAndOp(w, int64(1), next, there/8, banyan.AccSum); !errors.Is(err, banyan.ErrArgument) {
		return fmt.Errorf("an addition to detached memory: %w", err)
	}
	err = w.Fence()
	if !slices.Equal(before, make([]byte, 8)) || !slices.Equal(beside, make([]byte, 16)) || !bytes.Equal(mine, pattern(longPut, last+round)) {
		return errors.New("an operation outside has changed memory")
	}
	return err
}

// refusedFence: the fence of a rank whose operation was refused returns an error, and ends at all
// ranks.
func refusedFence(c *banyan.Comm, w *banyan.Window, next int) error {
	if c.Rank() != 0 || next == 0 {
		return w.Fence()
	}
	err := w.Put(make([]byte, 1), next, 1)
	if err != nil {
		return err
	}
	if err = w.Fence(); !errors.Is(err, banyan.ErrArgument) {
		return fmt.Errorf("a fence after a put outside: %w", err)
	}
	return nil
}

// outside: operations beyond attached memory are refused, once each, and nothing else is.
func outside(w *banyan.Window, rank, at int, own bool) error {
	buf, long := make([]byte, 16), make([]int64, longPut/8)
	for what, start := range map[string]func() error{
		"put": func() error { return w.Put(buf, rank, at+longPut-8) },
		"far": func() error { return w.Put(buf, rank, 0) },
		"get": func() error { return w.Get(buf, rank, at-8) },
		"accumulate": func() error {
			return banyan.Accumulate(w, []int64{1}, rank, (at+longPut)/8+1, banyan.AccSum)
		},
		// Some frames of these would lie inside, also in the piece behind the one of 8 bytes.
		"long put":                     func() error { return banyan.Put(w, long, rank, at/8+1) },
		"long put at the piece before": func() error { return banyan.Put(w, long, rank, at/8-1024) },
		"long accumulate":              func() error { return banyan.Accumulate(w, long, rank, at/8-1024, banyan.AccReplace) },
		"long get-accumulate": func() error {
			return banyan.GetAccumulate(w, long, make([]int64, len(long)), rank, at/8+1, banyan.AccReplace)
		},
	} {
		err := start()
		if err == nil && !own {
			err = w.Flush(rank)
		}
		if !errors.Is(err, banyan.ErrArgument) {
			return fmt.Errorf("%s outside: %w", what, err)
		}
		if err := w.Flush(rank); err != nil {
			return fmt.Errorf("flush after %s: %w", what, err)
		}
	}
	_, err := w.Rput(buf, rank, at+longPut).Wait()
	_, inside := w.Rput(nil, rank, at).Wait()
	if !errors.Is(err, banyan.ErrArgument) || inside != nil {
		return fmt.Errorf("request outside: %w, inside: %w", err, inside)
	}
	return w.Flush(rank)
}
