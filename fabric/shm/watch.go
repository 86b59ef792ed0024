package shm

import (
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/internal/epoll"
	"github.com/banyan-hpc/banyan/internal/robust"
)

// watcher waits for the end of peers: on their robust words, which tell first, on
// what Config.Exits knows, and on their pidfds, which tell last and of every end. It
// fences the peer, sets a flag and rings the bell; the engine's Poll does the rest.
type watcher struct {
	set *epoll.Set
	// reapPending: some connection's gone flag is new. Written by the goroutines,
	// taken by Poll.
	reapPending atomic.Bool
	mu          sync.Mutex
	// conns by a key of their own: a descriptor's number may come back while
	// an event of its predecessor is still on the way.
	conns map[int32]*Conn
	next  int32
	done  chan struct{}
	ring  func()
	words *robust.Watch // nil where the kernel has no such thing
	exits Exits
	logf  func(format string, args ...any)
	warn  func(format string, args ...any)
	// by counts the ends by what told of them first.
	by [evidences]atomic.Uint32
}

// evidence is what tells of a process's end.
type evidence int

const (
	byWord evidence = iota
	byExits
	byPidfd
	byPoll // the process has found the word marked as it polled: see deathPoll
	evidences
)

func newWatcher(cfg *Config, ring func()) (*watcher, error) {
	w := &watcher{
		conns: make(map[int32]*Conn), next: firstKey, done: make(chan struct{}),
		ring: ring, exits: cfg.Exits, logf: cfg.Logf, warn: cfg.Warn,
	}
	if err := w.open(); err != nil {
		return nil, err
	}
	if err := robust.Supported(); err == nil {
		w.words = robust.NewWatch(func(key int32) { w.peerEnded(key, byWord) })
	} else {
		w.logf("shm: ends of peers are seen late, by pidfd: %v", err)
	}
	go w.run()
	return w, nil
}

func (w *watcher) open() (err error) {
	if w.set, err = epoll.New("the ends of peers"); err != nil {
		return fmt.Errorf("shm: %w%s", err, remedy(err))
	}
	if w.exits != nil {
		if err = w.register(w.exits.FD(), exitsKey, unix.EPOLLET); err != nil {
			w.set.Close()
		}
	}
	return err
}

// Connections have the keys behind that of Config.Exits.
const (
	exitsKey = 1
	firstKey = 2
)

func (w *watcher) register(fd int, key int32, how uint32) error {
	if err := w.set.Add(fd, key, unix.EPOLLIN|how); err != nil {
		return fmt.Errorf("shm: %w%s", err, remedy(err))
	}
	return nil
}

// run waits for what the descriptors tell. Where that fails it says so: robust words go on
// telling, and the failure detector finds who is silent.
func (w *watcher) run() {
	defer close(w.done)
	err := w.set.Wait(func() {
		if w.exits != nil { // most likely, and asked by two loads
			w.checkExits()
		}
	}, func(key int32) {
		if key == exitsKey {
			w.checkExits()
		} else {
			w.peerEnded(key, byPidfd)
		}
	})
	if err != nil {
		w.warn("shm: the kernel no longer tells of ended peers by descriptors, so some may be found late: %v", err)
	}
}

// checkExits looks which peers are among the processes that have ended.
func (w *watcher) checkExits() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		if c.exitWatched {
			w.checkExit(c)
		}
	}
}

// checkExit looks whether one peer is.
//
// Preconditions: w.mu is held, c.told.
func (w *watcher) checkExit(c *Conn) {
	if _, ended := c.exitRecord(); ended {
		w.confirmEnd(c, byExits)
	}
}

// peerEnded notes that there is evidence of the end of the peer with a key.
func (w *watcher) peerEnded(key int32, by evidence) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c := w.conns[key]; c != nil {
		w.confirmEnd(c, by)
	}
}

// confirmEnd makes sure of a peer's end, the first time that it is told of, and
// tells Poll. A word says no more than that a thread has ended, so the peer is killed:
// what is reported is true then, and who has ended already does not mind. Whom Exits tell of
// the kernel has begun to kill, which holds the lock that killing takes for some 15
// microseconds: Poll fences it, before it reports it, and waits less.
//
// Preconditions: w.mu is held.
func (w *watcher) confirmEnd(c *Conn, by evidence) {
	if c.gone.Load() {
		return
	}
	if by == byWord {
		c.killPeer()
	}
	c.killPending = by == byExits || by == byPoll
	if by != byPoll { // else Poll asks next
		c.exitCause = c.queryExitCause()
	}
	w.by[by].Add(1)
	c.gone.Store(true)
	w.reapPending.Store(true)
	w.ring()
}

// add begins to watch c, whose peer has the address a and the segment seg. It
// stays mapped until forget.
//
// Config.Exits is believed about a peer that it watched while the peer was there. An
// end that it has already may be that of an earlier process with the same pid; if it is
// the peer's, the word and the pidfd tell of it as well.
func (w *watcher) add(c *Conn, seg *segment, a *address) error {
	c.exitWatched = w.exits != nil && w.exits.Watched(c.reader.pid)
	w.mu.Lock()
	c.watchKey = w.next
	w.next++
	w.conns[c.watchKey] = c
	w.mu.Unlock()
	if err := w.register(c.reader.pidfd, c.watchKey, unix.EPOLLONESHOT); err != nil {
		w.mu.Lock()
		delete(w.conns, c.watchKey)
		w.mu.Unlock()
		return err
	}
	if a.holderThread != 0 {
		// The process is the right one and lived a moment ago: see openProcess.
		if seen, err := robust.See(int(a.holderThread)); err == nil {
			c.polled = polledWord{c: c, word: seg.word(c.p.cfg.Self), thread: seen}
			if w.words != nil && !c.exitWatched { // two that tell at once wake two threads, of which one waits for the other
				w.words.Add(c.watchKey, c.polled.word, seen)
			}
		} else if !c.ended() {
			w.logf("shm: the end of %v is seen late, by pidfd: %v", c.peer, err)
		}
	}
	if c.exitWatched {
		w.mu.Lock()
		w.checkExit(c) // it may have told before the peer was in the list
		w.mu.Unlock()
	}
	return nil
}

// forget ends the watch of c; its descriptor may be closed afterwards, and its
// segment unmapped.
func (w *watcher) forget(c *Conn) {
	w.mu.Lock()
	delete(w.conns, c.watchKey)
	w.mu.Unlock()
	if w.words != nil {
		w.words.Remove(c.watchKey)
	}
	w.set.Remove(c.reader.pidfd)
}

func (w *watcher) close() {
	if w.words != nil {
		w.words.Close()
	}
	w.set.Close()
	<-w.done
}
