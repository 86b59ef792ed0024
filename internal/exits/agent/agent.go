package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/internal/exits"
	"github.com/banyan-hpc/banyan/internal/exits/hook"
)

const (
	// MaxUsers bounds the hooks: each runs a program at every exit on the machine.
	MaxUsers = 64
	// MaxSilent bounds the connections of a user that have sent nothing yet. For one more the
	// oldest is dropped.
	MaxSilent = 128
	// MaxTalks bounds those of all users: the oldest of the user with the most is dropped.
	MaxTalks = 512
	// TalkTime bounds the time until a process sends its request.
	TalkTime = 10 * time.Second
	// wantPause is until the agent looks again for a descriptor that it lacked.
	wantPause = 100 * time.Millisecond
)

// Event is an action of the agent, for a log.
type Event struct {
	PID, User int   // 0 if the agent does not know it
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

	silent silent

	mu    sync.Mutex
	users map[int]*tenant // all that have ever been served
	hooks int             // that are open
}

// tenant is one user's part. Each has a lock of its own: to load a hook takes
// long, and users are not to wait for each other.
type tenant struct {
	mu      sync.Mutex
	hook    *hook.Hook  // nil: no process is registered
	current map[int]int // the pidfd of each that is registered, by pid
}

// Listen opens the socket at "@name" or a path, for all users. A path that is
// left of an agent that has died is replaced, one of a living agent is not.
func Listen(address string) (*net.UnixListener, error) {
	addr := &net.UnixAddr{Name: address, Net: "unixpacket"}
	if address[0] != '@' {
		if err := prepare(filepath.Dir(address)); err != nil {
			return nil, err
		}
	}
	l, err := net.ListenUnix("unixpacket", addr)
	if errors.Is(err, unix.EADDRINUSE) && address[0] != '@' && abandoned(addr) {
		if err := os.Remove(address); err != nil {
			return nil, fmt.Errorf("agent: remove the remains of a dead agent: %w", err)
		}
		l, err = net.ListenUnix("unixpacket", addr)
	}
	if errors.Is(err, unix.EADDRINUSE) {
		return nil, fmt.Errorf("agent: %s is taken: %s; name another address with --address and %s", address, occupant(addr), exits.Env)
	}
	if err != nil {
		return nil, fmt.Errorf("agent: listen at %s: %w", address, err)
	}
	if address[0] != '@' {
		// The agent identifies clients by their user, so any process may connect.
		if err := os.Chmod(address, 0o666); err != nil {
			return nil, errors.Join(fmt.Errorf("agent: %w", err), l.Close())
		}
	}
	return l, nil
}

// prepare makes the socket's directory if it is missing, and refuses one in which
// other users could put a socket of theirs in place of the agent's.
func prepare(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("agent: make the socket's directory: %w: run it as root, or name another address with --address and %s", err, exits.Env)
	}
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return fmt.Errorf("agent: %s: %w", dir, err)
	}
	switch {
	case st.Uid != 0 && int(st.Uid) != os.Geteuid():
		return fmt.Errorf("agent: %s belongs to user %d, which could replace the agent's socket: name another address with --address and %s", dir, st.Uid, exits.Env)
	case st.Mode&0o022 != 0 && st.Mode&unix.S_ISVTX == 0:
		return fmt.Errorf("agent: other users may write in %s and replace the agent's socket: chmod go-w %s", dir, dir)
	}
	return nil
}

// occupant describes the process that listens at an address.
func occupant(addr *net.UnixAddr) string {
	conn, err := net.DialUnix("unixpacket", nil, addr)
	if err != nil {
		return fmt.Sprintf("by a process that takes no connections (%v)", err)
	}
	defer conn.Close()
	peer, err := exits.Peer(conn)
	switch {
	case err != nil:
		return fmt.Sprintf("by an unknown process (%v)", err)
	case peer.Uid != 0 && int(peer.Uid) != os.Geteuid():
		return fmt.Sprintf("by process %d of user %d, which no other user trusts", peer.Pid, peer.Uid)
	}
	return fmt.Sprintf("an agent runs already (process %d of user %d)", peer.Pid, peer.Uid)
}

func abandoned(addr *net.UnixAddr) bool {
	conn, err := net.DialUnix("unixpacket", nil, addr)
	if err == nil {
		conn.Close()
	}
	return errors.Is(err, unix.ECONNREFUSED)
}

// Serve registers each client until ctx ends, and then closes the listener. It begins with a trial,
// so that an agent that cannot work reports that at its start, and then calls ready. report is
// called from several goroutines.
func Serve(ctx context.Context, l *net.UnixListener, ready func(), report func(Event)) error {
	defer l.Close()
	if ok, why := hook.Available(); !ok {
		return fmt.Errorf("agent: %s", why)
	}
	a := &agent{report: report, users: make(map[int]*tenant)}
	var err error
	if a.watch, err = newWatcher(a.ended); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { l.Close() })()
	ready()
	var talks sync.WaitGroup
	for {
		conn, err := a.accept(ctx, l)
		if err != nil {
			talks.Wait()
			err = errors.Join(a.watch.close(), a.close(), acceptError(ctx, err))
			return err
		}
		user := -1
		if peer, err := exits.Peer(conn); err == nil {
			user = int(peer.Uid)
		}
		a.silent.add(user, conn)
		talks.Go(func() { a.talk(conn, user) })
	}
}

