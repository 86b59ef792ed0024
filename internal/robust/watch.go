package robust

import (
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/internal/warm"
)

// Watch waits for the deaths of holders. Its methods may be called by any
// goroutine.
type Watch struct {
	died   func(key int32)
	mu     sync.Mutex
	groups []*group
	closed bool
	quiet  bool // see Quiet
}

// group is the words for which one thread waits.
type group struct {
	w *Watch
	// entries are guarded by w.mu.
	entries []entry
	// kick is raised after an entry is added, or was found marked, or the Watch is closed.
	kick atomic.Uint32
	// roused: the thread has been woken and has not looked since; guarded by w.mu.
	roused bool
	done   chan struct{}
}

// perGroup leaves room for kick.
const perGroup = maxWaiters - 1

type entry struct {
	key    int32
	word   *Word
	of     Seen
	doubts int // how often the word was marked and the thread was there, at looks that were doubtPause apart
	asked  time.Time
}

// NewWatch makes a watch that calls died, from goroutines of its own, for each
// holder that has died: at most once per Add, without a lock held, perhaps when
// Remove has been called.
func NewWatch(died func(key int32)) *Watch { return &Watch{died: died} }

// Add begins to watch a word. It must stay mapped until Remove or the end of
// Close. A word that is not held is not watched.
func (w *Watch) Add(key int32, word *Word, of Seen) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	i := slices.IndexFunc(w.groups, func(g *group) bool { return len(g.entries) < perGroup })
	if i < 0 {
		i = len(w.groups)
		w.groups = append(w.groups, &group{w: w, done: make(chan struct{})})
		go warm.Stack(w.groups[i].run)
	}
	g := w.groups[i]
	g.entries = append(g.entries, entry{key: key, word: word, of: of})
	g.rouse()
}

// Remove ends the watch of the word that was added with a key.
func (w *Watch) Remove(key int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, g := range w.groups {
		// A thread that sleeps goes on to sleep at the word, which does no harm.
		g.entries = slices.DeleteFunc(g.entries, func(e entry) bool { return e.key == key })
	}
}

// Quiet has the kernel wake no thread when it marks a word, for a process that looks at the words itself: the wake-up would
// come before the end of the thread, and interrupt that process. No other process may watch these words. After
// Quiet(false) deaths of the meantime are reported too.
func (w *Watch) Quiet(on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.quiet = on
	for _, g := range w.groups {
		marked := false
		for i := range g.entries {
			marked = g.entries[i].word.ask(!on)&diedBit != 0 || marked
		}
		if marked && !on {
			g.rouse()
		}
	}
}

// Close ends the threads, and waits for them and for calls of died.
func (w *Watch) Close() {
	w.mu.Lock()
	w.closed = true
	groups := w.groups
	w.mu.Unlock()
	for _, g := range groups {
		g.wake()
		<-g.done
	}
}

// Watched is the number of words that are watched.
func (w *Watch) Watched() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, g := range w.groups {
		n += len(g.entries)
	}
	return n
}

// rouse has the thread look at all words. Precondition: w.mu is held.
func (g *group) rouse() {
	if !g.roused {
		g.roused = true
		g.wake()
	}
}

func (g *group) wake() {
	g.kick.Add(1)
	wakePrivate(&g.kick)
}

const (
	// doubtPause is until the next question about a thread that has marked its
	// word and is there: the kernel forgets the list microseconds after the last
	// word, unless it lets another thread run between the two.
	doubtPause = time.Millisecond
	// addPause, times the number of words, lets a process that connects to many peers add their words
	// before the thread looks at all again, which takes a hundredth of it.
	addPause  = 50 * time.Microsecond
	maxDoubts = 100
	// maxFaults: how often in a row a word may have been unmapped after it was
	// looked at.
	maxFaults = 1000
)

// run is the thread. It is locked to its goroutine, so that it ends with it.
func (g *group) run() {
	defer close(g.done)
	runtime.LockOSThread()
	promptly()
	list := make([]waiter, 0, maxWaiters)
	faults := 0
	for {
		round := round{waiters: append(list[:0], waiterOn(&g.kick, g.kick.Load(), private))}
		if !g.look(&round) {
			return
		}
		round.passOn()
		for _, key := range round.dead {
			g.w.died(key)
		}
		switch n, errno := waitAny(round.waiters, round.limit()); {
		case errno == 0:
			faults = 0
			if n == 0 {
				time.Sleep(time.Duration(len(round.waiters)) * addPause)
			}
		case errors.Is(errno, unix.EAGAIN) || errors.Is(errno, unix.EINTR) || errors.Is(errno, unix.ETIMEDOUT):
			faults = 0
		case errors.Is(errno, unix.EFAULT) && faults < maxFaults:
			faults++
		default:
			return // Supported says why; the detection behind this watch has to do
		}
	}
}

// round is the result of one look at the words.
type round struct {
	waiters []waiter
	dead    []int32
	// marked are the addresses of words that this look is the first to find marked. The kernel has
	// woken one thread at each of them, perhaps this one at several, of which it names the last:
	// so the thread wakes the others that wait at any of them. The words may be unmapped by then.
	marked  []uintptr
	doubted bool
}

// passOn wakes the threads that wait at a word that this look was the first to find marked.
func (r *round) passOn() {
	for _, word := range r.marked {
		wake(word)
	}
}

func (r round) limit() time.Duration {
	if r.doubted {
		return doubtPause
	}
	return -1
}

// look reads every word and prepares the wait. False: the watch is closed.
func (g *group) look(r *round) bool {
	g.w.mu.Lock()
	defer g.w.mu.Unlock()
	g.roused = false
	kept := g.entries[:0]
	for _, e := range g.entries {
		if g.judge(&e, r) {
			kept = append(kept, e)
		}
	}
	clear(g.entries[len(kept):])
	g.entries = kept
	return !g.w.closed
}

// judge reads one word, and reports whether it is to be watched further.
//
//banyan:decodes
func (g *group) judge(e *entry, r *round) bool {
	for {
		v := e.word.v.Load()
		switch {
		case v&diedBit != 0:
			if e.doubts == 0 {
				r.marked = append(r.marked, addressOf(&e.word.v))
			}
			if e.gone() {
				r.dead = append(r.dead, e.key)
				return false
			}
			r.doubted = true
			if now := time.Now(); now.Sub(e.asked) >= doubtPause { // others' words have it looked at more often
				e.asked = now
				e.doubts++
			}
			return e.doubts < maxDoubts
		case v&tidMask != uint32(e.of.tid):
			return false // let go, or nonsense
		}
		// The thread waits at the word even if the kernel is not to wake it, so Quiet can change that.
		if asked := e.word.ask(!g.w.quiet); asked&^waitersBit == v&^waitersBit {
			r.waiters = append(r.waiters, waiterOn(&e.word.v, asked, 0))
			return true
		}
	}
}

// gone asks a few times: the word is marked before the list is forgotten. Where ranks share cores, more questions would
// keep the dying thread from its core.
func (e *entry) gone() bool {
	const asks = 3
	for range asks {
		if e.of.Gone() {
			return true
		}
	}
	return false
}
