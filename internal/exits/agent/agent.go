package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/internal/exits"
	"github.com/banyan-hpc/banyan/internal/exits/hook"
)

const (
	// MaxUsers bounds the hooks: each runs a program at every exit on the machine.
	MaxUsers = 64
	// MaxTalks bounds the conversations under way; others wait in the queue.
	MaxTalks = 64
	// TalkTime is how long a process may take to say what it wants.
	TalkTime = 10 * time.Second
	// wantPause is until the agent looks again for a descriptor that it lacked.
	wantPause = 100 * time.Millisecond
)

// Event is what the agent has done, for a log.
type Event struct {
	PID, User int   // 0 of one that the agent does not know
	Err       error // nil: registered
}

// String is the event as a line.
func (e Event) String() string {
	if e.PID == 0 {
		return fmt.Sprintf("a process could not be taken in: %v", e.Err)
	}
	if e.Err != nil {
		return fmt.Sprintf("refused process %d of user %d: %v", e.PID, e.User, e.Err)
	}
	return fmt.Sprintf("registered process %d of user %d", e.PID, e.User)
}

// agent is the hooks and the processes that are watched for their end.
type agent struct {
	report func(Event)
	watch  *watcher

	mu      sync.Mutex
	hooks   map[int]*hook.Hook // by user
	current map[process]int    // the pidfd of each that is registered
}

// Listen opens the socket at "@name" or a path, for all users. A path that is
// left of an agent that has died is replaced, one of a living agent is not.
func Listen(address string) (*net.UnixListener, error) {
	addr := &net.UnixAddr{Name: address, Net: "unixpacket"}
	l, err := net.ListenUnix("unixpacket", addr)
	if errors.Is(err, unix.EADDRINUSE) && address[0] != '@' && abandoned(addr) {
		if err := os.Remove(address); err != nil {
			return nil, fmt.Errorf("agent: remove what a dead agent has left: %w", err)
		}
		l, err = net.ListenUnix("unixpacket", addr)
	}
	if errors.Is(err, unix.EADDRINUSE) {
		return nil, fmt.Errorf("agent: %s is taken: an agent runs already; name another address with --address and %s", address, exits.Env)
	}
	if err != nil {
		return nil, fmt.Errorf("agent: listen at %s: %w", address, err)
	}
	if address[0] != '@' {
		// Who connects is told apart by its user, so everybody may.
		if err := os.Chmod(address, 0o666); err != nil {
			return nil, errors.Join(fmt.Errorf("agent: %w", err), l.Close())
		}
	}
	return l, nil
}

func abandoned(addr *net.UnixAddr) bool {
	conn, err := net.DialUnix("unixpacket", nil, addr)
	if err == nil {
		conn.Close()
	}
	return errors.Is(err, unix.ECONNREFUSED)
}

// Serve registers who asks until ctx ends, and then closes the listener. It
// begins with a trial, so that an agent that cannot work says so at its start, and
// then calls ready. report is called from several goroutines.
func Serve(ctx context.Context, l *net.UnixListener, ready func(), report func(Event)) error {
	defer l.Close()
	if ok, why := hook.Available(); !ok {
		return fmt.Errorf("agent: %s", why)
	}
	a := &agent{report: report, hooks: make(map[int]*hook.Hook), current: make(map[process]int)}
	var err error
	if a.watch, err = newWatcher(a.ended); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { l.Close() })()
	ready()
	var talks sync.WaitGroup
	places := make(chan struct{}, MaxTalks)
	for {
		conn, err := a.accept(ctx, l)
		if err != nil {
			talks.Wait()
			err = errors.Join(a.watch.close(), a.close(), acceptError(ctx, err))
			return err
		}
		places <- struct{}{}
		talks.Go(func() {
			a.talk(conn)
			<-places
		})
	}
}

// accept waits for the next process. Want of descriptors or memory, which the processes
// of any user can bring about, is said and waited for.
func (a *agent) accept(ctx context.Context, l *net.UnixListener) (*net.UnixConn, error) {
	for said := false; ; said = true {
		conn, err := l.AcceptUnix()
		switch {
		case err == nil, !errors.Is(err, unix.EMFILE) && !errors.Is(err, unix.ENFILE) &&
			!errors.Is(err, unix.ENOMEM) && !errors.Is(err, unix.ENOBUFS):
			return conn, err
		case !said:
			a.report(Event{Err: fmt.Errorf("%w: raise the agent's limit of open files (ulimit -n): it takes one for each process", err)})
		}
		select {
		case <-ctx.Done(): // the listener is closed
		case <-time.After(wantPause):
		}
	}
}

