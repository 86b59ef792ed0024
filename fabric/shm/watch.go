package shm

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/internal/robust"
)

// watcher waits for the end of peers: on their robust words, which tell first, on
// what Config.Exits knows, and on their pidfds, which tell last and of every end. It
// fences the peer, sets a flag and rings the bell; the engine's Poll does the rest.
type watcher struct {
	epfd, stop int
	file       *os.File // epfd, for the runtime's poller
	conn       syscall.RawConn
	// pending: some connection's gone flag is new. Written by the goroutines,
	// taken by Poll.
	pending atomic.Bool
	mu      sync.Mutex
	// conns by a key of their own: a descriptor's number may come back while
	// an event of its predecessor is still on the way.
	conns map[int32]*Conn
	next  int32
	done  chan struct{}
	ring  func()
	words *robust.Watch // nil where the kernel has no such thing
	exits Exits
	logf  func(format string, args ...any)
	// by counts the ends by what told of them first.
	by [evidences]atomic.Uint32
}

// evidence is what tells of a process's end.
type evidence int

const (
	byWord evidence = iota
	byExits
	byPidfd
	evidences
)

func newWatcher(cfg *Config, ring func()) (*watcher, error) {
	w := &watcher{
		epfd: -1, stop: -1, conns: make(map[int32]*Conn), next: firstKey, done: make(chan struct{}),
		ring: ring, exits: cfg.Exits, logf: cfg.Logf,
	}
	if err := w.open(); err != nil {
		w.shut()
		return nil, err
	}
	if err := robust.Supported(); err == nil {
		w.words = robust.NewWatch(func(key int32) { w.ended(key, byWord) })
	} else {
		w.logf("shm: ends of peers are seen late, by pidfd: %v", err)
	}
	go w.run()
	return w, nil
}

func (w *watcher) open() (err error) {
	if w.epfd, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("shm: epoll_create1: %w%s", err, cure(err))
	}
	if err = unix.SetNonblock(w.epfd, true); err != nil { // else the runtime does not poll it
		return fmt.Errorf("shm: fcntl: %w", err)
	}
	w.file = os.NewFile(uintptr(w.epfd), "the ends of peers")
	if w.conn, err = w.file.SyscallConn(); err == nil {
		err = w.file.SetReadDeadline(time.Time{}) // it says whether the runtime polls it
	}
	if err != nil {
		return fmt.Errorf("shm: %w", err)
	}
	if w.stop, err = unix.Eventfd(0, unix.EFD_CLOEXEC); err != nil {
		return fmt.Errorf("shm: eventfd: %w%s", err, cure(err))
	}
	if err = w.register(w.stop, stopKey, unix.EPOLLONESHOT); err == nil && w.exits != nil {
		err = w.register(w.exits.FD(), exitsKey, unix.EPOLLET)
	}
	return err
}

// These keys are no connection's.
const (
	stopKey  = 0
	exitsKey = 1
	firstKey = 2
)

func (w *watcher) register(fd int, key int32, how uint32) error {
	// The kernel hands the key back as it is; the field's name is a habit.
	ev := unix.EpollEvent{Events: unix.EPOLLIN | how, Fd: key}
	if err := unix.EpollCtl(w.epfd, unix.EPOLL_CTL_ADD, fd, &ev); err != nil {
		return fmt.Errorf("shm: epoll_ctl: %w%s", err, cure(err))
	}
	return nil
}

// run waits through the runtime's own poller. A goroutine that sleeps in a system call
// keeps its processor until the runtime's monitor takes it away, and the one that
// it has woken waits for that.
func (w *watcher) run() {
	defer close(w.done)
	events := make([]unix.EpollEvent, 16)
	_ = w.conn.Read(func(fd uintptr) (stop bool) {
		if w.exits != nil { // most likely, and asked by two loads
			w.askExits()
		}
		for {
			n, err := unix.EpollWait(int(fd), events, 0)
			if n == 0 || err != nil && !errors.Is(err, unix.EINTR) {
				return err != nil
			}
			for _, ev := range events[:max(n, 0)] {
				switch ev.Fd {
				case stopKey:
					return true
				case exitsKey:
					w.askExits()
				default:
					w.ended(ev.Fd, byPidfd)
				}
			}
		}
	})
}

// askExits looks which peers are among the processes that have ended.
func (w *watcher) askExits() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		w.ask(c)
	}
}

// ask looks whether one peer is.
//
// Preconditions: w.mu is held.
func (w *watcher) ask(c *Conn) {
	if _, ended := w.exits.Ended(c.reader.pid); ended {
		w.condemn(c, byExits)
	}
}

// ended notes that there is evidence of the end of the peer with a key.
func (w *watcher) ended(key int32, by evidence) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c := w.conns[key]; c != nil {
		w.condemn(c, by)
	}
}

// condemn makes sure of a peer's end, the first time that it is told of, and
// tells Poll. A word says no more than that a thread has ended, so the peer is killed:
// what is reported is true then, and who has ended already does not mind. Whom Exits tell of
// the kernel has begun to kill, which holds the lock that killing takes for some 15
// microseconds: Poll fences it, before it reports it, and waits less.
//
// Preconditions: w.mu is held.
func (w *watcher) condemn(c *Conn, by evidence) {
	if c.gone.Load() {
		return
	}
	if by == byWord {
		c.fencePeer()
	}
	c.unfenced = by == byExits
	c.fate = c.learnFate()
	w.by[by].Add(1)
	c.gone.Store(true)
	w.pending.Store(true)
	w.ring()
}

// add begins to watch c, whose peer has the address a and the segment seg. It
// stays mapped until forget.
func (w *watcher) add(c *Conn, seg *segment, a *address) error {
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
	// Two that tell at once wake two threads, of which one waits for the other.
	told := w.exits != nil && w.exits.Watched(c.reader.pid)
	if w.words != nil && a.keeper != 0 && !told {
		// The process is the right one and lived a moment ago: see openProcess.
		if seen, err := robust.See(int(a.keeper)); err == nil {
			w.words.Add(c.watchKey, seg.word(c.p.cfg.Self), seen)
		} else if !c.ended() {
			w.logf("shm: the end of %v is seen late, by pidfd: %v", c.peer, err)
		}
	}
	if w.exits != nil {
		w.mu.Lock()
		w.ask(c) // it may have told before the peer was in the list
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
	_ = unix.EpollCtl(w.epfd, unix.EPOLL_CTL_DEL, c.reader.pidfd, nil)
}

func (w *watcher) close() {
	if w.words != nil {
		w.words.Close()
	}
	one := [8]byte{1}
	_, _ = unix.Write(w.stop, one[:])
	<-w.done
	w.shut()
}

func (w *watcher) shut() {
	switch {
	case w.file != nil:
		_ = w.file.Close()
	case w.epfd >= 0:
		_ = unix.Close(w.epfd)
	}
	if w.stop >= 0 {
		_ = unix.Close(w.stop)
	}
}