// accept waits for the next process. It reports a lack of descriptors or memory, which the
// processes of any user can cause, and waits until it ends.
func (a *agent) accept(ctx context.Context, l *net.UnixListener) (*net.UnixConn, error) {
	for said := false; ; said = true {
		if said {
			a.silent.relieve()
		}
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

// talk serves one process of a user.
func (a *agent) talk(conn *net.UnixConn, user int) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(TalkTime)) // fails on a closed socket alone
	text := make([]byte, exits.TextMax)
	n, err := conn.Read(text)
	a.silent.remove(user, conn)
	if errors.Is(err, net.ErrClosed) { // it was dropped, and more of them are coming: no line for each
		return
	}
	event, rights, err := a.serve(conn, string(text[:n]), err)
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
	_, _, err = conn.WriteMsgUnix(answer, oob, nil)
	closeAll(rights)
	// A process that has disconnected meanwhile does not need an answer.
	if err != nil && !errors.Is(err, unix.EPIPE) && !errors.Is(err, unix.ECONNRESET) {
		event.Err = fmt.Errorf("the answer: %w", err)
		a.report(event)
	}
}

// serve registers a client that has sent Hello. Its message has been read in any case: closing a
// socket with unread data would discard the answer.
func (a *agent) serve(conn *net.UnixConn, text string, readErr error) (event Event, rights []int, err error) {
	peer, pidfd, err := whoIs(conn)
	if err != nil {
		return event, nil, err
	}
	event = Event{PID: int(peer.Pid), User: int(peer.Uid)}
	switch {
	case readErr != nil:
		err = readErr
	case text != exits.Hello:
		err = errors.New("it speaks another version of the protocol: agent and program must be of one build of Banyan")
	default:
		rights, err = a.register(peer, pidfd)
	}
	if err != nil {
		_ = unix.Close(pidfd) // nothing was written: it cannot fail in a way that matters
	}
	return event, rights, err
}

// tenant gives a user's part.
func (a *agent) tenant(user int) *tenant {
	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.users[user]
	if t == nil {
		t = &tenant{current: make(map[int]int)}
		a.users[user] = t
	}
	return t
}

// count counts one more open hook, or one less. It refuses one too many.
func (a *agent) count(by int) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.hooks+by > MaxUsers {
		return fmt.Errorf("the agent serves %d users, and no more at a time", MaxUsers)
	}
	a.hooks += by
	return nil
}

// register enters a process with its user's hook, and takes the pidfd over if it
// succeeds. The descriptors are copies for the caller to pass on and close.
func (a *agent) register(peer *unix.Ucred, pidfd int) ([]int, error) {
	user := int(peer.Uid)
	t := a.tenant(user)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.hook == nil {
		if err := a.count(+1); err != nil {
			return nil, err
		}
		var err error
		if t.hook, err = hook.Open(); err != nil {
			t.hook = nil
			return nil, errors.Join(err, a.count(-1))
		}
	}
	fds, err := a.enter(t, process{int(peer.Pid), user}, pidfd)
	if err != nil {
		return nil, errors.Join(err, a.drop(t))
	}
	return fds, nil
}

// enter registers and watches a process, or does neither. Precondition: the
// tenant's lock is held.
func (a *agent) enter(t *tenant, p process, pidfd int) ([]int, error) {
	fds, err := copies(t.hook.Files())
	if err != nil {
		closeAll(fds)
		return nil, err
	}
	if old, ok := t.current[p.pid]; ok && !over(old) {
		_ = unix.Close(pidfd) // it asks again, and is watched by the first one
		return fds, nil
	} else if ok { // its pid has come back before the watcher has reported its end
		err = t.hook.Forget(p.pid)
	}
	if err == nil {
		err = t.hook.Register(p.pid)
	}
	if err == nil {
		t.current[p.pid] = pidfd
		// From here on ended is called, at once if it has ended already.
		if err = a.watch.add(pidfd, p); err != nil {
			delete(t.current, p.pid)
			err = errors.Join(err, t.hook.Withdraw(p.pid))
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
	t := a.tenant(p.user)
	t.mu.Lock()
	defer t.mu.Unlock()
	if fd, ok := t.current[p.pid]; !ok || fd != pidfd {
		return // another process has the pid
	}
	delete(t.current, p.pid)
	if err := errors.Join(t.hook.Forget(p.pid), a.drop(t)); err != nil {
		a.report(Event{PID: p.pid, User: p.user, Err: err})
	}
}

// drop closes the hook of a user without processes. Precondition: the tenant's lock is held.
func (a *agent) drop(t *tenant) error {
	if t.hook.Live() > 0 {
		return nil
	}
	h := t.hook
	t.hook = nil
	return errors.Join(h.Close(), a.count(-1))
}

// close closes all hooks. No client is served any more.
func (a *agent) close() error {
	var errs []error
	for _, t := range a.users {
		if t.hook != nil {
			errs = append(errs, t.hook.Close())
		}
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