// acceptError makes the end that was asked for no error.
func acceptError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("agent: accept: %w", err)
}

// talk serves one process.
func (a *agent) talk(conn *net.UnixConn) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(TalkTime)) // fails on a closed socket alone
	event, rights, err := a.serve(conn)
	answer := []byte(exits.Welcome)
	if err != nil {
		answer = []byte(err.Error())
		answer = answer[:min(len(answer), exits.TextMax)]
	}
	event.Err = err
	a.report(event)
	var oob []byte
	if rights != nil {
		oob = unix.UnixRights(rights...)
	}
	// A process that has gone away meanwhile has no use for an answer.
	_, _, _ = conn.WriteMsgUnix(answer, oob, nil)
	closeAll(rights)
}

// serve registers who has connected and says Hello. What it says is read in any case:
// who closes a socket with something unread in it takes the answer back.
func (a *agent) serve(conn *net.UnixConn) (event Event, rights []int, err error) {
	peer, pidfd, err := whoIs(conn)
	text := make([]byte, exits.TextMax)
	n, readErr := conn.Read(text)
	if err != nil {
		return event, nil, err
	}
	event = Event{PID: int(peer.Pid), User: int(peer.Uid)}
	switch {
	case readErr != nil:
		err = readErr
	case string(text[:n]) != exits.Hello:
		err = errors.New("it speaks another version of the protocol: agent and program must be of one build of Banyan")
	default:
		rights, err = a.register(peer, pidfd)
	}
	if err != nil {
		_ = unix.Close(pidfd) // nothing was written: it cannot fail in a way that matters
	}
	return event, rights, err
}

// register enters a process with its user's hook, and takes the pidfd over if it
// succeeds. The descriptors are copies for the caller to pass on and close.
func (a *agent) register(peer *unix.Ucred, pidfd int) ([]int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	user := int(peer.Uid)
	h := a.hooks[user]
	if h == nil {
		if len(a.hooks) >= MaxUsers {
			return nil, fmt.Errorf("the agent serves %d users, and no more at a time", MaxUsers)
		}
		var err error
		if h, err = hook.Open(); err != nil {
			return nil, err
		}
		a.hooks[user] = h
	}
	fds, err := a.enter(h, process{int(peer.Pid), user}, pidfd)
	if err != nil {
		return nil, errors.Join(err, a.drop(user))
	}
	return fds, nil
}

// enter registers and watches a process, or does neither.
func (a *agent) enter(h *hook.Hook, p process, pidfd int) ([]int, error) {
	fds, err := copies(h.Files())
	if err != nil {
		closeAll(fds)
		return nil, err
	}
	if old, ok := a.current[p]; ok && !over(old) {
		_ = unix.Close(pidfd) // it asks again, and is watched by the first one
		return fds, nil
	} else if ok { // its pid has come back before the watcher has spoken
		err = h.Forget(p.pid)
	}
	if err == nil {
		err = h.Register(p.pid)
	}
	if err == nil {
		a.current[p] = pidfd
		// From here on ended is called, at once if it has ended already.
		if err = a.watch.add(pidfd, p); err != nil {
			delete(a.current, p)
			err = errors.Join(err, h.Withdraw(p.pid))
		}
	}
	if err != nil {
		closeAll(fds)
		return nil, err
	}
	return fds, nil
}

// ended is called by the watcher for a process that has ended and may have been
// waited for.
func (a *agent) ended(p process, pidfd int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.current[p] != pidfd {
		return // another process has the pid
	}
	delete(a.current, p)
	if err := errors.Join(a.hooks[p.user].Forget(p.pid), a.drop(p.user)); err != nil {
		a.report(Event{PID: p.pid, User: p.user, Err: err})
	}
}

// drop closes the hook of a user without processes. Preconditions: mu is held.
func (a *agent) drop(user int) error {
	h := a.hooks[user]
	if h.Live() > 0 {
		return nil
	}
	delete(a.hooks, user)
	return h.Close()
}

func (a *agent) close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	var errs []error
	for user, h := range a.hooks {
		errs = append(errs, h.Close())
		delete(a.hooks, user)
	}
	return errors.Join(errs...)
}

func copies(files []*os.File) (fds []int, err error) {
	for _, f := range files {
		raw, err := f.SyscallConn()
		if err != nil {
			return fds, err
		}
		var fd int
		var inner error
		err = raw.Control(func(from uintptr) { fd, inner = unix.FcntlInt(from, unix.F_DUPFD_CLOEXEC, 0) })
		if err = errors.Join(err, inner); err != nil {
			return fds, err
		}
		fds = append(fds, fd)
	}
	return fds, nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd) // copies: the file lives on
	}
}
