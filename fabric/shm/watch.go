package shm

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/epoll"
	"github.com/banyan-hpc/banyan/internal/robust"
	"github.com/banyan-hpc/banyan/internal/warm"
)

// watcher waits for the end of peers: on their robust words, which are first, on Config.Exits, and
// on their pidfds, which are last and report every end. After a word it kills the peer;
// it sets a flag and rings the bell, and the engine's Poll does the rest.
type watcher struct {
	set *epoll.Set
	// reapPending: some connection's gone flag is new. Set by the goroutines, cleared by Poll.
	reapPending atomic.Bool
	mu          sync.Mutex
	// conns by a key of their own, which counts from firstKey: a descriptor's number may be reused while
	// an event of its predecessor is pending. nil: no longer watched.
	conns []*Conn
	// late: the keys of peers whose pidfds are registered when lateTimer rings.
	late      []int32
	lateTimer *time.Timer
	closed    bool
	done      chan struct{}
	ring      func()
	words     *robust.Watch // nil if the kernel does not support it
	exits     Exits
	log       *slog.Logger
	warn      func(format string, args ...any)
	// by counts the ends by their first evidence.
	by [evidences]atomic.Uint32
}

// evidence is the source of a report of a process's end.
type evidence int

const (
	byWord evidence = iota
	byExits
	byPidfd
	byPoll // the process found the word marked while it polled: see deathPoll
	evidences
)

func newWatcher(cfg *Config, ring func()) (*watcher, error) {
	w := &watcher{
		done: make(chan struct{}), ring: ring, exits: cfg.Exits, log: cfg.Log, warn: cfg.Warn,
	}
	if err := w.open(); err != nil {
		return nil, err
	}
	if err := robust.Supported(); err == nil {
		w.words = robust.NewWatch(func(key int32) { w.peerEnded(key, byWord) })
	} else {
		w.log.Info("ends of peers are seen late, by pidfd", "reason", err)
	}
	go warm.Stack(w.run)
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

// run waits for events of the descriptors. A failure is logged: robust words still report ends, and
// the failure detector finds silent processes.
func (w *watcher) run() {
	defer close(w.done)
	err := w.set.Wait(func() {
		if w.exits != nil { // most likely, and checked by two loads
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
		w.warn("shm: the kernel no longer reports ended peers by descriptors, so some may be found late: %v", err)
	}
}

// watchExits begins or ends the wait for Config.Exits.
func (w *watcher) watchExits(on bool) {
	switch {
	case w.exits == nil:
	case !on:
		w.set.Remove(w.exits.FD())
	default:
		if err := w.register(w.exits.FD(), exitsKey, unix.EPOLLET); err != nil {
			w.warn("%v: some ended peers may be found late", err)
		}
		w.checkExits() // what came meanwhile
	}
}

// checkExits finds the peers among the processes that have ended.
func (w *watcher) checkExits() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		if c != nil && c.exitWatched {
			w.checkExit(c)
		}
	}
}

// checkExit checks one peer.
//
// Preconditions: w.mu is held, c.exitWatched.
func (w *watcher) checkExit(c *Conn) {
	if _, ended := c.exitRecord(); ended {
		w.confirmEnd(c, byExits)
	}
}

// peerEnded notes that there is evidence of the end of the peer with a key.
func (w *watcher) peerEnded(key int32, by evidence) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c := w.conn(key); c != nil {
		w.confirmEnd(c, by)
	}
}

// confirmEnd marks a peer's end for Poll at the first evidence: the kernel is ending the process, or its program
// for another one; see endSuccessor.
//
// Preconditions: w.mu is held.
func (w *watcher) confirmEnd(c *Conn, by evidence) {
	if c.gone.Load() {
		return
	}
	if by == byWord {
		c.killPeer()
	}
	if by != byPoll { // else Poll asks next
		c.exitCause = c.queryExitCause()
	}
	w.by[by].Add(1)
	c.gone.Store(true)
	w.reapPending.Store(true)
	w.ring()
}

// add starts to watch c, whose peer has the address a and the segment seg. The segment stays mapped
// until forget.
//
// Config.Exits counts for a peer that it watched while the peer was alive. An end that it already
// has may be that of an earlier process with the same pid; if it is the peer's, the word and the
// pidfd report it as well.
func (w *watcher) add(c *Conn, seg *segment, a *address) error {
	c.exitWatched = w.exits != nil && w.exits.Watched(c.reader.pid)
	w.mu.Lock()
	c.watchKey = firstKey + int32(len(w.conns))
	w.conns = append(w.conns, c)
	w.mu.Unlock()
	if c.exitWatched {
		w.registerLater(c)
	} else if err := w.registerPidfd(c); err != nil {
		w.drop(c.watchKey)
		return err
	}
	if a.holderThread != 0 && c.p.wordHolder != nil {
		seen := robust.Known(int(a.holderThread), a.holderList)
		c.polled = polledWord{c: c, word: seg.word(c.p.cfg.Self), thread: seen}
		// two simultaneous reports would wake two threads, one of which waits for the other
		if w.words != nil && !c.exitWatched {
			w.words.Add(c.watchKey, c.polled.word, seen)
		}
	}
	if c.exitWatched {
		w.mu.Lock()
		w.checkExit(c) // the end may have been recorded before the peer was in the list
		w.mu.Unlock()
	}
	return nil
}

// conn is the watched connection with a key, or nil.
//
// Preconditions: w.mu is held.
func (w *watcher) conn(key int32) *Conn {
	if i := int(key) - firstKey; i >= 0 && i < len(w.conns) {
		return w.conns[i]
	}
	return nil
}

// drop forgets the connection with a key, if there is one.
func (w *watcher) drop(key int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conn(key) != nil {
		w.conns[key-firstKey] = nil
	}
}

func (w *watcher) registerPidfd(c *Conn) error {
	fd, err := c.reader.openLate()
	if err != nil {
		return err
	}
	return w.register(fd, c.watchKey, unix.EPOLLONESHOT)
}

// latePause is the time from a first contact until the pidfds of peers are registered whose ends
// Config.Exits reports. They are a backstop, and would cost a first exchange of all with all a tenth
// of its time.
const latePause = time.Second

// registerLater makes registerLate register the pidfd of c.
func (w *watcher) registerLater(c *Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.late = append(w.late, c.watchKey)
	switch {
	case len(w.late) > 1 || w.closed:
	case w.lateTimer == nil:
		w.lateTimer = time.AfterFunc(latePause, w.registerLate)
	default:
		w.lateTimer.Reset(latePause)
	}
}

// registerLate registers the pidfds that registerLater has put off.
func (w *watcher) registerLate() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, key := range w.late {
		c := w.conn(key)
		if c == nil || w.closed {
			continue
		}
		switch err := w.registerPidfd(c); {
		case errors.Is(err, fabric.ErrPeerGone):
			w.confirmEnd(c, byPidfd)
		case err != nil:
			w.log.Info("its end is seen by the record alone", "peer", int(c.peer), "reason", err)
		}
	}
	w.late = nil
}

// forget ends the watch of c; its segment may be unmapped afterwards. An event of its descriptor, which
// epoll has until it is closed, finds no connection.
func (w *watcher) forget(c *Conn) {
	w.drop(c.watchKey)
	if w.words != nil {
		w.words.Remove(c.watchKey)
	}
}

func (w *watcher) close() {
	w.mu.Lock()
	if w.closed = true; w.lateTimer != nil {
		w.lateTimer.Stop()
	}
	w.mu.Unlock()
	if w.words != nil {
		w.words.Close()
	}
	w.set.Close()
	<-w.done
}
