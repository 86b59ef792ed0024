package robust

import (
	"errors"
	"fmt"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// MaxWords is how many entries of a list the kernel walks.
const MaxWords = 2048

// Holder is this process's hold on some words: a thread that does nothing but
// live as long as the process. Its methods may be called by any goroutine.
type Holder struct {
	words []Word
	head  *head
	nodes []uintptr // the list; nothing else references it
	tid   int
	// stop ends the thread; orderly says whether it takes its list back before.
	stop    chan struct{}
	orderly bool
	done    chan struct{}
	once    sync.Once
}

// Hold takes hold of words, which lie in shared memory and stay mapped until
// Release. Preconditions: 1 to MaxWords words, none of them held.
func Hold(words []Word) (*Holder, error) {
	if len(words) < 1 || len(words) > MaxWords {
		return nil, fmt.Errorf("robust: %d words, want 1 to %d: the kernel walks no more", len(words), MaxWords)
	}
	h := &Holder{words: words, stop: make(chan struct{}), done: make(chan struct{}), orderly: true}
	h.head, h.nodes = link(words)
	began := make(chan error)
	go h.live(began)
	if err := <-began; err != nil {
		return nil, err
	}
	for i := range words {
		words[i].v.Store(uint32(h.tid))
	}
	return h, nil
}

// live is the thread.
func (h *Holder) live(began chan<- error) {
	// It is not unlocked, so the thread ends with the goroutine.
	runtime.LockOSThread()
	h.tid = unix.Gettid()
	if h.tid == unix.Getpid() {
		// The main thread never ends: another one, while this one is taken.
		next := make(chan error)
		go h.live(next)
		err := <-next
		runtime.UnlockOSThread()
		began <- err
		return
	}
	defer close(h.done)
	first()
	err := setList(h.head)
	began <- err
	if err != nil {
		return
	}
	<-h.stop
	if h.orderly {
		_ = setList(nil)
	}
}

// Tid is the id of the thread, in the process's own pid namespace: for See.
func (h *Holder) Tid() int { return h.tid }

// Release lets go of the words and ends the thread. Watchers do not take it
// for a death, and the words may be unmapped afterwards. It may be repeated.
func (h *Holder) Release() { h.once.Do(h.release) }

func (h *Holder) release() {
	for i := range h.words {
		if h.words[i].v.Swap(0)&waitersBit != 0 {
			wake(addressOf(&h.words[i].v))
		}
	}
	close(h.stop)
	<-h.done
}

// die ends the thread as a kill would.
func (h *Holder) die() {
	h.once.Do(func() {
		h.orderly = false
		close(h.stop)
		<-h.done
	})
}

// Seen is a holder as another process knows it: a thread, and where the kernel has
// its list.
type Seen struct {
	tid int
	at  uintptr
}

// See notes a holder by its Tid. The caller knows that the process with that
// thread is the one it means, and that it lives. Errors: no such thread, none that
// holds words, or the right to trace it is missing.
func See(tid int) (Seen, error) {
	at, err := listOf(tid)
	if err == nil && at == 0 {
		err = errors.New("the thread has no list")
	}
	if err != nil {
		return Seen{}, fmt.Errorf("robust: get_robust_list(%d): %w", tid, err)
	}
	return Seen{tid, at}, nil
}

// At is where the kernel has the list, in the memory of its process.
func (s Seen) At() uint64 { return uint64(s.at) }

// Known is a holder whose process has published the Tid and the At that it sees itself. Gone answers
// false where the right to trace it is missing.
func Known(tid int, at uint64) Seen { return Seen{tid, uintptr(at)} }

// Gone asks the kernel whether the thread has ended, or is ending so far that
// it has marked its words.
func (s Seen) Gone() bool {
	at, err := listOf(s.tid)
	return errors.Is(err, unix.ESRCH) || err == nil && at != s.at
}
