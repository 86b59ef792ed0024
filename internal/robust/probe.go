package robust

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Probe lets a thread that holds a word in shared memory die, and waits for the
// news: nil if the kernel tells. It takes a fraction of a millisecond.
func Probe() error {
	if err := Supported(); err != nil {
		return err
	}
	page, err := unix.Mmap(-1, 0, unix.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	if err != nil {
		return fmt.Errorf("robust: mapping a page: %w", err)
	}
	words := wordsIn(page[:8])
	h, err := Hold(words)
	if err == nil {
		err = probe(h)
	}
	return errors.Join(err, unix.Munmap(page))
}

func probe(h *Holder) error {
	defer runtime.KeepAlive(h)
	seen, err := See(h.Tid())
	if err != nil {
		h.Release()
		return err
	}
	news := make(chan struct{})
	w := NewWatch(func(int32) { close(news) })
	defer w.Close()
	w.Add(1, &h.words[0], seen)
	h.die()
	const patience = 10 * time.Second
	select {
	case <-news:
		return nil
	case <-time.After(patience):
		return errors.New("robust: a thread has ended and the kernel has not told of it")
	}
}
